//! Says where the data is, and has the crate built again when a file of it is added: the compiler sees changes
//! only of those that it has already.

use std::path::Path;

fn main() {
    for (name, variable) in
        [("machines", "LOOKASIDE_MACHINES"), ("published", "LOOKASIDE_PUBLISHED")]
    {
        // In the repository the data is beside the crate. A published crate has it inside: there the symbolic
        // links of the repository, which some hosts check out as files of text, are folders.
        let beside = format!("../{name}");
        let folder = if Path::new(&beside).is_dir() { beside } else { name.to_owned() };
        println!("cargo::rerun-if-changed={folder}");
        println!("cargo::rustc-env={variable}={folder}");
    }
}
