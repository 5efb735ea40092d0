//! The command line of Lookaside.
fn main() {}
