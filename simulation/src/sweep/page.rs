//! A sweep as a page: one file with its pictures in it, light or dark as the reader's system is.

use core::fmt::Write as _;

use lookaside_terminal::grid::number;

use super::{Curve, Swept, crossovers};
use crate::{data::Better, seeds::Spread};

/// What stands above the pictures.
#[derive(Clone, Copy, Debug)]
pub struct Heading<'h> {
    /// The title.
    pub title: &'h str,
    /// What the sweep is over.
    pub over: &'h str,
    /// What the bands are, and the command line.
    pub about: &'h str,
}

/// Colours that are told apart in print, by most eyes, and on both grounds.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b"];
/// The size of a picture, and the room around the curves: left, top, right, bottom.
const SIZE: [f64; 2] = [720.0, 360.0];
const ROOM: [f64; 4] = [80.0, 16.0, 30.0, 44.0];

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#1a1a1a;--faint:#d0d0d0}
@media(prefers-color-scheme:dark){:root{--ground:#16181c;--ink:#e6e6e6;--faint:#3c4048}}
body{background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
svg{width:100%;height:auto;min-width:34rem}svg text{fill:var(--ink);font:12px system-ui,sans-serif;paint-order:stroke;stroke:var(--ground);stroke-width:4px}.name{white-space:nowrap;margin-right:1rem}
.grid{stroke:var(--faint)}.cross{stroke:var(--ink);stroke-dasharray:3 4;opacity:.7}.wide{overflow-x:auto}table{border-collapse:collapse;white-space:nowrap}td,th{padding:.15rem .7rem;text-align:right;border-bottom:1px solid var(--faint)}
td:first-child,th:first-child{text-align:left}";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// How wide a letter of a label is at most.
const LETTER: f64 = 7.5;

/// A value at an axis, without zeros after its point.
fn label(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        return number(value);
    }
    // A step that is no power of two leaves a rest in the last places.
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A scale from values to places, logarithmic where all values allow that and spread over a factor of four.
struct Scale {
    from: f64,
    to: f64,
    is_log: bool,
    places: [f64; 2],
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, places: [f64; 2]) -> Self {
        let (from, to) = values
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let is_log = from > 0.0 && to / from > 4.0;
        let from = if is_log || from < 0.0 { from } else { 0.0 };
        let to = if to > from { to } else { from + 1.0 };
        Self { from, to, is_log, places }
    }

    fn place(&self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        self.places[0] + share * (self.places[1] - self.places[0])
    }

    /// Round values to label.
    fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let first = self.from.log10().floor() as i32;
            let last = self.to.log10().ceil() as i32;
            let many = self.to / self.from > 30.0;
            let steps = if many { &[1.0, 2.0, 5.0][..] } else { &[1.0, 2.0, 3.0, 4.0, 5.0, 7.0] };
            let of = |power: i32| steps.iter().map(move |step| step * 10_f64.powi(power));
            let all = (first..=last).flat_map(of);
            return all.filter(|tick| *tick >= self.from && *tick <= self.to).collect();
        }
        // Steps of 1, 2 or 5 times a power of ten: from three to eight of them.
        let rough = (self.to - self.from) / 4.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }
}

/// The page.
#[must_use]
pub fn html(swept: &Swept, heading: &Heading<'_>) -> String {
    let title = escaped(heading.title);
    let better = match swept.better {
        Better::Lower => "lower",
        Better::Higher => "higher",
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>{} in {}, {better} is better. {}</p>\n",
        escaped(&swept.metric),
        escaped(if swept.unit.is_empty() { "parts of one" } else { &swept.unit }),
        escaped(heading.about),
    );
    let crossings = crossovers(swept);
    if crossings.is_empty() && swept.compares() {
        page.push_str("<p>No two curves of a machine cross.</p>\n");
    } else if !crossings.is_empty() {
        page.push_str("<ul>\n");
        for one in &crossings {
            let _ = writeln!(page, "<li>{}</li>", escaped(&sentence(one, heading.over)));
        }
        page.push_str("</ul>\n");
    }
    for machine in swept.machines() {
        let curves: Vec<&Curve> = swept.of(machine).collect();
        let _ = writeln!(page, "<h2>{}</h2>", escaped(machine));
        page.push_str(&picture(
            &curves,
            heading.over,
            [&swept.metric, &swept.unit],
            &crossings,
            machine,
        ));
        page.push_str(&table(&curves, heading.over));
    }
    page.push_str("</body></html>\n");
    page
}

/// A crossover in words.
#[must_use]
pub fn sentence(one: &super::Crossover, over: &str) -> String {
    let super::Crossover { machine, strategies: [before, after], between, at, certainty } = one;
    format!(
        "{machine}: {before} is better up to {over} = {}, {after} from there on (between {} and {}; on \
         {:.0} % of the samples)",
        number(*at),
        between[0],
        between[1],
        100.0 * certainty
    )
}

