//! Records that are right and wrong, and one small workspace in which mutants are really built.

use std::{env, fs, path::PathBuf, process::Command};

use super::{record::parse, *};
use crate::process;

const GOOD: &str = "\
[[mutant]]
name = 'no-check'
record = 'a bug of the field'
why = 'the check is what it is all about'
architectures = ['x86_64']
file = 'lookaside/src/lib.rs'
find = 'checked()'
replace = 'true'
scenario = ['tour']
";

fn good() -> Mutant {
    parse(GOOD).unwrap().remove(0)
}

#[test]
fn a_record_is_read() {
    let mutant = good();
    assert_eq!((mutant.name.as_str(), mutant.budget), ("no-check", 60));
    assert_eq!(mutant.scenario, ["tour"]);
    assert_eq!(mutant.architectures(), "x86_64");
    assert_eq!(parse("").unwrap(), []);
}

#[test]
fn a_wrong_record_is_refused() {
    let wrong = [
        ("name = 'no-check'", "name = 'No check'", "small letters"),
        ("lookaside/src/lib.rs", "machine/src/lib.rs", "only what is shipped"),
        ("lookaside/src/lib.rs", "lookaside/src/../x", "climb"),
        ("replace = 'true'", "replace = 'checked()'", "change nothing"),
        ("['tour']", "[]", "name nothing"),
        ("['tour']", "['']", "name nothing"),
        ("scenario = ['tour']", "test = ['tour']", "`program:name`"),
        ("'a bug of the field'", "''", "must say something"),
        ("x86_64", "vax", "`vax` is none of"),
        ("why = ", "whi = ", "whi"),
        ("find = 'checked()'\n", "", "find"),
    ];
    for (from, to, expected) in wrong {
        assert!(GOOD.contains(from), "{from}");
        let why = parse(&GOOD.replace(from, to)).unwrap_err();
        assert!(why.contains(expected), "{from} -> {to}: {why}");
    }
}

#[test]
fn a_mutant_is_put_in_exactly_once() {
    let mutant = good();
    assert_eq!(mutant.apply("if checked() {}").unwrap(), "if true {}");
    for (text, expected) in [("", "does not occur"), ("checked() checked()", "occurs 2 times")] {
        let failure = mutant.apply(text).unwrap_err().to_string();
        assert!(failure.contains(expected), "{failure}");
    }
}

/// A workspace with a library of a few functions and an "explorer" that calls them.
struct Fixture(PathBuf);

impl Fixture {
    fn new(name: &str) -> Self {
        let root = env::temp_dir().join(format!("lookaside-xtask-{}-{name}", std::process::id()));
        let fixture = Self(root);
        fixture.write(".gitignore", "/target\n");
        fixture.write(
            "Cargo.toml",
            "[workspace]\nresolver = '3'\nmembers = ['lookaside', 'explorer']\n",
        );
        fixture.write(
            "lookaside/Cargo.toml",
            "[package]\nname = 'lookaside'\nversion = '0.1.0'\nedition = '2024'\n",
        );
        fixture.write("lookaside/src/lib.rs", LIBRARY);
        fixture.write(
            "explorer/Cargo.toml",
            "[package]\nname = 'lookaside-explorer'\nversion = '0.1.0'\nedition = '2024'\n\
             [[bin]]\nname = 'lookaside-explorer'\npath = 'src/main.rs'\n\
             [dependencies]\nlookaside = { path = '../lookaside' }\n",
        );
        fixture.write(
            "explorer/src/main.rs",
            r#"
            fn main() {
                let words: Vec<String> = std::env::args().skip(1).collect();
                assert_eq!(words[0], "explore");
                if words.len() == 1 {
                    println!("sums adds\nproducts multiplies\nleast compares");
                    return;
                }
                assert_eq!(words[2].as_str(), "--budget");
                let right = match words[1].as_str() {
                    "sums" => lookaside::sum(2, 3) == 5,
                    "products" => lookaside::product(2, 3) == 6,
                    "least" => lookaside::least(2, 3) == 2,
                    _ => std::process::exit(2),
                };
                if right {
                    println!("clean: 3 schedules");
                } else {
                    println!("1 | CPU 0 | adds\nafter 2 schedules\nschedule: v1:00.01");
                    std::process::exit(1);
                }
            }
            "#,
        );
        process::output(Command::new("git").args(["init", "--quiet"]).current_dir(&fixture.0))
            .unwrap();
        fixture
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn mutants(&self, mutants: &[(&str, &str, &str, &str)]) {
        let records = mutants.iter().map(|(name, find, replace, scenario)| {
            format!(
                "[[mutant]]\nname = '{name}'\nrecord = 'r'\nwhy = 'w'\n\
                 file = 'lookaside/src/lib.rs'\nfind = '{find}'\nreplace = '{replace}'\n\
                 scenario = ['{scenario}']\n"
            )
        });
        self.write("mutants/all.toml", &records.collect::<String>());
    }

    fn run(&self, names: &[&str]) -> Result<()> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.try_out(&Options { names, written: true, ..Options::default() })
    }

    fn try_out(&self, options: &Options) -> Result<()> {
        run(&Workspace::at(&self.0), options)
    }
}

/// With one check, which matters if `a` is greater and can be left out otherwise.
const LIBRARY: &str = "
pub fn sum(a: u8, b: u8) -> u8 { a + b }
pub fn product(a: u8, b: u8) -> u8 { a * b }
pub const fn halved(a: u8) -> u8 { a / 2 }
pub fn least(a: u8, b: u8) -> u8 { if a < b { a } else { halved(2 * b) } }

#[cfg(test)]
mod tests {
    #[test]
    fn the_least_of_two() {
        assert_eq!((super::least(2, 3), super::least(5, 3)), (2, 3));
    }
}
";

