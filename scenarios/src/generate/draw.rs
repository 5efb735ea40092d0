//! Drawing a program.

use std::collections::BTreeSet;

use lookaside::tags::Cookie;

use super::{
    corpus::Corpus,
    draw_blocks, draw_pairs, halting, mutate,
    pairs::{OPERATIONS, Pair, Pairs},
    random::Random,
};
use crate::scenario::{
    Program,
    act::Act,
    hardware::More,
    machine::KINDS,
    program::{SpaceProgram, Strategy},
    script::Few,
};

/// How often a program has a pair of operations that was missing.
const STEERED: usize = 35;
/// How often a program is a change of one that reached a rare location of the library.
const RARE: usize = 30;
/// How often a program is about blocks of page-table entries.
const BLOCKS: usize = 6;
/// How often a program is about a kernel that runs user mode under another root or tag.
const USER_ROOTS: usize = 6;
/// How often a program is about rollover.
const ROLLOVERS: usize = 25;
/// How often a program has few sorts of operations. Programs that are about everything hardly ever do the same
/// thing three times (swarm testing: Groce and others, ISSTA 2012).
const SWARM: usize = 60;
/// How often a CPU of a program halts.
const HALTED: usize = 3;
/// How many programs are tried for a pair.
const ATTEMPTS: u32 = 100;
/// The space that most acts are about.
const FOCUS: usize = 0;
/// How often they are.
const FOCUSED: usize = 70;

/// Draws a program that is allowed.
pub(super) fn program(random: &mut Random, pairs: &Pairs, corpus: &Corpus) -> Program {
    let how = random.below(100);
    let wanted = if how < STEERED { pairs.missing(|count| random.below(count)) } else { None };
    let rare = if (STEERED..STEERED + RARE).contains(&how) { corpus.rare(random) } else { None };
    // A pair may need more acts than a program has room for.
    for attempt in 0.. {
        let program = match rare.filter(|_| attempt < ATTEMPTS) {
            Some(rare) => mutate::program(random, rare),
            None if how >= 100 - BLOCKS => Program::Blocks(draw_blocks::program(random)),
            None if how >= 100 - BLOCKS - USER_ROOTS => Program::Pairs(draw_pairs::program(random)),
            None => Program::Spaces(candidate(random, wanted.filter(|_| attempt < ATTEMPTS))),
        };
        if program.check().is_ok() {
            return program;
        }
    }
    unreachable!("some program is allowed")
}

/// What the acts of a program are drawn from.
pub(super) struct Theme {
    pub(super) spaces: usize,
    /// Of a hundred acts, how many are switches beside those that are drawn as such.
    switches: usize,
    longest: usize,
    /// How often each operation is drawn, beside the others.
    weights: Vec<usize>,
}

impl Theme {
    /// One in which every operation is as likely as it is by itself.
    pub(super) fn all(spaces: usize) -> Self {
        let weights = OPERATIONS.iter().map(|operation| operation.weight).collect();
        Self { spaces, switches: 10, longest: 4, weights }
    }

    /// Raises the weight of operations that show bugs on a machine with options: with early loads, writing
    /// out the last store of user code; where absent entries are cached, faults; with NMIs, changes of user
    /// memory.
    fn prefer(&mut self, more: More) {
        let shows: [(bool, &[&str]); 3] = [
            (more.early, &["Run", "Write", "SwapOut"]),
            (more.invalid, &["Fill", "Unfill", "Look", "Remap", "Allow", "Protect", "Retry"]),
            (more.nmis, &["Run", "Lazy", "Unmap", "UnmapEarly"]),
        ];
        let most: usize = self.weights.iter().sum();
        for (_, names) in shows.into_iter().filter(|(does, _)| *does) {
            for (operation, weight) in OPERATIONS.iter().zip(&mut self.weights) {
                if names.contains(&operation.name) {
                    *weight += most / names.len();
                }
            }
        }
    }

    /// Keeps few sorts of operations, all as likely.
    fn swarm(&mut self, random: &mut Random) {
        let kept = [5, 10, 25][random.below(3)];
        let chosen = |&weight: &usize| usize::from(weight > 0 && random.percent(kept));
        let weights: Vec<_> = self.weights.iter().map(chosen).collect();
        if weights.contains(&1) {
            self.weights = weights;
        }
    }
}

