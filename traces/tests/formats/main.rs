//! Traces of every format are read as they are meant, and files that are damaged or made in bad faith do no
//! harm.
//!
//! The samples are excerpts of real recordings: of tracefs, of `trace-cmd report` 3.1.6 plain and with `-R
//! -t`, of `perf script` 6.1 with the fields that the documentation asks for and with its own, all on Linux
//! 6.18 with two CPUs, and of valgrind's lackey 3.19. Names of threads that were not the program's own
//! have others of the same kind; parts are left out between the lines. Lines that stand in these tests
//! themselves were written after what the tools' sources print.

mod binary;
mod damage;
mod damaged_files;
mod dialects;
mod lackey;
mod lines;
mod own;

use std::path::{Path, PathBuf};

use lookaside_traces::{BadTrace, Trace, import};

/// A sample.
fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(name)
}

/// The text of a sample.
fn text(name: &str) -> String {
    std::fs::read_to_string(sample(name)).expect("a sample")
}

/// A sample, read.
fn read(name: &str) -> Trace {
    import::open(&sample(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// Text, read.
fn read_text(text: impl AsRef<[u8]>) -> Result<Trace, BadTrace> {
    import::read_text(text.as_ref(), Path::new("text"))
}
