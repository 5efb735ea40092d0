//! Tells the linker where programs live.

use std::{env, path::Path};

fn main() {
    println!("cargo:rerun-if-changed=link.ld");
    let base = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => 0x80_0010_0000_u64,
        Ok("aarch64") => 0x40_0000,
        Ok("riscv64") => 0x10_0010_0000,
        // Nothing to link: the linter of the host, for example.
        _ => return,
    };
    let script = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("link.ld");
    // Code may be position independent, which reaches any address; the program is not, so that no
    // relocation is left to the loader.
    for argument in ["--no-pie", "--static", "-zmax-page-size=4096", "-znognustack"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    println!("cargo:rustc-link-arg-bins=--defsym=BASE={base:#x}");
    println!("cargo:rustc-link-arg-bins=-T{}", script.display());
}
