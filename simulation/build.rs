//! Has the crate built again when a file of data is added: the compiler sees changes only of those
//! that it has already.

fn main() {
    for folder in ["../machines", "../published"] {
        println!("cargo::rerun-if-changed={folder}");
    }
}
