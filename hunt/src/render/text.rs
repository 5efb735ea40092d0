//! A result for people, in a terminal.

use core::fmt::Write;

use lookaside_watch::{Finding, Place};

use crate::run::{Outcome, label};

/// Everything, and the summary as the last line.
pub(super) fn text(outcome: &Outcome, deny: &[char]) -> String {
    let mut out = String::new();
    for finding in outcome.findings() {
        // D is a policy: who has not asked for it is told the number alone.
        if finding.criterion.letter() != 'D' || deny.contains(&'D') {
            describe(&mut out, outcome, finding);
        }
    }
    sites(&mut out, outcome);
    for (symbol, reason, count) in &outcome.forgiven {
        let _ = writeln!(out, "forgiven: {count} findings in {symbol}: {reason}");
    }
    for remark in &outcome.remarks {
        let _ = writeln!(out, "remark: {remark}");
    }
    let _ = writeln!(out, "{}", summary(outcome));
    out
}

/// One line.
pub(super) fn summary(outcome: &Outcome) -> String {
    let counts = &outcome.report.counts;
    let all = outcome.findings().count();
    let policy = outcome.findings().filter(|finding| finding.criterion.letter() == 'D').count();
    let certain = outcome.certain();
    format!(
        "hunt: {}: {certain} certain findings, {} likely, {policy} of policy (D); {} revocations by {} stores, {} \
         overlaps; {} fence sites, {} needed in this run; {} million instructions in {:.1} s ({:.1} s of processors), {:.1} MiB of shadow",
        outcome.kernel,
        all - certain - policy,
        counts.revoked,
        counts.table_stores,
        counts.overlaps,
        outcome.report.sites.len(),
        outcome.report.sites.iter().filter(|row| row.site.needed > 0).count(),
        outcome.report.instructions / 1_000_000,
        outcome.report.seconds,
        outcome.processors,
        outcome.report.most_bytes as f64 / f64::from(1 << 20),
    )
}

fn describe(out: &mut String, outcome: &Outcome, finding: &Finding) {
    let place =
        |place: Place| format!("CPU {} at {:#x} {}", place.cpu, place.pc, outcome.name(place.pc));
    let tag = finding.tag.map_or_else(|| "global".to_owned(), |tag| format!("tag {tag}"));
    let now =
        finding.now.map_or_else(String::new, |now| format!("; the tables say frame {now:#x}"));
    let _ = writeln!(
        out,
        "{}: CPU {} may still hold page {:#x} ({tag}) as frame {:#x}{now}",
        label(finding.criterion),
        finding.holder,
        finding.address,
        finding.held,
    );
    let _ = writeln!(out, "  shown by    {}", place(finding.shown));
    if let Some(through) = finding.through {
        let _ = writeln!(out, "  through     {through:#x}");
    }
    let _ = writeln!(
        out,
        "  filled by   {}, root {:#x}",
        place(finding.filled.by),
        finding.filled.root
    );
    match &finding.revoked {
        Some(revoked) => {
            let what = if revoked.rights_only { "rights taken" } else { "revoked by" };
            let before = finding.shown.time.saturating_sub(revoked.by.time);
            let _ = writeln!(
                out,
                "  {what:11} {}, a store to the entry at {:#x}, {before} events before",
                place(revoked.by),
                revoked.slot
            );
        }
        None => {
            let _ =
                writeln!(out, "  revoked by  nobody: another root was loaded under the same tag");
        }
    }
    if let Some(remedy) = &finding.missing {
        let on = remedy.on.map_or_else(|| "on any CPU".to_owned(), |cpu| format!("on CPU {cpu}"));
        let _ = writeln!(out, "  missing     {on}, between the two: {}", remedy.instruction);
    }
    for fence in &finding.fences {
        let _ = writeln!(out, "  last fences {} (event {})", place(*fence), fence.time);
    }
    let _ = writeln!(out, "  seen        {} times\n", finding.count);
}

fn sites(out: &mut String, outcome: &Outcome) {
    let mut rows: Vec<_> = outcome.report.sites.iter().collect();
    // Fences that removed nothing revoked, by how often: the most expensive over-fencing first.
    rows.sort_by_key(|row| core::cmp::Reverse(row.site.executed - row.site.needed));
    let _ = writeln!(out, "{:>10} {:>10} {:>10}  fence", "executed", "removing", "needed");
    for row in rows {
        let ignored = if row.site.ignored { ", ignored" } else { "" };
        let _ = writeln!(
            out,
            "{:>10} {:>10} {:>10}  {:#x} {} ({}{ignored})",
            row.site.executed,
            row.site.removing,
            row.site.needed,
            row.pc,
            outcome.name(row.pc),
            row.form.words(),
        );
    }
}