fn picture(
    curves: &[&Curve],
    over: &str,
    [metric, unit]: [&str; 2],
    crossings: &[super::Crossover],
    machine: &str,
) -> String {
    let [width, height] = SIZE;
    let [left, top, right, bottom] = ROOM;
    let known = || {
        curves.iter().flat_map(|curve| {
            curve.points.iter().filter_map(|p| Some((p.x, Spread::of(p.samples.as_deref().ok()?))))
        })
    };
    if known().next().is_none() {
        return "<p>Nothing could be run.</p>\n".to_owned();
    }
    let xs = Scale::new(known().map(|(x, _)| x), [left, width - right]);
    let ends = known().flat_map(|(_, spread)| [spread.least(), spread.greatest()]);
    let ys = Scale::new(ends, [height - bottom, top]);
    let mut svg = format!(
        "<div class=\"wide\"><svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(&format!("curves on {machine}"))
    );
    for tick in ys.ticks() {
        let y = ys.place(tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            width - right,
            left - 6.0,
            y + 4.0,
            label(tick)
        );
    }
    let mut places: Vec<f64> = known().map(|(x, _)| x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    // The last value is labelled, and those before it that have room.
    let mut room = f64::INFINITY;
    for x in places.into_iter().rev() {
        let (place, text) = (xs.place(x), label(x));
        let half = LETTER * text.len() as f64 / 2.0;
        if place + half > room {
            continue;
        }
        room = place - half - LETTER;
        let _ = writeln!(
            svg,
            "<text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            height - bottom + 16.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        width / 2.0,
        height - 8.0,
        escaped(over)
    );
    let what = if unit.is_empty() { metric.to_owned() } else { format!("{metric}, {unit}") };
    let _ = writeln!(
        svg,
        "<text x=\"14\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {0:.1})\">{}</text>",
        (top + height - bottom) / 2.0,
        escaped(&what)
    );
    let at = |x: f64, y: f64| format!("{:.1},{:.1}", xs.place(x), ys.place(y));
    let (mut bands, mut lines) = (String::new(), String::new());
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, Spread)> = curve
            .points
            .iter()
            .filter_map(|p| Some((p.x, Spread::of(p.samples.as_deref().ok()?))))
            .collect();
        let upper = points.iter().map(|(x, spread)| at(*x, spread.greatest()));
        let lower = points.iter().rev().map(|(x, spread)| at(*x, spread.least()));
        let band: Vec<String> = upper.chain(lower).collect();
        let line: Vec<String> = points.iter().map(|(x, spread)| at(*x, spread.median())).collect();
        let _ = writeln!(
            bands,
            "<polygon points=\"{}\" fill=\"{colour}\" opacity=\"0.2\"/>",
            band.join(" ")
        );
        let _ = writeln!(
            lines,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            line.join(" ")
        );
        for (x, spread) in &points {
            let (cx, cy) = (xs.place(*x), ys.place(spread.median()));
            let _ = writeln!(
                lines,
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" fill=\"{colour}\"/>"
            );
        }
    }
    // No band covers a line.
    svg += &bands;
    svg += &lines;
    let here = crossings.iter().filter(|one| one.machine == machine);
    // Their labels stand below each other, as several may be at one place, on the side that has room.
    for (i, one) in here.enumerate() {
        let x = xs.place(one.at);
        let [before, after] = &one.strategies;
        let text = format!("{before}, then {after}: {:.0} %", 100.0 * one.certainty);
        let (at, anchor) = match x > width / 2.0 {
            true => (x - 4.0, "end"),
            false => (x + 4.0, "start"),
        };
        let _ = writeln!(
            svg,
            "<line class=\"cross\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{:.1}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            height - bottom,
            top + 12.0 + 15.0 * i as f64,
            escaped(&text)
        );
    }
    svg.push_str("</svg></div>\n<p>");
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let _ = write!(
            svg,
            "<span class=\"name\"><b style=\"color:{colour}\">■</b> {}</span> ",
            escaped(&curve.strategy)
        );
    }
    svg + "</p>\n"
}

fn table(curves: &[&Curve], over: &str) -> String {
    let mut text = format!("<div class=\"wide\"><table><tr><th>{}</th>", escaped(over));
    for curve in curves {
        let _ = write!(text, "<th>{}</th>", escaped(&curve.strategy));
    }
    text.push_str("</tr>\n");
    let count = curves.first().map_or(0, |curve| curve.points.len());
    for i in 0..count {
        let _ = write!(text, "<tr><td>{}</td>", curves[0].points[i].x);
        for curve in curves {
            let cell = match &curve.points[i].samples {
                Err(why) => escaped(why),
                Ok(samples) => {
                    let spread = Spread::of(samples);
                    let [least, greatest] = [spread.least(), spread.greatest()].map(number);
                    let sides = spread.sides().map_or("", |_| ", bistable");
                    let remark = curve.points[i]
                        .remark
                        .as_ref()
                        .map_or(String::new(), |remark| format!(": {remark}"));
                    let median = number(spread.median());
                    format!("{median} ({least} to {greatest}{sides}){}", escaped(&remark))
                }
            };
            let _ = write!(text, "<td>{cell}</td>");
        }
        text.push_str("</tr>\n");
    }
    text + "</table></div>\n"
}