fn candidate(random: &mut Random, wanted: Option<Pair>) -> SpaceProgram {
    let cpus = [1, 2, 3, 4][random.weighted([5, 70, 20, 5].into_iter())];
    let cpus = if wanted.is_some_and(|pair| !pair.same) { cpus.max(2) } else { cpus };
    let kind = random.below(KINDS.len());
    let recent = KINDS[kind].interrupts()
        && !KINDS[kind].shares()
        && (!KINDS[kind].has_tags() || random.percent(60));
    let rollovers = !recent && random.percent(ROLLOVERS);
    let mut theme = if rollovers {
        let switches = [55, 80, 95][random.below(3)];
        Theme { switches, longest: 6, ..Theme::all(4 + random.below(3)) }
    } else {
        Theme::all(1 + random.below(3))
    };
    if random.percent(SWARM) {
        theme.swarm(random);
    }
    let more = more(random, kind);
    theme.prefer(more);
    let mut scripts: Vec<Vec<Act>> = (0..cpus).map(|_| script(random, &theme)).collect();
    if let Some(pair) = wanted {
        insert(random, &theme, &mut scripts, pair);
    }
    if scripts.len() > 1 && random.percent(HALTED) {
        halting::halt(random, &theme, &mut scripts);
    } else {
        hand_over(random, &mut scripts);
        scripts.iter_mut().for_each(|acts| finish(random, acts));
        order(random, &mut scripts);
    }
    let strategy = if recent {
        Strategy::PerCpuAsids
    } else {
        Strategy::GlobalAsids(few(random, kind, rollovers, &scripts))
    };
    let mut program = SpaceProgram { kind, more, strategy, cpus: scripts };
    // One CPU has one root, and a large page lies in the top table.
    program.more.roots &= program.check().is_ok();
    program
}

fn more(random: &mut Random, kind: usize) -> More {
    let x86 = KINDS[kind].is_x86();
    More {
        early: !x86 && random.percent(25),
        invalid: !x86 && random.percent(10),
        noting: KINDS[kind].is_arm() && random.percent(5),
        nmis: random.percent(15),
        chosen: random.percent(20),
        roots: !KINDS[kind].shares() && random.percent(10),
    }
}

/// How many spaces are pinned.
pub(super) fn pins(scripts: &[Vec<Act>]) -> u32 {
    let pins = scripts.iter().flatten().filter(|act| matches!(act, Act::Pin(_)));
    pins.filter_map(|act| act.space()).collect::<BTreeSet<_>>().len() as u32
}

fn few(random: &mut Random, kind: usize, rollovers: bool, scripts: &[Vec<Act>]) -> Few {
    let pins = pins(scripts);
    let least = scripts.len() as u32 + 1 + pins;
    let spare = if KINDS[kind].prefers_fresh() && random.percent(80) {
        // Each CPU has a spare tag, or a tag is released.
        if random.percent(75) { 33 } else { least + 1 }
    } else if rollovers {
        least
    } else {
        least + random.below(2) as u32 + if random.percent(10) { 37 } else { 0 }
    };
    let last_epoch = match random.below(100) {
        0..8 => 1,
        8..16 => 2,
        _ => Cookie::LAST_EPOCH,
    };
    Few { usable: spare.max(least), pins, last_epoch }
}

/// A space: mostly the same.
fn space(random: &mut Random, theme: &Theme) -> usize {
    if random.percent(FOCUSED) { FOCUS } else { random.below(theme.spaces) }
}

/// The acts of one CPU.
fn script(random: &mut Random, theme: &Theme) -> Vec<Act> {
    let mut acts = Vec::new();
    if random.percent(75) {
        acts.push(Act::Run(space(random, theme)));
    }
    let count = 1 + random.below(theme.longest);
    while acts.len() < count {
        let act = any(random, theme);
        place(&mut acts, act);
    }
    acts
}

/// Any act of a theme.
pub(super) fn any(random: &mut Random, theme: &Theme) -> Act {
    if random.percent(theme.switches) {
        return Act::Run(random.below(theme.spaces));
    }
    let number = random.weighted(theme.weights.iter().copied());
    act(random, theme, number, FOCUSED)
}

/// An act of an operation.
fn act(random: &mut Random, theme: &Theme, number: usize, focused: usize) -> Act {
    let first = if random.percent(focused) { FOCUS } else { random.below(theme.spaces) };
    let second = if first == 0 { 1 } else { 0 };
    Act::make(OPERATIONS[number].name, &[first, second]).expect("an operation is an act")
}

/// Appends an act, where it may stand.
pub(super) fn place(acts: &mut Vec<Act>, act: Act) {
    match act {
        Act::Up => {
            if acts.first() != Some(&Act::Up) {
                acts.insert(0, act);
            }
        }
        _ if acts.last() == Some(&Act::Down) => acts.insert(acts.len() - 1, act),
        _ => acts.push(act),
    }
}

