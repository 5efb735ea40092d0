//! The score of a kernel's fences: each is ignored in the shadow in turn. The guest is the same binary, and works.

use core::fmt::Write;

use lookaside_watch_qemu::report::SiteRow;

use crate::{
    arguments::Arguments,
    kernel::Kernel,
    render,
    run::{Outcome, run},
};

/// Runs the kernel once as it is, and once for each fence that removed something revoked. Whether nothing was found in the first.
pub(crate) fn each(arguments: &Arguments, kernel: &Kernel) -> Result<bool, String> {
    let whole = run(arguments, kernel, &[])?;
    eprintln!("as it is: {} certain findings", whole.certain());
    let mut sites: Vec<u64> = whole.report.sites.iter().map(|row| row.pc).collect();
    sites.dedup();
    let mut rows = Vec::new();
    for (at, &site) in sites.iter().enumerate() {
        let executed = |row: &&SiteRow| row.pc == site;
        let count: u64 =
            whole.report.sites.iter().filter(executed).map(|row| row.site.executed).sum();
        let needed: u64 =
            whole.report.sites.iter().filter(executed).map(|row| row.site.needed).sum();
        // What removed nothing that had been revoked cannot be missed in a run like this one.
        let verdict = if needed == 0 {
            "not ignored, as it removed nothing that had been revoked".to_owned()
        } else {
            verdict(&whole, &run(arguments, kernel, &[format!("{site:#x}")]))
        };
        eprintln!("{} of {}: {:#x} {}: {verdict}", at + 1, sites.len(), site, whole.name(site));
        rows.push((site, count, needed, verdict));
    }
    let caught = rows.iter().filter(|row| row.3.starts_with("caught")).count();
    let put_to_the_test = rows.iter().filter(|row| row.2 > 0).count();
    let mut text = format!("{:>10} {:>10}  fence that was ignored\n", "executed", "needed");
    for (site, count, needed, verdict) in &rows {
        let _ =
            writeln!(text, "{count:>10} {needed:>10}  {site:#x} {}: {verdict}", whole.name(*site));
    }
    let _ = writeln!(
        text,
        "hunt: {}: {} certain findings as it is; score: {caught} of the {put_to_the_test} fences that were needed in \
         this run were caught when ignored; {} fences in all",
        kernel.name,
        whole.certain(),
        rows.len()
    );
    render::write(arguments, &text)?;
    Ok(whole.denied(&arguments.deny) == 0)
}

/// What ignoring a fence has led to, beyond what is found anyway.
fn verdict(whole: &Outcome, outcome: &Result<Outcome, String>) -> String {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return format!("no result: {error}"),
    };
    let count = |outcome: &Outcome, certain: bool| -> u64 {
        let chosen =
            |finding: &&lookaside_watch::Finding| finding.criterion.is_certain() == certain;
        outcome.findings().filter(chosen).map(|finding| finding.count).sum()
    };
    let certain = count(outcome, true).saturating_sub(count(whole, true));
    let others = count(outcome, false).saturating_sub(count(whole, false));
    match (certain, others) {
        (0, 0) => "not caught".to_owned(),
        (0, _) => format!("caught by policy or likelihood alone (B, D: {others})"),
        _ => format!("caught ({certain} certain, {others} others)"),
    }
}