impl Drop for Fixture {
    fn drop(&mut self) {
        // Left-overs in the directory for temporary files harm nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn fails_with(result: Result<()>, expected: &str) {
    let failure = result.unwrap_err().to_string();
    assert!(failure.contains(expected), "expected `{expected}`, got: {failure}");
}

#[test]
fn mutants_are_built_found_and_taken_out_again() {
    let fixture = Fixture::new("found");
    assert_eq!(fixture.run(&[]), Ok(()), "no mutants at all");

    let sum = ("minus", "a + b", "a - b.min(a)", "sums");
    let product = ("plus", "a * b", "a + b", "products");
    let blind = ("swapped", "a + b", "b + a", "sums");
    let unseen = ("unseen", "a * b", "a + b", "sums");
    fixture.mutants(&[sum, product, blind, unseen]);
    assert_eq!(fixture.run(&["minus", "plus"]), Ok(()));
    // Neither of the two has left anything behind that would make a third look found.
    fails_with(fixture.run(&["minus", "plus", "swapped"]), "1 mutants were not found");
    fails_with(fixture.run(&[]), "2 mutants were not found");
    let source = fs::read_to_string(fixture.0.join("lookaside/src/lib.rs")).unwrap();
    assert_eq!(source, LIBRARY);

    // A mutant that does not build is an error, and so is a scenario that does not exist.
    fixture.mutants(&[("typo", "a + b", "a + c", "sums")]);
    fails_with(fixture.run(&[]), "cannot find value `c`");
    fixture.mutants(&[("lost", "a + b", "a", "quotients")]);
    fails_with(fixture.run(&[]), "quotients");
    // One that cannot be chosen at run time has a build of its own, and leaves nothing behind.
    fixture.mutants(&[("quartered", "a / 2", "a / 4", "least"), sum]);
    fails_with(fixture.run(&[]), "1 mutants were not found: quartered (least)");
    let copy = fixture.0.join("target/mutants/src-0/lookaside/src/lib.rs");
    assert_eq!(fs::read_to_string(copy).unwrap(), LIBRARY);
    // Source that is not clean proves nothing.
    fixture.mutants(&[sum]);
    fixture.write(
        "lookaside/src/lib.rs",
        "pub fn sum(a: u8, b: u8) -> u8 { a + b + 1 }\npub fn product(_: u8, _: u8) -> u8 { 6 }\n\
         pub fn least(a: u8, _: u8) -> u8 { a }\n",
    );
    fails_with(fixture.run(&[]), "as it is does not pass");
    // A record that no longer fits is an error before anything is built.
    fixture.mutants(&[product]);
    fails_with(fixture.run(&[]), "does not occur");
}

#[test]
fn generated_mutants_are_explored_then_tested_then_excused() {
    let fixture = Fixture::new("generated");
    let all = Options { generated: true, ..Options::default() };
    // Without the explorer's scenario only the test shows what `always` does.
    assert_eq!(fixture.try_out(&all), Ok(()), "one is found by each");

    let excused = |mutant: &str, code: &str| {
        let text = format!("[[excused]]\nmutant = '{mutant}'\ncode = '{code}'\nwhy = 'w'\n");
        fixture.write("mutants/excused.toml", &text);
    };
    excused("lib.rs::least/check-1/never", "a < b");
    fails_with(fixture.try_out(&all), "excused, and found all the same");
    excused("lib.rs::least/check-1/never", "a <= b");
    fails_with(fixture.try_out(&all), "its code is now `a < b`");
    excused("lib.rs::least/check-2/never", "a < b");
    fails_with(fixture.try_out(&all), "no such mutant");
}

#[test]
fn a_written_mutant_may_be_found_by_a_test() {
    let fixture = Fixture::new("tested");
    let record = |test: &str| {
        let text = format!(
            "[[mutant]]\nname = 'greatest'\nrecord = 'r'\nwhy = 'w'\nfile = 'lookaside/src/lib.rs'\n\
             find = 'a < b'\nreplace = 'b < a'\ntest = ['{test}']\n"
        );
        fixture.write("mutants/all.toml", &text);
    };
    record("lookaside:tests::the_least_of_two");
    assert_eq!(fixture.run(&[]), Ok(()));
    record("lookaside:tests::the_greatest_of_two");
    fails_with(fixture.run(&[]), "1 mutants were not found");
}

#[test]
fn every_scenario_shows_a_mutant_that_it_finds() {
    let fixture = Fixture::new("teeth");
    let sum = ("minus", "a + b", "a - b.min(a)", "sums");
    let product = ("plus", "a * b", "a + b", "products");
    let least = ("greatest", "a < b", "b < a", "least");
    fixture.mutants(&[sum, product, least]);
    let teeth = |learn| fixture.try_out(&Options { teeth: true, learn, ..Options::default() });
    fails_with(teeth(false), "least, products, sums");
    assert_eq!(teeth(true), Ok(()));
    let ledger = fixture.0.join("mutants/teeth.toml");
    let text = fs::read_to_string(&ledger).unwrap();
    for line in ["\"sums\" = \"minus\"", "\"products\" = \"plus\"", "\"least\" = \"greatest\""] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(teeth(false), Ok(()));
    // A scenario that does less than it did finds nothing.
    let main = fs::read_to_string(fixture.0.join("explorer/src/main.rs")).unwrap();
    fixture.write("explorer/src/main.rs", &main.replace("lookaside::sum(2, 3) == 5", "true"));
    fails_with(teeth(false), "find no mutant");
    // The ledger of a scenario that is gone is out of date, and learning forgets it.
    fixture.write("explorer/src/main.rs", &main.replace("sums", "sums-of-two"));
    fails_with(teeth(false), "there is no scenario sums");
}