/// Puts a pair of operations into the scripts, on one space.
fn insert(random: &mut Random, theme: &Theme, scripts: &mut [Vec<Act>], pair: Pair) {
    let [first, second] = [pair.first, pair.second].map(|number| act(random, theme, number, 100));
    let cpu = random.below(scripts.len());
    let other = if pair.same { cpu } else { (cpu + 1) % scripts.len() };
    for (index, acts) in scripts.iter_mut().enumerate() {
        let wanted: Vec<_> =
            [(cpu, first), (other, second)].into_iter().filter(|(cpu, _)| *cpu == index).collect();
        if wanted.is_empty() {
            continue;
        }
        acts.truncate(theme.longest - 1);
        let mut from = 0;
        for (_, act) in wanted {
            // What names no space is about the one that the CPU runs.
            if act.space().is_none() && !acts.contains(&Act::Run(FOCUS)) {
                acts.insert(from, Act::Run(FOCUS));
                from += 1;
            }
            let at = from + random.below(acts.len() - from + 1);
            if act.ends() {
                acts.insert(from, Act::BeginUnmap(FOCUS));
            }
            match act {
                Act::Up => acts.insert(0, act),
                Act::Down => acts.push(act),
                act => acts.insert(at, act),
            }
            from = if act == Act::Up { 1 } else { at + 1 };
        }
    }
}

/// Lets each CPU wait for the flushes that it begins, sooner or later, and for no others.
pub(super) fn finish(random: &mut Random, acts: &mut Vec<Act>) {
    let mut pending = 0;
    acts.retain(|act| {
        pending += usize::from(act.begins());
        let waits = act.ends();
        let keeps = !waits || pending > 0;
        pending -= usize::from(waits && keeps);
        keeps
    });
    for _ in 0..pending {
        let last = acts.iter().rposition(|act| act.begins()).map_or(0, |at| at + 1);
        let end = acts.len() - usize::from(acts.last() == Some(&Act::Down));
        acts.insert(last + random.below(end.saturating_sub(last) + 1), Act::Finish);
    }
}

/// Lets another CPU complete a flush that is handed over, and removes acts of hand-over without a partner.
pub(super) fn hand_over(random: &mut Random, scripts: &mut [Vec<Act>]) {
    let mut handed = None;
    for (cpu, acts) in scripts.iter_mut().enumerate() {
        acts.retain(|act| match act {
            act if act.hands_over() && handed.is_some() => false,
            act if act.hands_over() => {
                handed = Some(cpu);
                true
            }
            _ => true,
        });
    }
    let mut taken = false;
    for (cpu, acts) in scripts.iter_mut().enumerate() {
        acts.retain(|act| match act {
            Act::Complete if taken || handed.is_none() || handed == Some(cpu) => false,
            Act::Complete => {
                taken = true;
                true
            }
            _ => true,
        });
    }
    if let Some(cpu) = handed
        && !taken
        && scripts.len() > 1
    {
        let acts = &mut scripts[(cpu + 1) % scripts.len()];
        let from = usize::from(acts.first() == Some(&Act::Up));
        let at = from + random.below(acts.len() - from + 1);
        let end = acts.len() - usize::from(acts.last() == Some(&Act::Down));
        acts.insert(at.min(end), Act::Complete);
    }
}

/// Sometimes has one CPU wait for another, so that what is rare by chance comes first.
fn order(random: &mut Random, scripts: &mut [Vec<Act>]) {
    let deferred = scripts.iter().flatten().any(|act| act.hands_over());
    if scripts.len() < 2 || deferred || !random.percent(35) {
        return;
    }
    let teller = random.below(scripts.len());
    let waiter = (teller + 1 + random.below(scripts.len() - 1)) % scripts.len();
    for (cpu, act, late) in [(teller, Act::Tell, true), (waiter, Act::Await, false)] {
        let acts = &mut scripts[cpu];
        let from = usize::from(acts.first() == Some(&Act::Up));
        let end = acts.len() - usize::from(acts.last() == Some(&Act::Down));
        let at = if late { from + random.below(end - from + 1) } else { from };
        acts.insert(at, act);
    }
}

/// Sometimes has one CPU wait, before anything else, for another one that signals at any point.
pub(super) fn wait_for_signal<A>(random: &mut Random, scripts: &mut [Vec<A>], signal: A, wait: A) {
    if scripts.len() > 1 && random.percent(25) {
        let teller = random.below(scripts.len());
        let waiter = (teller + 1 + random.below(scripts.len() - 1)) % scripts.len();
        let at = random.below(scripts[teller].len() + 1);
        scripts[teller].insert(at, signal);
        scripts[waiter].insert(0, wait);
    }
}
