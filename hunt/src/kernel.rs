//! Descriptions of kernels: what is needed to run one, as data.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// The descriptions that the program was built with.
const KNOWN: &[(&str, &str)] = &[
    ("octox", include_str!("../kernels/octox.toml")),
    ("xv6", include_str!("../kernels/xv6.toml")),
    ("xv6-aarch64", include_str!("../kernels/xv6-aarch64.toml")),
    ("nuttx", include_str!("../kernels/nuttx.toml")),
    ("nanos-aarch64", include_str!("../kernels/nanos-aarch64.toml")),
    ("toaruos", include_str!("../kernels/toaruos.toml")),
    ("starryos", include_str!("../kernels/starryos.toml")),
    ("ward", include_str!("../kernels/ward.toml")),
    ("linux-riscv64", include_str!("../kernels/linux-riscv64.toml")),
    ("linux-arm64", include_str!("../kernels/linux-arm64.toml")),
    ("linux-x86_64", include_str!("../kernels/linux-x86_64.toml")),
    ("lookaside-riscv64", include_str!("../kernels/lookaside-riscv64.toml")),
    ("lookaside-aarch64", include_str!("../kernels/lookaside-aarch64.toml")),
    ("lookaside-x86_64", include_str!("../kernels/lookaside-x86_64.toml")),
];

/// How a kernel is run, and what of it is forgiven.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    #[expect(dead_code, reason = "it is for those who read the file")]
    #[serde(default)]
    pub(crate) licence: String,
    /// Where to get it, as a sentence.
    #[serde(default)]
    pub(crate) get: String,
    pub(crate) architecture: String,
    /// Below the folder of the kernel; a `*` stands for the rest of one name.
    pub(crate) image: PathBuf,
    pub(crate) drive: Option<PathBuf>,
    /// What the boot loader hands to the kernel beside it, below the folder.
    pub(crate) initrd: Option<PathBuf>,
    /// A file below the folder, or `none`; QEMU's own if nothing is said.
    pub(crate) firmware: Option<PathBuf>,
    /// Where busybox is: a user space is made of it.
    pub(crate) busybox: Option<PathBuf>,
    /// MiB.
    pub(crate) memory: u64,
    pub(crate) cpus: u32,
    pub(crate) cpu: Option<String>,
    /// In Bochs: CPUs have `INVLPGB` and `TLBSYNC`, and this is what CPUID says in `EDX[15:0]` of leaf 8000_0008h.
    pub(crate) invlpgb: Option<u16>,
    #[serde(default)]
    pub(crate) append: String,
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
    #[serde(default)]
    pub(crate) drive_arguments: Vec<String>,
    #[serde(default = "none")]
    pub(crate) task: String,
    /// The kernel's list of symbols, as `System.map`, below the folder, where its image has none.
    pub(crate) symbols: Option<PathBuf>,
    #[serde(default)]
    pub(crate) script: Vec<Line>,
    /// What the console says when everything is over.
    #[serde(default)]
    pub(crate) done: Vec<String>,
    pub(crate) seconds: u64,
    /// Findings of which one of these functions is part.
    #[serde(default)]
    pub(crate) forgive: Vec<Forgiven>,
}

fn none() -> String {
    "none".to_owned()
}

/// What is said to the console, once it has said something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) wait: String,
    pub(crate) say: String,
}

/// A function whose findings are known to be none, with the reason.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Forgiven {
    pub(crate) symbol: String,
    pub(crate) reason: String,
}

impl Kernel {
    /// A kernel by its name, or by the path of a description.
    pub(crate) fn load(name: &str) -> Result<Self, String> {
        if let Some((_, text)) = KNOWN.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text);
        }
        if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
            let text = fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?;
            return Self::parse(name, &text);
        }
        let names: Vec<_> = KNOWN.iter().map(|&(known, _)| known).collect();
        let names = names.join(", ");
        Err(format!(
            "there is no kernel `{name}`: {names}, a description FILE.toml, or --image FILE"
        ))
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        toml_edit::de::from_str(text).map_err(|error: toml_edit::de::Error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
            format!("{name}:{line}: {}", error.message().replace('\n', ", "))
        })
    }

    /// A kernel of which nothing is known but its image.
    pub(crate) fn of_image(image: &Path, architecture: &str) -> Self {
        Self {
            name: image.file_name().map_or_else(String::new, |name| name.to_string_lossy().into()),
            licence: String::new(),
            get: String::new(),
            architecture: architecture.to_owned(),
            image: image.to_owned(),
            drive: None,
            initrd: None,
            firmware: None,
            busybox: None,
            memory: 512,
            cpus: 4,
            cpu: None,
            invlpgb: None,
            append: String::new(),
            arguments: Vec::new(),
            drive_arguments: vec!["-device".into(), "virtio-blk-device,drive=x0".into()],
            task: none(),
            symbols: None,
            script: Vec::new(),
            done: Vec::new(),
            seconds: 60,
            forgive: Vec::new(),
        }
    }
}

/// A file below a folder, whose name may end in `*`.
pub(crate) fn find(folder: &Path, file: &Path) -> Result<PathBuf, String> {
    let path = folder.join(file);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let found = match name.as_deref().and_then(|name| name.strip_suffix('*')) {
        None => Some(path.clone()).filter(|path| path.is_file()),
        Some(beginning) => {
            let entries = path.parent().and_then(|parent| fs::read_dir(parent).ok());
            let mut names: Vec<_> = entries
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().starts_with(beginning))
                .map(|entry| entry.path())
                .collect();
            names.sort();
            names.pop()
        }
    };
    found.ok_or_else(|| format!("there is no file {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_can_be_read_and_says_where_to_get_the_kernel() {
        for &(name, _) in KNOWN {
            let kernel = Kernel::load(name).unwrap();
            assert_eq!(kernel.name, name);
            assert!(kernel.get.contains("--from FOLDER"), "{name}");
            assert!(kernel.forgive.iter().all(|forgiven| !forgiven.reason.is_empty()));
        }
    }

    #[test]
    fn linux_on_the_library_names_the_task_where_its_build_puts_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../linux/hunt");
        for name in ["arm64", "riscv64", "x86_64"] {
            let kernel =
                Kernel::load(&folder.join(format!("{name}.toml")).to_string_lossy()).unwrap();
            assert_eq!(kernel.symbols, Some(format!("{name}-lookaside/System.map").into()));
            // Where a variable is changes with the configuration.
            assert!(!kernel.task.starts_with("gs+"), "{name}");
        }
    }

    #[test]
    fn what_cpuid_says_of_invlpgb_has_16_bits() {
        let (_, known) = KNOWN.last().expect("there are some");
        let parse = |line| Kernel::parse("k.toml", &format!("{line}{known}"));
        assert_eq!(parse("").unwrap().invlpgb, None);
        assert_eq!(parse("invlpgb = 7\n").unwrap().invlpgb, Some(7));
        assert!(parse("invlpgb = 65536\n").unwrap_err().starts_with("k.toml:1: "));
    }

    #[test]
    fn a_missing_kernel_or_file_is_named() {
        assert!(Kernel::load("plan9").unwrap_err().contains("octox, xv6"));
        let error = find(Path::new("/nowhere"), Path::new("boot/vmlinux-*")).unwrap_err();
        assert!(error.contains("/nowhere/boot/vmlinux-*"));
    }
}
