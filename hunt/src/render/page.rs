//! A page that shows each finding as a time line of CPUs. It needs nothing else, and follows the reader's choice of
//! light or dark. The marks are in order and not to scale; the list below says where each is.

use core::fmt::Write;

use lookaside_watch::{Finding, Place};

use super::text::summary;
use crate::run::{Outcome, label};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2433;--soft:#5c6675;--paper:#fff;--line:#c9d0da;--bad:#b3261e;--ok:#1b6e4f;\
--held:#2f6fb3;--card:#f4f6f9}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa4b2;--paper:#14181f;--line:#39424f;--bad:#ff8a80;\
--ok:#7bd8b0;--held:#7db4ee;--card:#1c222b}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;\
padding:0 1rem}\
svg{width:100%;height:auto;display:block;background:var(--card);border-radius:.5rem}\
text{fill:var(--ink);font:15px system-ui,sans-serif}text.soft{fill:var(--soft);font-size:13px}.cpu{stroke:var(--line);\
stroke-width:2}.held{stroke:var(--held);stroke-width:12}.stale{stroke:var(--bad);stroke-width:12;stroke-dasharray:9 5}\
.dot{fill:var(--ink)}.dot.wrong{fill:var(--bad)}.dot.gap{fill:var(--card);stroke:var(--bad);stroke-width:3;\
stroke-dasharray:4 3}text.in{fill:var(--card);font-weight:700;text-anchor:middle}text.gap{fill:var(--bad)}\
.bad{color:var(--bad)}.ok{color:var(--ok)}ol{padding-left:1.6rem}li::marker{font-weight:700}\
section{border-top:1px solid var(--line);margin-top:2rem}table{border-collapse:collapse;width:100%}\
td,th{text-align:right;padding:.2rem .6rem;border-bottom:1px solid var(--line)}td:last-child,th:last-child\
{text-align:left;overflow-wrap:anywhere}code{overflow-wrap:anywhere}";

pub(super) fn page(outcome: &Outcome) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>TLB hunt: {name}</title><style>{STYLE}</style>\n<h1>TLB hunt: \
         {name}</h1><p>{summary}</p>\n",
        name = escape(&outcome.kernel),
        summary = escape(&summary(outcome)),
    );
    for remark in &outcome.remarks {
        let _ = writeln!(out, "<p class=\"bad\">{}</p>", escape(remark));
    }
    if outcome.findings().next().is_none() && outcome.report.counts.revoked > 0 {
        out.push_str("<p class=\"ok\">Quiet: on this run, for what was used.</p>\n");
    }
    for finding in outcome.findings() {
        describe(&mut out, outcome, finding);
    }
    sites(&mut out, outcome);
    out.push_str("</html>\n");
    out
}

/// Something on the time line.
struct Mark {
    /// Of the gap: the CPU on which the fence is missing, at no time.
    place: Place,
    /// What the list below the time line says.
    words: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Filled,
    Revoked,
    Gap,
    Shown,
}

fn describe(out: &mut String, outcome: &Outcome, finding: &Finding) {
    let marks = marks(finding);
    let missing = finding.missing.as_ref().map_or("", |remedy| &remedy.instruction);
    let _ = writeln!(
        out,
        "<section><h2>{}</h2><p>CPU {} may still hold page <code>{:#x}</code> as frame <code>{:#x}</code>. Missing: \
         <b>{}</b>. Seen {} times.</p>",
        escape(&label(finding.criterion)),
        finding.holder,
        finding.address,
        finding.held,
        escape(missing),
        finding.count
    );
    time_line(out, finding, &marks);
    out.push_str("<ol>");
    for mark in &marks {
        let place = mark.place;
        if mark.kind == Kind::Gap {
            let _ = write!(out, "<li class=\"bad\">{}</li>", escape(&mark.words));
        } else {
            let _ = write!(
                out,
                "<li>CPU {} {}, at <code>{:#x}</code> <code>{}</code></li>",
                place.cpu,
                escape(&mark.words),
                place.pc,
                escape(&outcome.name(place.pc))
            );
        }
    }
    out.push_str("</ol></section>\n");
}

