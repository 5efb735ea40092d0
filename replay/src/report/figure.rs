//! The figures of the page: where everything in them is. What they look like is the page's.
//!
//! They are drawn here and not by a plotting crate because their colours must follow the reader's light
//! or dark scheme and each mark has a text of its own, which pictures with fixed colours do not give.

use lookaside_terminal::counted;

use super::{
    answer::{Crossover, crossovers},
    document::{Curve, Document, Sensitivity, share},
    scale::Scale,
    units::{factor, percent, plain_percent, time, value},
};
use crate::Upkeep;

/// What a reader sees for each cause, in the order of [`Upkeep::NAMES`].
pub(super) const CAUSES: [(&str, &str); 6] = [
    (
        "switches",
        "switching spaces: root register, tags, flushes at the switch, the strategy's state",
    ),
    ("refills", "walks and second-level hits for translations that were lost"),
    ("flushes", "invalidations by the initiator, and the strategy's state of the flush"),
    ("waits", "the initiator waits for other CPUs"),
    ("interrupted", "interrupts on target CPUs: entry, handler, return"),
    ("fabric", "broadcasts: issuing, waiting for the fabric, time taken from other CPUs"),
];

/// So many lines have a colour of their own.
const COLOURS: usize = 8;

/// Where the upkeep of one strategy went.
pub(super) struct Bar {
    pub(super) strategy: String,
    pub(super) total: String,
    /// What it is, for who does not see it.
    pub(super) label: String,
    pub(super) share: String,
    pub(super) segments: Vec<Segment>,
}

/// A part of a bar, in thousandths of the longest bar.
pub(super) struct Segment {
    pub(super) cause: usize,
    pub(super) x: f64,
    pub(super) width: f64,
    pub(super) title: String,
}

/// Bars, all at one scale.
pub(super) fn bars(document: &Document) -> Vec<Bar> {
    let most = document.results.iter().map(|result| result.total).max().unwrap_or(0);
    let bar = |result: &crate::Replayed| Bar {
        strategy: result.strategy.clone(),
        total: time(result.total as f64),
        label: format!("{}: {}", result.strategy, time(result.total as f64)),
        share: percent(share(result)),
        segments: segments(&result.upkeep, most),
    };
    document.results.iter().map(bar).collect()
}

/// The parts of upkeep, where `most` is as long as a bar can be.
pub(super) fn segments(upkeep: &Upkeep, most: u64) -> Vec<Segment> {
    let (mut x, whole) = (0.0, upkeep.total());
    let mut segments = Vec::new();
    for (cause, (name, spent)) in upkeep.iter().enumerate() {
        if spent > 0 && most > 0 {
            let width = 1000.0 * spent as f64 / most as f64;
            let part = percent(spent as f64 / whole as f64);
            let title = format!("{name}: {}, {part}", time(spent as f64));
            segments.push(Segment { cause, x: round(x), width: round(width), title });
            x += width;
        }
    }
    segments
}

/// A hundredth of a unit is more than anybody sees, and shorter than all digits.
fn round(place: f64) -> f64 {
    (place * 100.0).round() / 100.0
}

/// Upkeep over numbers of CPUs.
pub(super) struct Curves {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
    pub(super) logarithmic: bool,
    pub(super) x_ticks: Vec<Tick>,
    pub(super) y_ticks: Vec<Tick>,
    pub(super) lines: Vec<Line>,
    pub(super) crossings: Vec<Crossing>,
    pub(super) cpus: Vec<usize>,
    pub(super) rows: Vec<Row>,
}

/// A value beside an axis.
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) text: String,
}

/// One strategy.
pub(super) struct Line {
    pub(super) strategy: String,
    /// Which colour, or none for one of the many.
    pub(super) colour: Option<usize>,
    pub(super) path: String,
    pub(super) points: Vec<Mark>,
    pub(super) end: f64,
    pub(super) label: f64,
}

/// A point.
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) title: String,
}

