//! A page that shows each finding as a time line of CPUs. It needs nothing else, and follows the reader's choice of
//! light or dark.

use core::fmt::Write;

use lookaside_watch::{Finding, Place};

use super::text::summary;
use crate::run::{Outcome, label};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2433;--soft:#5c6675;--paper:#fff;--line:#c9d0da;--bad:#b3261e;--ok:#1b6e4f}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa4b2;--paper:#14181f;--line:#39424f;--bad:#ff8a80;\
--ok:#7bd8b0}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;\
padding:0 1rem}\
svg{width:100%;height:auto;display:block}text{fill:var(--ink);font:13px system-ui,sans-serif}\
.soft{fill:var(--soft);color:var(--soft)}.cpu{stroke:var(--line);stroke-width:2}.held{stroke:var(--bad);\
stroke-width:7;opacity:.45}.dot{fill:var(--ink)}.bad{fill:var(--bad);color:var(--bad)}.ok{color:var(--ok)}\
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
    place: Place,
    words: String,
    bad: bool,
}

fn describe(out: &mut String, outcome: &Outcome, finding: &Finding) {
    let mut marks = vec![Mark {
        place: finding.filled.by,
        words: format!(
            "uses page {:#x}: frame {:#x} is held from here on",
            finding.address, finding.held
        ),
        bad: false,
    }];
    if let Some(revoked) = finding.revoked {
        let words = if revoked.rights_only { "takes rights away" } else { "revokes it" };
        marks.push(Mark { place: revoked.by, words: words.to_owned(), bad: false });
    }
    let words = match finding.now {
        Some(now) => format!("uses it again; the tables say frame {now:#x}"),
        None => finding.criterion.title().to_owned(),
    };
    marks.push(Mark { place: finding.shown, words, bad: true });
    marks.sort_by_key(|mark| mark.place.time);
    let missing = finding.missing.as_ref().map_or("", |remedy| &remedy.instruction);
    let _ = writeln!(
        out,
        "<section><h2>{}</h2><p>CPU {} may still hold page <code>{:#x}</code>. Missing: <b>{}</b>. Seen {} \
         times.</p>",
        escape(&label(finding.criterion)),
        finding.holder,
        finding.address,
        escape(missing),
        finding.count
    );
    time_line(out, outcome, finding, &marks);
    out.push_str("</section>\n");
}

fn time_line(out: &mut String, outcome: &Outcome, finding: &Finding, marks: &[Mark]) {
    let mut cpus: Vec<u32> =
        marks.iter().map(|mark| mark.place.cpu).chain([finding.holder]).collect();
    cpus.sort_unstable();
    cpus.dedup();
    const ROW: usize = 64;
    const WIDTH: usize = 900;
    let row = |cpu| cpus.iter().position(|&of| of == cpu).unwrap_or(0) * ROW + 44;
    let step = (WIDTH - 160) / marks.len();
    let column = |at: usize| 90 + at * step;
    let height = cpus.len() * ROW + 24;
    let _ =
        write!(out, "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>time line</title>");
    for &cpu in &cpus {
        let y = row(cpu);
        let _ = write!(
            out,
            "<text x=\"4\" y=\"{}\">CPU {cpu}</text><line class=\"cpu\" x1=\"70\" x2=\"{WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>",
            y + 4
        );
    }
    // What is held without right: from the revocation, or the fill under another root, to where it shows.
    let from = marks
        .iter()
        .position(|mark| finding.revoked.is_some_and(|revoked| revoked.by == mark.place));
    let to = marks.iter().position(|mark| mark.bad).unwrap_or(marks.len() - 1);
    let y = row(finding.holder);
    let _ = write!(
        out,
        "<line class=\"held\" x1=\"{}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>",
        column(from.unwrap_or(0)),
        column(to)
    );
    for (at, mark) in marks.iter().enumerate() {
        let (x, y) = (column(at), row(mark.place.cpu));
        let class = if mark.bad { "bad" } else { "dot" };
        let name = outcome.name(mark.place.pc);
        // The end of a name says most, and neighbours do not stand on the same line.
        let shown: String = name.chars().skip(name.chars().count().saturating_sub(40)).collect();
        let below = y + 18 + 14 * (at % 2);
        let _ = write!(
            out,
            "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"6\"/><text class=\"{class}\" x=\"{x}\" y=\"{}\">{}\
             </text><text class=\"soft\" x=\"{x}\" y=\"{below}\">{:#x} {}<title>{}</title></text>",
            y - 14,
            escape(&mark.words),
            mark.place.pc,
            escape(&shown),
            escape(&name)
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
