//! `lookaside run`, `sweep` and `experiments` of workload files: which metric decides, what is written, what is refused.

mod experiments;
mod run;
mod sweep;

use std::fs;

use crate::program::{self, lab, refused};

/// What it writes, in one line: sentences are wrapped.
#[track_caller]
fn written(arguments: &[&str]) -> String {
    let text = program::written(arguments);
    if arguments.contains(&"csv") {
        return text;
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A thread gives pages back and another writes to them, for a short time.
const WORKLOAD: &str = r#"
about = "pages are given back while another thread writes"
cpus = 4
time = "300 us"
[parameters]
pages = 16
gap = "20 us"
[[space]]
name = "go"
pages = "cpus * 64"
[[threads]]
name = "scavenger"
space = "go"
cpu = 0
program = """
forever
  begin madvise
  discard (1 + random(cpus - 1)) * 64 pages
  end madvise
  sleep gap
done
"""
[[threads]]
name = "p"
space = "go"
count = "cpus - 1"
cpu = "me + 1"
program = """
forever
  write (me + 1) * 64 + random(64) 1
  work 1 us
  count allocs
done
"""
"#;

/// A thread that keeps the CPU, another that never gets it, and parameters with names of columns.
const COLLECTOR: &str = r#"
about = "a collector that never runs"
cpus = 2
time = "2 ms"
[parameters]
median = 1
least = 1
[[space]]
name = "app"
pages = "median * least * 64"
[[threads]]
name = "busy"
space = "app"
count = 1
cpu = 0
program = """
forever
  work 5 us
  count rounds
done
"""
[[threads]]
name = "collector"
space = "app"
count = 1
cpu = 0
program = """
forever
  work 5 us
  count gc
done
"""
"#;

/// What is said of the collector.
const REMARK: &str = "`gc` is 0 as no thread came to it";

/// A file that is there as long as its folder.
fn file(content: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("go.toml");
    fs::write(&path, content).expect("the file can be written");
    let path = path.to_str().expect("a path").to_owned();
    (folder, path)
}
