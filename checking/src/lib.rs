//! Checking: every scenario of the library on the adversarial machine, explored in ever deeper rounds ([`check`]),
//! and litmus tests of others and of our own ([`litmus`]).

pub mod check;
pub mod litmus;
