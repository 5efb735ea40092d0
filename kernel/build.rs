//! Tells the linker where the kernel goes.

use std::env;

fn main() {
    let directory = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    println!("cargo::rustc-link-arg-bins=-T{directory}/link/{arch}.ld");
    if arch == "x86_64" {
        // The target asks for an executable that somebody relocates. Nobody relocates this one. The
        // code stays as it is, relative to itself; the other targets do as much without being asked.
        println!("cargo::rustc-link-arg-bins=--no-pie");
    }
    println!("cargo::rerun-if-changed=link");
    println!("cargo::rerun-if-changed=build.rs");
}