/// What happened, in order, and what did not.
fn marks(finding: &Finding) -> Vec<Mark> {
    let (page, held) = (finding.address, finding.held);
    let filled = format!("comes to hold page {page:#x} as frame {held:#x}");
    let mut marks = vec![Mark { place: finding.filled.by, words: filled, kind: Kind::Filled }];
    if let Some(revoked) = finding.revoked {
        let what = if revoked.rights_only { "takes rights away" } else { "revokes that" };
        let words = format!("{what} by a store to the table entry at {:#x}", revoked.slot);
        marks.push(Mark { place: revoked.by, words, kind: Kind::Revoked });
    }
    if let Some(remedy) = &finding.missing {
        let on = remedy.on.map_or_else(|| "on any CPU".to_owned(), |cpu| format!("on CPU {cpu}"));
        let words = format!("here is missing, {on}: {}", remedy.instruction);
        let cpu = remedy.on.unwrap_or(finding.revoked.map_or(finding.holder, |it| it.by.cpu));
        marks.push(Mark { place: Place { cpu, ..Place::default() }, words, kind: Kind::Gap });
    }
    let words = match (finding.criterion.letter(), finding.now, finding.through) {
        (_, Some(now), _) => format!("uses the page; the tables say frame {now:#x}"),
        ('G', ..) => "overwrites the valid entry with another valid one".to_owned(),
        ('D', ..) => "is back in user mode".to_owned(),
        (_, _, Some(through)) => format!("stores to the frame through {through:#x}"),
        _ => finding.criterion.title().to_owned(),
    };
    marks.push(Mark { place: finding.shown, words, kind: Kind::Shown });
    marks
}

fn time_line(out: &mut String, finding: &Finding, marks: &[Mark]) {
    let mut cpus: Vec<u32> =
        marks.iter().map(|mark| mark.place.cpu).chain([finding.holder]).collect();
    cpus.sort_unstable();
    cpus.dedup();
    const ROW: usize = 72;
    const WIDTH: usize = 900;
    let row = |cpu| cpus.iter().position(|&of| of == cpu).unwrap_or(0) * ROW + 52;
    let step = (WIDTH - 200) / marks.len().saturating_sub(1).max(1);
    let column = |at: usize| 130 + at * step;
    let height = cpus.len() * ROW + 40;
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>What each CPU does, from left to right; what CPU {} \
         holds</title>",
        finding.holder
    );
    for &cpu in &cpus {
        let y = row(cpu);
        let _ = write!(
            out,
            "<text x=\"16\" y=\"{}\">CPU {cpu}</text><line class=\"cpu\" x1=\"80\" x2=\"{}\" y1=\"{y}\" \
             y2=\"{y}\"/>",
            y + 5,
            WIDTH - 20
        );
    }
    // What the CPU holds by right, and from where on without.
    let at = |kind| marks.iter().position(|mark| mark.kind == kind);
    let last = marks.len() - 1;
    let turn = at(Kind::Revoked).or(at(Kind::Gap)).unwrap_or(last);
    let y = row(finding.holder);
    for (class, from, to) in [("held", 0, turn), ("stale", turn, last)] {
        let (from, to) = (column(from), column(to));
        let _ = write!(
            out,
            "<line class=\"{class}\" x1=\"{from}\" x2=\"{to}\" y1=\"{y}\" y2=\"{y}\"/>"
        );
    }
    let _ = write!(
        out,
        "<text class=\"soft\" x=\"{}\" y=\"{}\">holds the entry</text><text class=\"gap\" x=\"{}\" \
         y=\"{}\">holds it, and it is stale</text>",
        column(0) + 22,
        y - 14,
        column(turn) + 22,
        y - 14
    );
    for (at, mark) in marks.iter().enumerate() {
        let (x, y) = (column(at), row(mark.place.cpu));
        let (class, short) = match mark.kind {
            Kind::Filled => ("dot", "uses the page"),
            Kind::Revoked => ("dot", "changes the entry"),
            Kind::Gap => ("dot gap", "no fence"),
            Kind::Shown => ("dot wrong", "harm"),
        };
        let inside = if mark.kind == Kind::Gap { "gap" } else { "in" };
        let _ = write!(
            out,
            "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"13\"/><text class=\"{inside}\" \
             text-anchor=\"middle\" x=\"{x}\" y=\"{}\">{}</text><text text-anchor=\"middle\" x=\"{x}\" \
             y=\"{}\">{short}</text>",
            y + 5,
            at + 1,
            y + 32
        );
    }
    out.push_str("</svg>\n");
}

fn sites(out: &mut String, outcome: &Outcome) {
    out.push_str(
        "<section><h2>Fences</h2><p>Needed: how many removed something that had been revoked.</p><table><tr>\
         <th>executed</th><th>removing</th><th>needed</th><th>fence</th></tr>\n",
    );
    for row in &outcome.report.sites {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td><code>{:#x}</code> {} ({})</td></tr>",
            row.site.executed,
            row.site.removing,
            row.site.needed,
            row.pc,
            escape(&outcome.name(row.pc)),
            row.form.words()
        );
    }
    out.push_str("</table></section>\n");
}

/// What comes from a guest is text, and nothing else.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_a_guest_are_no_markup() {
        assert_eq!(super::escape("<script>&\""), "&lt;script&gt;&amp;&quot;");
    }
}
