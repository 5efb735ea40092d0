//! Writes reports of made-up results, to look at: `cargo run -p lookaside-replay --example report FOLDER`.
//!
//! `cargo xtask report` looks at them in a browser.

use std::{env, io, path::PathBuf};

// The made-up documents are those of the tests, which name these as parts of the crate.
use lookaside_replay::{Blame, Latency, Operations, Replayed, Upkeep, WorkingSet, report};

#[path = "../src/report/sample.rs"]
mod sample;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "target/report".to_owned()));
    let documents = [
        ("ordinary", sample::ordinary()),
        ("crowded", sample::crowded()),
        ("idle", sample::idle()),
        ("hostile", sample::hostile()),
    ];
    for (name, document) in documents {
        let folder = folder.join(name);
        let files = report::write(&document, &folder)?;
        println!("{}: {}", folder.display(), files.join(", "));
    }
    Ok(())
}
