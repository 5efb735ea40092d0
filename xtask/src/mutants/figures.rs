//! How many mutants are found by what: the table in `docs/mutants.md`.
//!
//! It is made from the records, the source and what was learned, and not from one run: what a run finds
//! within its seconds differs from machine to machine. That everything is still found is what a run shows.

use core::fmt::Write as _;
use std::{collections::BTreeMap, fs};

use super::{
    hunt::Generated,
    ledger::{Excuses, Finder},
    record::Mutant,
    sites::Kind,
};
use crate::{
    failure::{Context, Failure, Result},
    workspace::Workspace,
};

const FILE: &str = "docs/mutants.md";
const BEGIN: &str = "<!-- written by `cargo xtask mutants --figures` -->\n";
const END: &str = "<!-- end of what is written by `cargo xtask mutants --figures` -->\n";

/// How many mutants of one sort there are, and what finds them.
#[derive(Clone, Copy, Default)]
struct Row {
    explored: usize,
    tested: usize,
    excused: usize,
    unknown: usize,
}

impl Row {
    const fn mutants(self) -> usize {
        self.explored + self.tested + self.excused + self.unknown
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            explored: self.explored + other.explored,
            tested: self.tested + other.tested,
            excused: self.excused + other.excused,
            unknown: self.unknown + other.unknown,
        }
    }

    fn write(self, text: &mut String, name: &str) {
        let Self { explored, tested, excused, unknown } = self;
        let mutants = self.mutants();
        let _ = writeln!(
            text,
            "| {name} | {mutants} | {explored} | {tested} | {excused} | {unknown} |"
        );
    }
}

/// The table.
pub(super) fn table(
    written: &[Mutant],
    generated: &[Generated<'_>],
    excuses: &Excuses,
    hints: &BTreeMap<String, Finder>,
) -> String {
    let explored = written.iter().filter(|mutant| !mutant.scenario.is_empty()).count();
    let by_hand = Row { explored, tested: written.len() - explored, ..Row::default() };
    let mut rows: BTreeMap<Kind, Row> = BTreeMap::new();
    for mutant in generated {
        let row = rows.entry(mutant.kind()).or_default();
        let hint = hints.get(&mutant.name).filter(|_| excuses.of(&mutant.name).is_none());
        *match hint {
            Some(Finder::Scenario(..)) => &mut row.explored,
            Some(Finder::Test(..)) => &mut row.tested,
            None if excuses.covers(&mutant.name).is_some() => &mut row.excused,
            None => &mut row.unknown,
        } += 1;
    }
    let all = rows.values().fold(Row::default(), |all, row| all.plus(*row));
    let mut text = String::from(
        "| kind | mutants | found by exploration | by a test | excused | not known |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    by_hand.write(&mut text, "written by hand");
    for (kind, row) in rows {
        row.write(&mut text, &format!("`{kind}`"));
    }
    all.write(&mut text, "all that are generated");
    text
}

/// Whether the document has this table.
pub(super) fn check(workspace: &Workspace, table: &str) -> Result<()> {
    let path = workspace.root().join(FILE);
    if path.is_file() && replaced(&workspace.read(FILE)?, table)? != workspace.read(FILE)? {
        return Err(Failure::new(format!(
            "the figures in {FILE} are old: `cargo xtask mutants --figures` writes them anew"
        )));
    }
    Ok(())
}

/// Puts the table into the document.
pub(super) fn write(workspace: &Workspace, table: &str) -> Result<()> {
    let path = workspace.root().join(FILE);
    if !path.is_file() {
        return Ok(());
    }
    let text = replaced(&workspace.read(FILE)?, table)?;
    fs::write(&path, text).context(|| format!("writing {}", path.display()))
}

fn replaced(text: &str, table: &str) -> Result<String> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        return Err(Failure::new(format!("{FILE} has no place for the figures: {BEGIN}{END}")));
    };
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::sites::Site;

    #[test]
    fn every_mutant_is_counted_once() {
        let site = Site {
            kind: Kind::Swap,
            id: "a.rs::f/swap-1".to_owned(),
            line: 1,
            code: String::new(),
            changes: ["a", "b", "c", "d"].map(str::to_owned).into(),
            first: 1,
        };
        let sites = [site];
        let generated = Generated::all(&sites);
        let hints = [("a", "tour/2"), ("b", "epochs:e")]
            .map(|(change, by)| (format!("a.rs::f/swap-1/{change}"), Finder::parse(by).unwrap()));
        let excuses =
            toml::from_str("[[class]]\nmutants = ['a.rs::f/swap-1/c']\nwhy = 'w'\n").unwrap();
        let table = table(&[], &generated, &excuses, &hints.into());
        assert!(table.contains("| `swap` | 4 | 1 | 1 | 1 | 1 |\n"), "{table}");
        assert!(table.contains("| written by hand | 0 |"), "{table}");
    }

    #[test]
    fn the_table_is_replaced_and_nothing_else() {
        let text = format!("before\n{BEGIN}old\n{END}after\n");
        let new = replaced(&text, "| new |\n").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\n| new |\n\n{END}after\n"));
        assert_eq!(replaced(&new, "| new |\n").unwrap(), new);
        assert!(replaced("before\nafter\n", "").is_err());
    }
}
