//! The SHA-256 of the library's source, which is in the results of a check. It is computed here, so that the program does not
//! carry the source.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

fn main() -> io::Result<()> {
    // As in `simulation/build.rs`: beside the crate in the repository, inside it when it is published.
    let beside = "../lookaside/src";
    let folder = Path::new(if Path::new(beside).is_dir() { beside } else { "library" });
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let name = file.strip_prefix(folder).expect("it was listed below the folder");
        let contents = fs::read(&file)?;
        hash.update(name.to_string_lossy().replace('\\', "/").as_bytes());
        hash.update([0]);
        hash.update((contents.len() as u64).to_le_bytes());
        hash.update(contents);
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=LOOKASIDE_SOURCE={digest}");
    Ok(())
}

/// All files below a folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
