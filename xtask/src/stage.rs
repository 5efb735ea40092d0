//! The steps of the gate by what they cost: a contributor runs the first stage, CI all three.

/// What is to be run.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// The steps of this stage and of those before it.
    pub(crate) stage: u8,
    /// Only the steps whose names contain one of these texts, if there are any.
    pub(crate) only: Vec<String>,
}

impl Selection {
    /// Whether a step is run.
    pub(crate) fn contains(&self, step: &str) -> bool {
        match &self.only[..] {
            [] => stage_of(step) <= self.stage,
            only => only.iter().any(|text| step.contains(text)),
        }
    }

    /// What is to be done, and how long it takes.
    pub(crate) fn announced(&self) -> String {
        if !self.only.is_empty() {
            return format!("the steps whose names contain {}", self.only.join(" or "));
        }
        let [about, minutes] = STAGES[usize::from(self.stage) - 1];
        format!("stage {} of 3: {about}; about {minutes} minutes on two free cores", self.stage)
    }
}

/// What the stages hold, and how many minutes they take with those before them, from an empty `target` folder.
const STAGES: [[&str; 2]; 3] = [
    ["text, names and format, and the tests of what kernels link", "3"],
    ["and all lints, builds for bare metal and tests, the C interface, the packages", "15"],
    ["and exploration, loom, Miri, emulators, mutants and the first build of a newcomer", "60"],
];

/// Beginnings of the names of the steps of the first stage.
const FIRST: [&str; 12] = [
    "format",
    "long files",
    "words",
    "map",
    "root names",
    "imports",
    "fences",
    "seeds",
    "lint, libraries",
    "tests, libraries",
    "lines of the integration",
    "mutants fit",
];

/// Beginnings of the names of the steps of the second stage.
const SECOND: [&str; 7] = [
    "lint",
    "build, ",
    "dependencies",
    "tests, tools and documentation",
    "C ",
    "instructions",
    "path length",
];

/// The stage of a step. Steps that no list names come last: whatever is new runs in the whole gate.
fn stage_of(step: &str) -> u8 {
    let begins = |names: &[&str]| names.iter().any(|name| step.starts_with(name));
    if begins(&FIRST) {
        1
    } else if begins(&SECOND) || step == "packages" {
        2
    } else {
        3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_has_the_steps_of_those_before_it_and_what_is_new_comes_last() {
        let to = |stage| Selection { stage, only: Vec::new() };
        assert!(to(1).contains("words") && !to(1).contains("lint, host"));
        assert!(to(2).contains("words") && to(2).contains("lint, host"));
        assert!(!to(2).contains("boot, x86_64") && to(3).contains("boot, x86_64"));
        assert_eq!(stage_of("lint, libraries"), 1);
        assert_eq!(stage_of("a step of tomorrow"), 3);
        assert!(to(1).announced().contains("stage 1 of 3"));
    }
}
