//! Set-up, tests and checks of this workspace.
fn main() {}
