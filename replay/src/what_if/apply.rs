//! What each knob changes.

use lookaside_machine::timed::{Price, Prices};
use lookaside_simulation::{
    data::{Isa, Machine},
    strategy,
};
use lookaside_terminal::{Refused, counted};

use super::{Knob, Scenario, script};

/// Machines whose flushes were measured with page tables of the kernel's own.
const WITH_PTI: &[&str] = &["haswell_desktop"];

/// What the second table adds to the flush of a page, in cycles: INVPCID of the page under the user's tag, as
/// `machines/haswell_desktop.toml` derives it (Hansen 2017; Amit, "x86: Deferring PTI flushes", 2019).
const PTI_PAGE: f64 = 243.0;

/// Applies a knob.
pub(super) fn apply(knob: &Knob, to: &mut Scenario) -> Result<(), Refused> {
    let sentence = match knob {
        Knob::Ceiling(pages) => ceiling(*pages, to)?,
        Knob::Thp(true) => huge(to),
        Knob::Thp(false) => {
            "thp=off: pages are taken for small ones anyway; a trace does not tell huge pages, \
                             but for flushes of 512 pages."
                .to_owned()
        }
        Knob::Pin(cpus) => pin(cpus, to)?,
        Knob::Batch(true) => {
            let calls = script::batch(&mut to.script);
            format!(
                "batch=on: {} with no \
                 fault, switch or other call of their thread between, as one `process_madvise`, or one \
                 `munmap` of neighbours. That the program knows them all at the first one is assumed.",
                counted(
                    calls as usize,
                    "call of `madvise` and `munmap` is part of another of the same kind that it follows",
                    "calls of `madvise` and `munmap` are part of another of the same kind that they follow"
                )
            )
        }
        Knob::Batch(false) => "batch=off: calls are as they were recorded.".to_owned(),
        Knob::Pti(on) => pti(*on, to)?,
        Knob::Pcid(on) => pcid(*on, to)?,
        Knob::Cpus(cpus) => {
            let before = core::mem::replace(&mut to.cpus, *cpus);
            cpus_sentence(before, *cpus)
        }
        Knob::Strategy(name) => {
            strategy::find(name, &to.machine)?;
            to.strategy.clone_from(name);
            String::new()
        }
    };
    if !sentence.is_empty() {
        to.assumed.push(sentence);
    }
    Ok(())
}

fn x86(knob: &str, machine: &Machine) -> Result<(), Refused> {
    match machine.isa {
        Isa::X86_64 => Ok(()),
        _ => Err(Refused(format!("`{knob}` is a knob of x86, which `{}` is not", machine.key))),
    }
}

fn ceiling(pages: u32, to: &mut Scenario) -> Result<String, Refused> {
    x86("ceiling", &to.machine)?;
    to.machine.features.flush_ceiling = pages;
    let own = to.strategy.starts_with("lookaside");
    Ok(if own {
        format!(
            "ceiling={pages}: only strategies of Linux have this ceiling; `{}` has its own rule, and nothing changes.",
            to.strategy
        )
    } else {
        "ceiling: flushes that were recorded as of everything stay so where the trace does not show their pages.".to_owned()
    })
}

fn huge(to: &mut Scenario) -> String {
    let script::Huge { faults, pieces, small } = script::huge(&mut to.script);
    // In the same time, so many times fewer pages; as many of those that are small.
    let piece = u64::from(script::PIECE);
    let part = (small[1] * (piece - 1)).div_ceil(faults.max(1)) + 1;
    to.working_set = to.working_set.scaled(part as u32, script::PIECE);
    to.working_set.others = to.working_set.others.min(to.working_set.pool);
    let small = match small {
        [0, _] => String::new(),
        [pieces, faults] => format!(
            " {} of 2 MiB stay small pages, with {faults} of the faults: calls of `munmap` took out parts that were then used \
             again, and Linux has no huge page where less than 2 MiB is mapped.",
            counted(pieces as usize, "piece", "pieces")
        ),
    };
    format!(
        "thp=on is the best case: every aligned 2 MiB of which anything was touched is taken for one huge page from its \
         first fault on ({faults} faults become {pieces}), pages that are used together for neighbours, and a TLB to hold \
         as many huge pages as small ones. Mappings of files, alignment and the time to clear or collapse a huge page are \
         not in the trace; a part of a huge page that is unmapped counts as one page.{small}"
    )
}

