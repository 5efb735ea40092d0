//! Commands whose libraries have the other tests: how they end, what they say, what they write.

#[cfg(target_os = "linux")]
mod calibrate;
mod litmus;