/// Where two lines cross.
pub(super) struct Crossing {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) number: usize,
    pub(super) text: String,
}

/// The same as numbers.
pub(super) struct Row {
    pub(super) strategy: String,
    pub(super) cells: Vec<String>,
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 650.0;
const TOP: f64 = 16.0;
/// How far labels are from each other at least.
const APART: f64 = 17.0;

/// The curves, if there are any with at least two points.
pub(super) fn curves(curves: &[Curve]) -> Option<Curves> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let mut cpus: Vec<usize> = points().map(|point| point.cpus).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let [first, .., last] = cpus[..] else { return None };
    let shares = || points().map(|point| point.share).filter(|&share| share > 0.0);
    let (least, most) = (shares().fold(f64::MAX, f64::min), shares().fold(0.0, f64::max));
    let logarithmic = most > 20.0 * least;
    let height = (APART * curves.len() as f64 + 70.0).max(360.0);
    let bottom = height - 44.0;
    let x = Scale::logarithmic(first as f64, last as f64, [LEFT, RIGHT]);
    let y = if logarithmic {
        Scale::decades(least, most, [bottom, TOP])
    } else {
        Scale::linear(most, [bottom, TOP])
    };
    let mut lines: Vec<Line> =
        curves.iter().enumerate().map(|(i, curve)| line(i, curve, x, y)).collect();
    spread(&mut lines, bottom);
    let mark = |(i, c): (usize, &Crossover)| Crossing {
        x: round(x.at(c.cpus)),
        y: round(y.at(c.share)),
        number: i + 1,
        text: crossing(c),
    };
    let crossings = crossovers(curves).iter().enumerate().map(mark).collect();
    let row = |curve: &Curve| Row {
        strategy: curve.strategy.clone(),
        cells: cpus.iter().map(|&cpus| cell(curve, cpus)).collect(),
    };
    let tick = |at: f64, text: String| Tick { at: round(at), text };
    Some(Curves {
        width: WIDTH,
        height,
        left: LEFT,
        right: RIGHT,
        bottom,
        logarithmic,
        x_ticks: x_ticks(&cpus, x).map(|(at, cpus)| tick(at, cpus.to_string())).collect(),
        y_ticks: y.ticks().iter().map(|&share| tick(y.at(share), plain_percent(share))).collect(),
        crossings,
        rows: curves.iter().map(row).collect(),
        lines,
        cpus,
    })
}

/// The numbers of CPUs that can be written without touching each other.
fn x_ticks(cpus: &[usize], x: Scale) -> impl Iterator<Item = (f64, usize)> {
    let mut last = f64::MIN;
    cpus.iter().filter_map(move |&cpus| {
        let at = x.at(cpus as f64);
        (at - last >= 30.0).then(|| {
            last = at;
            (at, cpus)
        })
    })
}

fn line(number: usize, curve: &Curve, x: Scale, y: Scale) -> Line {
    let mark = |point: &super::CurvePoint| Mark {
        x: round(x.at(point.cpus as f64)),
        y: round(y.at(point.share)),
        title: format!(
            "{}, {}: {}, {}",
            curve.strategy,
            counted(point.cpus, "CPU", "CPUs"),
            percent(point.share),
            time(point.total as f64)
        ),
    };
    let points: Vec<Mark> = curve.points.iter().map(mark).collect();
    let step = |(i, mark): (usize, &Mark)| {
        format!("{}{} {}", if i == 0 { 'M' } else { 'L' }, mark.x, mark.y)
    };
    let end = points.last().map_or(0.0, |mark| mark.y);
    Line {
        strategy: curve.strategy.clone(),
        colour: (number < COLOURS).then_some(number),
        path: points.iter().enumerate().map(step).collect(),
        points,
        end,
        label: end,
    }
}

