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
const ROOM: [f64; 4] = [80.0, 16.0, 16.0, 44.0];

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#1a1a1a;--faint:#d0d0d0}
@media(prefers-color-scheme:dark){:root{--ground:#16181c;--ink:#e6e6e6;--faint:#3c4048}}
body{background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
svg{width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}
.grid{stroke:var(--faint)}table{border-collapse:collapse}td,th{padding:.15rem .7rem;text-align:right;border-bottom:1px solid var(--faint)}
td:first-child,th:first-child{text-align:left}";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
            let of = |power: i32| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(power));
            let all = (first..=last).flat_map(of);
            return all.filter(|tick| *tick >= self.from && *tick <= self.to).collect();
        }
        (0..=4).map(|i| self.from + (self.to - self.from) * f64::from(i) / 4.0).collect()
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
        escaped(swept.metric),
        escaped(if swept.unit.is_empty() { "parts of one" } else { swept.unit }),
        escaped(heading.about),
    );
    let crossings = crossovers(swept);
    if crossings.is_empty() {
        page.push_str("<p>No two curves of a machine cross.</p>\n");
    } else {
        page.push_str("<ul>\n");
        for one in &crossings {
            let _ = writeln!(page, "<li>{}</li>", escaped(&sentence(one, heading.over)));
        }
        page.push_str("</ul>\n");
    }
    for machine in swept.machines() {
        let curves: Vec<&Curve> = swept.of(machine).collect();
        let _ = writeln!(page, "<h2>{}</h2>", escaped(machine));
        page.push_str(&picture(&curves, heading.over, &crossings, machine));
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

fn picture(curves: &[&Curve], over: &str, crossings: &[super::Crossover], machine: &str) -> String {
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
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
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
            number(tick)
        );
    }
    let mut places: Vec<f64> = known().map(|(x, _)| x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for x in places {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x}</text>",
            xs.place(x),
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
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, Spread)> = curve
            .points
            .iter()
            .filter_map(|p| Some((p.x, Spread::of(p.samples.as_deref().ok()?))))
            .collect();
        let at = |x: f64, y: f64| format!("{:.1},{:.1}", xs.place(x), ys.place(y));
        let upper = points.iter().map(|(x, spread)| at(*x, spread.greatest()));
        let lower = points.iter().rev().map(|(x, spread)| at(*x, spread.least()));
        let band: Vec<String> = upper.chain(lower).collect();
        let line: Vec<String> = points.iter().map(|(x, spread)| at(*x, spread.median())).collect();
        let _ = writeln!(
            svg,
            "<polygon points=\"{}\" fill=\"{colour}\" opacity=\"0.2\"/>\
             <polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            band.join(" "),
            line.join(" ")
        );
        for (x, spread) in &points {
            let (cx, cy) = (xs.place(*x), ys.place(spread.median()));
            let _ =
                writeln!(svg, "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }
    for one in crossings.iter().filter(|one| one.machine == machine) {
        let x = xs.place(one.at);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" stroke-dasharray=\"4 3\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{:.0} %</text>",
            height - bottom,
            x + 4.0,
            top + 12.0,
            100.0 * one.certainty
        );
    }
    svg.push_str("</svg>\n<p>");
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let _ =
            write!(svg, "<b style=\"color:{colour}\">■</b> {} &nbsp; ", escaped(&curve.strategy));
    }
    svg + "</p>\n"
}

fn table(curves: &[&Curve], over: &str) -> String {
    let mut text = format!("<table><tr><th>{}</th>", escaped(over));
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
                    format!("{} ({least} to {greatest}{sides})", number(spread.median()))
                }
            };
            let _ = write!(text, "<td>{cell}</td>");
        }
        text.push_str("</tr>\n");
    }
    text + "</table>\n"
}
