//! Which threads run where, in which spaces.

use lookaside_terminal::Refused;

use super::{
    MOST_PAGES, Space, Workload,
    expression::{Scope, Values},
};
use crate::data::{self, Program};

impl Workload {
    /// Refuses a space with too many pages, or none, or more that are mapped than it has.
    fn check_pages(&self, space: &Space, count: f64, values: Values<'_>) -> Result<(), Refused> {
        let refuse =
            |why: String| Err(Refused(format!("{}:{}: {why}", self.program.file, space.line)));
        let spaces = if space.each { (count as usize).max(1) } else { 1 };
        let mut all = 0.0;
        for me in 0..spaces {
            let values = Values { threads: count as usize, me, ..values };
            let [pages, mapped] = [&space.pages, &space.mapped].map(|number| number.value(values));
            all += pages;
            if !(1.0..=MOST_PAGES).contains(&pages) || all > MOST_PAGES {
                let each =
                    if space.each { format!(" for thread {me} of {count}") } else { String::new() };
                return refuse(format!(
                    "`pages` is {pages}{each}, and has to be from 1 to {MOST_PAGES} in all"
                ));
            }
            if let Some(unit) = &space.unit {
                let size = unit.pages.value(values);
                let (what, count) = match pages % size == 0.0 || !unit.is_huge {
                    true => ("mapped", mapped),
                    false => ("pages", pages),
                };
                if count % size != 0.0 {
                    let of = if unit.is_huge { "huge pages" } else { "folios" };
                    return refuse(format!(
                        "`{what}` is {count}, and the memory comes in {of} of {size} pages of 4 KiB: take a multiple of {size}"
                    ));
                }
            }
            if !(0.0..=pages).contains(&mapped) {
                return refuse(format!("`mapped` is {mapped}, and `pages` {pages}: map fewer"));
            }
        }
        Ok(())
    }

    /// Where every thread runs: its group, its place there, its CPU.
    pub(super) fn plan(&self, values: Values<'_>) -> Result<Vec<[usize; 3]>, Refused> {
        let mut plan = Vec::new();
        for (which, group) in self.groups.iter().enumerate() {
            let at = |why: String| Refused(format!("{}:{}: {why}", self.program.file, group.line));
            let count = group.count.value(values);
            if !(0.0..=1e6).contains(&count) {
                let why = "and has to be from 0 to a million";
                return Err(at(format!("the `count` of `{}` is {count}, {why}", group.name)));
            }
            self.check_pages(&self.spaces[group.space], count, values)?;
            for me in 0..count as usize {
                let here = Values { me, threads: count as usize, ..values };
                let cpu = group.cpu.value(here);
                if cpu < 0.0 || cpu >= values.cpus as f64 || cpu.fract() != 0.0 {
                    let (name, cpus) = (&group.name, values.cpus);
                    let why = format!("thread {me} of `{name}` is to run on CPU {cpu}");
                    return Err(at(format!("{why}, and there are {cpus}")));
                }
                plan.push([which, me, cpu as usize]);
            }
        }
        match plan.is_empty() {
            true => {
                let (file, line) = (&self.program.file, self.groups[0].line);
                let why = "it has no thread: every `count` is 0";
                Err(Refused(format!("{file}:{line}: {why}")))
            }
            false => Ok(plan),
        }
    }
}

/// Which names the keys of a space may have: `me` if each thread has one, and `threads` if they are those of one group.
pub(super) fn scope(space: &data::Space, program: &Program) -> Scope {
    let groups = program.threads.iter().filter(|threads| threads.space == space.name).count();
    match (space.each, groups) {
        (true, _) => Scope::Thread,
        (false, 1) => Scope::Group,
        _ => Scope::Run,
    }
}
