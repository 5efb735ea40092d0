//! Where the workspace is, and which files belong to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    failure::{Context, Failure, Result},
    process,
};

/// A checkout of this repository.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built from.
    ///
    /// `cargo run` says at run time where the package is. That is asked first: with a target
    /// directory that several checkouts share, the path known at compile time may be another's.
    pub(crate) fn find() -> Result<Self> {
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package
            .parent()
            .ok_or_else(|| Failure::new(format!("{} has no parent", package.display())))?
            .to_path_buf();
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(target) => root.join(target),
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// A workspace at another place.
    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf(), target: root.join("target") }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where build outputs go. Ignored by git.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Every file that git tracks or would track, relative to the root, in order.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let mut git = Command::new("git");
        git.current_dir(&self.root).args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ]);
        let output = process::output(&mut git).map_err(|failure| {
            Failure::new(format!(
                "{failure}\nThe files of the workspace are listed by git: run this in a git \
                 checkout, with git installed (Debian: apt-get install git)."
            ))
        })?;
        let names: BTreeSet<String> = output
            .split('\0')
            .filter(|name| !name.is_empty() && self.root.join(name).is_file())
            .map(str::to_owned)
            .collect();
        Ok(names.into_iter().collect())
    }

    /// The text of a file, given relative to the root.
    pub(crate) fn read(&self, file: &str) -> Result<String> {
        let path = self.root.join(file);
        fs::read_to_string(&path).context(|| format!("reading {}", path.display()))
    }

    /// Makes `to` a copy of the workspace: its files and nothing else.
    ///
    /// A file that is the same already keeps its time stamp, so that cargo builds only what
    /// changed since the last copy.
    pub(crate) fn copy_to(&self, to: &Path) -> Result<()> {
        self.copy_with(to, &BTreeMap::new())
    }

    /// As [`Self::copy_to`], with other texts for some files, and perhaps more of them.
    pub(crate) fn copy_with(&self, to: &Path, texts: &BTreeMap<String, String>) -> Result<()> {
        let mut files = self.files()?;
        files.retain(|file| !texts.contains_key(file));
        let wanted: BTreeSet<PathBuf> =
            files.iter().chain(texts.keys()).map(|file| to.join(file)).collect();
        if to.exists() {
            remove_all_but(&wanted, to).context(|| format!("clearing {}", to.display()))?;
        }
        let copying = |file: &str| format!("copying {file} to {}", to.display());
        for file in &files {
            fs::read(self.root.join(file))
                .and_then(|text| write_if_different(&text, &to.join(file)))
                .context(|| copying(file))?;
        }
        for (file, text) in texts {
            write_if_different(text.as_bytes(), &to.join(file)).context(|| copying(file))?;
        }
        Ok(())
    }
}

fn remove_all_but(wanted: &BTreeSet<PathBuf>, directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            remove_all_but(wanted, &path)?;
        } else if !wanted.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn write_if_different(text: &[u8], to: &Path) -> io::Result<()> {
    if fs::read(to).is_ok_and(|present| present == text) {
        return Ok(());
    }
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(to, text)
}
