//! Commands that this program was built without: what to do instead.

use std::ffi::OsString;

/// Those that need Linux.
const LINUX: [&str; 3] = ["record", "calibrate", "watch"];

/// Those of the features `checks` and `traces`.
const FEATURES: [&str; 17] = [
    "advise",
    "record",
    "calibrate",
    "import",
    "replay",
    "diff",
    "what-if",
    "watch",
    "completions",
    "man",
    "against-linux",
    "litmus",
    "differential",
    "explore",
    "check",
    "zoo",
    "hunt",
];

/// Why there is no such command, in one sentence.
pub(crate) fn why(words: &[OsString]) -> String {
    let name = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    if LINUX.contains(&&*name) && !cfg!(target_os = "linux") {
        return format!(
            "`{name}` needs Linux: run it there, and take the file that it writes to this system"
        );
    }
    if FEATURES.contains(&&*name) {
        return format!(
            "this program was built without `{name}`: `cargo lab {name}` in the repository, or \
             `cargo install --path lab`, has it"
        );
    }
    format!("there is no command `{name}`; `lookaside help` lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_another_build_says_where_it_is() {
        assert!(why(&["explore".into()]).contains("cargo lab explore"));
        assert!(why(&["exlore".into()]).contains("lookaside help"));
    }
}
