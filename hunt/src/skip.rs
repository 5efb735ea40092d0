//! The score of a kernel's fences: each is ignored in the shadow in turn. The guest is the same binary, and works.

use core::fmt::Write;

use lookaside_watch::front_end::SiteRow;

use crate::{
    arguments::Arguments,
    interrupted,
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
        if interrupted::was_interrupted() {
            break;
        }
        let executed = |row: &&SiteRow| row.pc == site;
        let count: u64 =
            whole.report.sites.iter().filter(executed).map(|row| row.site.executed).sum();
        let needed: u64 =
            whole.report.sites.iter().filter(executed).map(|row| row.site.needed).sum();
        // What removed nothing that had been revoked cannot be missed in a run like this one.
        let verdict = if needed == 0 {
            "not ignored, as it removed nothing that had been revoked".to_owned()
        } else {
            verdict(site, &whole, &run(arguments, kernel, &[format!("{site:#x}")]))
        };
        eprintln!("{} of {}: {:#x} {}: {verdict}", at + 1, sites.len(), site, whole.name(site));
        rows.push((site, count, needed, verdict));
    }
    let caught = rows.iter().filter(|row| row.3.starts_with("caught")).count();
    let put_to_the_test =
        rows.iter().filter(|row| row.2 > 0 && !row.3.starts_with("no result")).count();
    let mut text = format!("{:>10} {:>10}  fence that was ignored\n", "executed", "needed");
    if rows.len() < sites.len() {
        let _ = writeln!(text, "interrupted: {} of {} fences", rows.len(), sites.len());
    }
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
fn verdict(site: u64, whole: &Outcome, outcome: &Result<Outcome, String>) -> String {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return format!("no result: {error}"),
    };
    // A kernel may choose its address anew in each run; then nothing was ignored.
    if outcome.report.sites.iter().all(|row| row.pc != site) {
        return "no result: that run executed no fence at this address; run the kernel without KASLR"
            .to_owned();
    }
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

#[cfg(test)]
mod tests {
    use lookaside_watch::front_end::Report;

    use super::*;
    use crate::symbols::Symbols;

    fn outcome(site: u64) -> Outcome {
        let row = format!(
            r#"{{"pc":{site},"form":"all","executed":9,"removing":0,"needed":0,"removed":0,"settled":0,"ignored":true}}"#
        );
        let sites = vec![serde_json::from_str(&row).unwrap()];
        Outcome {
            kernel: String::new(),
            processors: 0.0,
            report: Report { sites, ..Report::default() },
            forgiven: Vec::new(),
            remarks: Vec::new(),
            symbols: Symbols::default(),
        }
    }

    #[test]
    fn a_fence_that_was_elsewhere_in_the_second_run_has_no_result() {
        let whole = outcome(0x418);
        assert_eq!(verdict(0x418, &whole, &Ok(outcome(0x418))), "not caught");
        assert!(verdict(0x418, &whole, &Ok(outcome(0x1418))).contains("without KASLR"));
    }
}
