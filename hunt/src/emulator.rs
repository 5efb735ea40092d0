//! The emulator of a run: QEMU, or Bochs where x86-64 is to have PCIDs.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use clap::ValueEnum;

use crate::{
    bochs::Bochs,
    kernel::Kernel,
    qemu::{Machine, Qemu},
};

/// Which emulator is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// All architectures; its x86-64 has no PCIDs.
    #[default]
    Qemu,
    /// x86-64 with PCIDs, one thread for all CPUs.
    Bochs,
}

/// The files of a run.
pub(crate) struct Files<'a> {
    /// A folder that goes away with the run.
    pub(crate) scratch: &'a Path,
    pub(crate) memory: &'a Path,
    pub(crate) image: &'a Path,
    pub(crate) firmware: Option<PathBuf>,
    pub(crate) initrd: Option<&'a Path>,
    pub(crate) drive: Option<&'a Path>,
    pub(crate) append: &'a str,
}

/// An emulator that is there, and can be watched.
#[derive(Debug)]
pub(crate) enum Emulator {
    Qemu(Qemu),
    Bochs(Bochs),
}

impl Emulator {
    /// Finds one that can run a kernel. `setup` is the folder that `--setup` has filled.
    pub(crate) fn find(kind: Kind, kernel: &Kernel, setup: &Path) -> Result<Self, String> {
        match kind {
            Kind::Qemu => {
                if kernel.invlpgb.is_some() {
                    return Err(
                        "QEMU has no INVLPGB; Bochs as it is built here has: --emulator bochs"
                            .into(),
                    );
                }
                let machine = Machine::of(&kernel.architecture)?;
                Qemu::find(machine, setup).map(Self::Qemu)
            }
            Kind::Bochs => Bochs::find(kernel, setup).map(Self::Bochs),
        }
    }

    /// How it is called in sentences.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Qemu(_) => "QEMU",
            Self::Bochs(_) => "Bochs",
        }
    }

    /// A command that runs a kernel, not watched.
    pub(crate) fn command(&self, kernel: &Kernel, files: &Files<'_>) -> Result<Command, String> {
        match self {
            Self::Qemu(qemu) => Ok(qemu.command(kernel, Machine::of(&kernel.architecture)?, files)),
            Self::Bochs(bochs) => bochs.command(kernel, files),
        }
    }

    /// Makes a command load the plugin with its options, `NAME=VALUE` separated by commas.
    pub(crate) fn watch(
        &self,
        command: &mut Command,
        memory: &Path,
        options: &str,
    ) -> Result<(), String> {
        let plugin = self.plugin()?;
        match self {
            Self::Qemu(_) => {
                let (plugin, memory) = (plugin.display(), memory.display());
                command.arg("-plugin").arg(format!("{plugin},memory={memory},{options}"));
            }
            Self::Bochs(_) => {
                command.env("LOOKASIDE_WATCH", plugin).env("LOOKASIDE_OPTIONS", options);
            }
        }
        Ok(())
    }

    /// The plugin: beside this program, or where cargo leaves it.
    pub(crate) fn plugin(&self) -> Result<PathBuf, String> {
        let package = match self {
            Self::Qemu(_) => "lookaside-watch-qemu",
            Self::Bochs(_) => "lookaside-watch-bochs",
        };
        let stem = package.replace('-', "_");
        let name = format!("{}{stem}{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
        let own = env::current_exe().ok();
        let beside = own.as_deref().and_then(Path::parent).into_iter().flat_map(|folder| {
            let places = [folder.to_owned(), folder.join("../release"), folder.join("deps")];
            places.map(|place| place.join(&name))
        });
        let named = env::var_os("LOOKASIDE_WATCH").map(PathBuf::from);
        named
            .into_iter()
            .chain(beside)
            .find(|file| file.is_file())
            .ok_or_else(|| format!("the plugin is not built: `cargo build --release -p {package}`"))
    }
}
