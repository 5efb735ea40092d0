//! Says where the source of the library is, whose digest is in the results of a check.

use std::path::Path;

fn main() {
    // As in `simulation/build.rs`: beside the crate in the repository, inside it when it is published.
    let beside = "../lookaside/src";
    let folder = if Path::new(beside).is_dir() { beside } else { "library" };
    println!("cargo::rerun-if-changed={folder}");
    println!("cargo::rustc-env=LOOKASIDE_SOURCE={folder}");
}
