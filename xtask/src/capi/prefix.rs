//! The library as a kernel's build takes it: headers, archive, object, and what pkg-config and CMake read.

use std::path::Path;

use super::{Target, archive, check, write};
use crate::{failure::Result, workspace::Workspace};

/// For RISC-V kernels without SBI firmware, and for tests of them on the host.
const RISCV_HEADER: &str = "capi/include/lookaside_riscv.h";
const PKG_CONFIG: &str = "capi/lookaside.pc.in";
const CMAKE: &str = "capi/LookasideConfig.cmake.in";
/// What the library is built for if nothing else is said.
const MAX_CPUS: u32 = 64;

/// Lays it out: `include`, `lib`, `lib/pkgconfig`, `lib/cmake/Lookaside`.
pub(super) fn lay_out(
    workspace: &Workspace,
    target: Target,
    max_cpus: Option<u32>,
    object: &[u8],
    prefix: &Path,
) -> Result<()> {
    let library = prefix.join("lib");
    write(&prefix.join("include/lookaside.h"), workspace.read(check::HEADER)?)?;
    write(&prefix.join("include/lookaside_riscv.h"), workspace.read(RISCV_HEADER)?)?;
    write(&library.join("lookaside.o"), object)?;
    let functions = check::functions(workspace)?;
    write(&library.join("liblookaside.a"), archive::around("lookaside.o", object, &functions))?;
    let host = if target == Target::Host { "LOOKASIDE_HOST=1" } else { "" };
    let fill = |text: &str, define: &str| {
        text.replace("@version@", env!("CARGO_PKG_VERSION"))
            .replace("@max_cpus@", &max_cpus.unwrap_or(MAX_CPUS).to_string())
            .replace(
                "@host@",
                &if host.is_empty() { String::new() } else { format!("{define}{host}") },
            )
    };
    let pkg_config = fill(&workspace.read(PKG_CONFIG)?, " -D");
    write(&library.join("pkgconfig/lookaside.pc"), pkg_config)?;
    let cmake = fill(&workspace.read(CMAKE)?, ";");
    write(&library.join("cmake/Lookaside/LookasideConfig.cmake"), cmake)
}
