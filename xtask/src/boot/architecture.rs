//! The architectures that the kernel is for.

use core::fmt;
use std::{env, fs::File};

use clap::ValueEnum;

use crate::failure::{Context, Failure, Result};

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
    #[value(name = "riscv64")]
    Riscv64,
}

impl Architecture {
    pub(crate) const ALL: [Self; 3] = [Self::X86_64, Self::Aarch64, Self::Riscv64];

    /// Its name: for cargo, for QEMU and for the directories of the kernel.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Riscv64 => "riscv64",
        }
    }

    /// The target that the kernel and its programs are built for. Neither saves registers of floating
    /// point, so on Arm the compiler must be told not to use them.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-none",
            Self::Aarch64 => "aarch64-unknown-none-softfloat",
            Self::Riscv64 => "riscv64gc-unknown-none-elf",
        }
    }

    /// Whether this machine can execute the kernel's instructions itself.
    pub(super) fn check_kvm(self) -> Result<()> {
        if env::consts::ARCH != self.name() {
            return Err(Failure::new(format!(
                "this machine is {}: KVM here cannot execute {self}",
                env::consts::ARCH
            )));
        }
        let device = "/dev/kvm";
        let opened = File::options().read(true).write(true).open(device);
        opened.map(drop).context(|| format!("opening {device}, which KVM takes"))
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
