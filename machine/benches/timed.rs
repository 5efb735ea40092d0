//! How fast the timed machine simulates: events a second.
fn main() {}
