//! Has the crate built again when a scenario is kept: the compiler sees changes only of the files that it has
//! already.

fn main() {
    println!("cargo::rerun-if-changed=kept");
}