fn pin(cpus: &[usize], to: &mut Scenario) -> Result<String, Refused> {
    let recorded = to.script.cpus.len();
    if to.cpus != recorded {
        return Err(Refused("`pin` needs the number of CPUs that was recorded".into()));
    }
    if let Some(cpu) = cpus.iter().find(|&&cpu| cpu >= recorded) {
        return Err(Refused(format!("CPU {cpu} is not one of the {recorded} that were recorded")));
    }
    if to.script.spaces.iter().all(|space| space.recorded) {
        return Err(Refused(
            "`pin` is about one program: it needs a recording of a command or a process, without --all".into(),
        ));
    }
    script::pin(&mut to.script, cpus);
    Ok("pin: the threads of the program take turns on these CPUs at the recorded times. Computing takes no longer for \
        that, so shares are upper bounds and the time that the program waits for a CPU is not in them."
        .to_owned())
}

fn pti(on: bool, to: &mut Scenario) -> Result<String, Refused> {
    x86("pti", &to.machine)?;
    let key = &to.machine.key;
    let has = WITH_PTI.contains(&key.as_str());
    if on == has {
        let word = if on { "with" } else { "without" };
        return Ok(format!(
            "pti={}: prices of `{key}` are those {word} PTI: nothing changes.",
            if on { "on" } else { "off" }
        ));
    }
    let Some(clock) = to.machine.number("cpu.clock") else {
        return Err(Refused(format!("`{key}` does not say its clock, which `pti` needs")));
    };
    let page = (PTI_PAGE * 1000.0 / clock) as u64;
    let prices = &mut to.machine.model.prices;
    let root = prices.charge(Price::Root);
    let change = |price: Price, by: u64, prices: &mut Prices| {
        let now = prices.charge(price);
        prices.set(price, if on { now + by } else { now.saturating_sub(by) });
    };
    let tag = prices.charge(Price::FlushTag);
    change(Price::FlushPage, page, prices);
    if on {
        change(Price::FlushTag, tag, prices);
    } else {
        prices.set(Price::FlushTag, tag / 2);
    }
    change(Price::InterruptEntry, root, prices);
    change(Price::InterruptExit, root, prices);
    Ok(format!(
        "pti={}: the flush of a page is also one of the user's table ({PTI_PAGE} cycles {}, derived for a Haswell), \
         that of a tag is one of two tags, and an interrupt writes the root register at its entry and at its exit. System \
         calls and faults do so, too, which is no flush and in no figure here.",
        if on { "on" } else { "off" },
        if on { "more" } else { "less" },
    ))
}

fn pcid(on: bool, to: &mut Scenario) -> Result<String, Refused> {
    x86("pcid", &to.machine)?;
    let had = to.machine.features.tag_bits > 0;
    Ok(match (on, had) {
        (true, false) => {
            return Err(Refused(format!("`{}` has no PCIDs to switch on", to.machine.key)));
        }
        (false, true) => {
            to.machine.features.tag_bits = 0;
            to.machine.features.invpcid = false;
            "pcid=off: each switch to another space flushes.".to_owned()
        }
        _ => format!("pcid={}: so it is already.", if on { "on" } else { "off" }),
    })
}

fn cpus_sentence(before: usize, cpus: usize) -> String {
    match cpus.cmp(&before) {
        core::cmp::Ordering::Greater => format!(
            "cpus={cpus}: what {} did is done by {cpus}, in copies that begin up to 1 ms later; processes with \
             several threads have as many more.",
            counted(before, "CPU", "CPUs"),
        ),
        core::cmp::Ordering::Less => format!(
            "cpus={cpus}: {before} CPUs take turns on {cpus}. Computing takes no longer for that, so shares are upper \
             bounds."
        ),
        core::cmp::Ordering::Equal => String::new(),
    }
}