/// Moves labels apart, and as little as possible from where their lines end.
fn spread(lines: &mut [Line], bottom: f64) {
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by(|&a, &b| lines[a].end.total_cmp(&lines[b].end));
    let mut next = f64::MIN;
    for &i in &order {
        lines[i].label = lines[i].end.max(next);
        next = lines[i].label + APART;
    }
    let mut limit = bottom;
    for &i in order.iter().rev() {
        lines[i].label = round(lines[i].label.min(limit));
        limit = lines[i].label - APART;
    }
}

fn crossing(crossover: &Crossover) -> String {
    let Crossover { better, worse, after, by, cpus, .. } = crossover;
    let about = cpus.round() as usize;
    if by - after <= 1 {
        format!("From {by} CPUs on {better} costs less than {worse}.")
    } else {
        format!(
            "From about {about} CPUs on {better} costs less than {worse} \
             (tried: {after} and {by})."
        )
    }
}

fn cell(curve: &Curve, cpus: usize) -> String {
    let point = curve.points.iter().find(|point| point.cpus == cpus);
    point.map_or_else(|| "–".to_owned(), |point| percent(point.share))
}

/// How the factor depends on numbers.
pub(super) struct Tornado {
    pub(super) strategy: String,
    pub(super) baseline: String,
    pub(super) factor: String,
    /// Where the factor is, in thousandths of the width.
    pub(super) centre: f64,
    pub(super) least: String,
    pub(super) most: String,
    pub(super) rows: Vec<Arm>,
    /// How many numbers are only in the table.
    pub(super) more: usize,
}

/// One number.
pub(super) struct Arm {
    pub(super) parameter: String,
    pub(super) value: String,
    pub(super) low: String,
    pub(super) high: String,
    pub(super) at_low: String,
    pub(super) at_high: String,
    /// Beginning and width of the part for the lower value.
    pub(super) low_bar: [f64; 2],
    /// And for the higher one.
    pub(super) high_bar: [f64; 2],
    /// Whether it is in the figure, not only in the table.
    pub(super) drawn: bool,
}

/// So many numbers are drawn.
const ARMS: usize = 12;
/// The axis of factors reaches at least so many times below and above what the factor is.
const SPAN: f64 = 1.1;

/// The tornado.
pub(super) fn tornado(sensitivity: &Sensitivity) -> Tornado {
    let mut sorted = sensitivity.clone();
    sorted.sort();
    let centre = sorted.factor;
    let all = sorted.swings.iter().flat_map(|swing| [swing.at_low, swing.at_high]).chain([centre]);
    let known = || all.clone().filter(|&at| at > 0.0 && at.is_finite());
    // What hardly changes anything is not blown up until it looks as if it did.
    let least = known().fold(centre / SPAN, f64::min);
    let most = known().fold(centre * SPAN, f64::max);
    let scale = Scale::logarithmic(least, most, [0.0, 1000.0]);
    let bar = |at: f64| {
        let (a, b) = (scale.at(at), scale.at(centre));
        [round(a.min(b)), round((a - b).abs())]
    };
    let arm = |(i, swing): (usize, &super::Swing)| Arm {
        parameter: swing.parameter.clone(),
        value: format!("{}\u{a0}{}", value(swing.value), swing.unit),
        low: format!("{}\u{a0}{}", value(swing.low), swing.unit),
        high: format!("{}\u{a0}{}", value(swing.high), swing.unit),
        at_low: factor(swing.at_low),
        at_high: factor(swing.at_high),
        low_bar: bar(swing.at_low),
        high_bar: bar(swing.at_high),
        drawn: i < ARMS,
    };
    let rows: Vec<Arm> = sorted.swings.iter().enumerate().map(arm).collect();
    Tornado {
        strategy: sorted.strategy.clone(),
        baseline: sorted.baseline.clone(),
        factor: factor(centre),
        centre: round(scale.at(centre)),
        least: factor(least),
        most: factor(most),
        more: rows.len().saturating_sub(ARMS),
        rows,
    }
}

#[cfg(test)]
mod tests;
