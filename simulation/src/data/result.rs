//! Files of published results.

use std::collections::BTreeMap;

use lookaside_terminal::Refused;

use super::{
    Better, Point, Published, Role, Series,
    read::{Section, Text},
    value,
};

/// The keys of a result.
const RESULT: &[&str] = &[
    "id",
    "seed",
    "source",
    "confidence",
    "machine",
    "machines",
    "workload",
    "metric",
    "measure",
    "unit",
    "scale",
    "relative",
    "better",
    "x_name",
    "controls",
    "conditions",
    "notes",
    "baseline",
    "variant",
    "recommended",
];

/// The keys of a baseline or a variant.
const SERIES: &[&str] =
    &["name", "strategy", "options", "value", "x", "values", "role", "fit_x", "cause"];

/// Reads a file of results. `machines` are the keys of the machines that there are.
pub(super) fn read(file: &Text, machines: &[&str]) -> Result<Vec<Published>, Refused> {
    let document = file.parse()?;
    let root = file.root(&document);
    root.only(&["result", "sources"])?;
    let sources = value::sources(&root)?;
    let mut results: Vec<Published> = Vec::new();
    for section in root.sections("result")? {
        let result = result(&section, &sources, machines)?;
        if results.iter().any(|other| other.id == result.id) {
            return Err(section.refuse("id", format!("is `{}` a second time", result.id)));
        }
        results.push(result);
    }
    Ok(results)
}

fn result(
    section: &Section<'_>,
    sources: &BTreeMap<String, String>,
    machines: &[&str],
) -> Result<Published, Refused> {
    section.only(RESULT)?;
    let text = |key| section.needed(key, section.text(key)).map(str::to_owned);
    let id = text("id")?;
    if id.contains([':', '@', ',']) || id.contains(char::is_whitespace) {
        return Err(section.refuse("id", "has a colon, a comma, an `@` or a space in it"));
    }
    let source = section.needed("source", value::source(section, sources))?;
    let baseline = section.needed("baseline", section.section("baseline"))?;
    let variants = section.sections("variant")?;
    let recommended = section.needed("recommended", section.section("recommended"))?;
    let causes = [&baseline].into_iter().chain(&variants).map(|series| {
        let cause = series.text("cause")?;
        Ok(cause.unwrap_or_default().to_owned())
    });
    let better = [("lower", Better::Lower), ("higher", Better::Higher)];
    let result = Published {
        seed: seed(section)?,
        citation: sources.get(&source).cloned().unwrap_or_default(),
        source,
        confidence: section.needed("confidence", section.word("confidence", value::CONFIDENCE))?,
        machines: where_run(section, machines)?,
        workload: text("workload")?,
        metric: text("metric")?,
        measure: text("measure")?,
        relative: section.flag("relative")?,
        unit: text("unit")?,
        scale: scale(section)?,
        better: section.needed("better", section.word("better", &better))?,
        x_name: section.text("x_name")?.map(str::to_owned),
        controls: section.numbers("controls")?.unwrap_or_default(),
        conditions: section.flag("conditions")?,
        notes: section.text("notes")?.map(str::to_owned),
        causes: causes.collect::<Result<_, Refused>>()?,
        baseline: series(&baseline)?,
        variants: variants.iter().map(series).collect::<Result<_, Refused>>()?,
        recommended: without_values(&recommended)?,
        id,
    };
    for (series, at) in result.series().zip([&baseline].into_iter().chain(&variants)) {
        curve(&result, series, section, at)?;
    }
    Ok(result)
}

fn seed(section: &Section<'_>) -> Result<Option<u32>, Refused> {
    match section.number("seed")? {
        None => Ok(None),
        Some(seed) if (0.0..=4.0).contains(&seed) && seed.fract() == 0.0 => Ok(Some(seed as u32)),
        Some(_) => Err(section.refuse("seed", "is not a whole number from 0 to 4")),
    }
}

fn scale(section: &Section<'_>) -> Result<f64, Refused> {
    match section.number("scale")? {
        None => Ok(1.0),
        Some(scale) if scale > 0.0 => Ok(scale),
        Some(_) => Err(section.refuse("scale", "is not above zero")),
    }
}

/// `machine`, or `machines` with one for each point.
fn where_run(section: &Section<'_>, known: &[&str]) -> Result<Vec<String>, Refused> {
    let (key, names) = match (section.text("machine")?, section.texts("machines")?) {
        (Some(one), None) => ("machine", vec![one.to_owned()]),
        (None, Some(many)) => ("machines", many),
        (None, None) => return Err(section.refuse("machine", "is missing")),
        (Some(_), Some(_)) => {
            return Err(section.refuse("machines", "is there beside `machine`"));
        }
    };
    for name in &names {
        if !known.contains(&name.as_str()) {
            let Refused(why) =
                lookaside_terminal::names::unknown("machine", name, known.iter().copied());
            return Err(section.refuse(key, format!("is wrong: {why}")));
        }
    }
    Ok(names)
}

/// Options of a series: numbers by name.
fn options(section: &Section<'_>) -> Result<BTreeMap<String, f64>, Refused> {
    let mut options = BTreeMap::new();
    if let Some(section) = section.section("options")? {
        for key in section.keys() {
            options.insert(key.to_owned(), section.needed(key, section.number(key))?);
        }
    }
    Ok(options)
}

/// The strategy that the project recommends, of which nothing was published.
fn without_values(section: &Section<'_>) -> Result<Series, Refused> {
    section.only(&["name", "strategy", "options"])?;
    let strategy = section.needed("strategy", section.text("strategy"))?;
    Ok(Series {
        name: section.text("name")?.unwrap_or(strategy).to_owned(),
        strategy: strategy.to_owned(),
        options: options(section)?,
        points: Vec::new(),
    })
}

fn series(section: &Section<'_>) -> Result<Series, Refused> {
    section.only(SERIES)?;
    let roles = [("fit", Role::Fit), ("predict", Role::Predict)];
    let role = section.needed("role", section.word("role", &roles))?;
    Ok(Series {
        name: section.needed("name", section.text("name"))?.to_owned(),
        strategy: section.needed("strategy", section.text("strategy"))?.to_owned(),
        options: options(section)?,
        points: points(section, role)?,
    })
}

fn points(section: &Section<'_>, role: Role) -> Result<Vec<Point>, Refused> {
    let fit_x = section.numbers("fit_x")?;
    let (x, values) = match (section.number("value")?, section.numbers("values")?) {
        (Some(value), None) => {
            for key in ["x", "fit_x"] {
                if section.numbers(key)?.is_some() {
                    return Err(section.refuse(key, "is for curves, which have `values`"));
                }
            }
            return Ok(vec![Point { x: None, value, role }]);
        }
        (None, Some(values)) => (section.needed("x", section.numbers("x"))?, values),
        (None, None) => return Err(section.refuse("value", "is missing, and so is `values`")),
        (Some(_), Some(_)) => return Err(section.refuse("values", "is there beside `value`")),
    };
    if x.is_empty() {
        return Err(section.refuse("x", "is empty"));
    }
    if x.len() != values.len() {
        let why = format!("has {} values for {} of `x`", values.len(), x.len());
        return Err(section.refuse("values", why));
    }
    if !x.is_sorted_by(|a, b| a < b) {
        return Err(section.refuse("x", "does not ascend"));
    }
    let fit_x = fit_x.unwrap_or_default();
    if role == Role::Fit && !fit_x.is_empty() {
        return Err(section.refuse("fit_x", "is for a curve with the role `predict`"));
    }
    if let Some(other) = fit_x.iter().find(|point| !x.contains(point)) {
        return Err(section.refuse("fit_x", format!("has {other}, which `x` has not")));
    }
    let role = |x: &f64| if fit_x.contains(x) { Role::Fit } else { role };
    let points = x.iter().zip(values);
    Ok(points.map(|(x, value)| Point { x: Some(*x), value, role: role(x) }).collect())
}

/// What the points of a series, which is `at`, have to do with the rest of the result.
fn curve(
    result: &Published,
    series: &Series,
    section: &Section<'_>,
    at: &Section<'_>,
) -> Result<(), Refused> {
    let x = |series: &Series| series.points.iter().map(|point| point.x).collect::<Vec<_>>();
    if x(series) != x(&result.baseline) {
        return Err(at.refuse("x", "is not that of the baseline"));
    }
    if let Some(other) = result.controls.iter().find(|&&point| !x(series).contains(&Some(point))) {
        return Err(section.refuse("controls", format!("has {other}, which `x` has not")));
    }
    let is_curve = series.points.iter().any(|point| point.x.is_some());
    match &result.x_name {
        None if is_curve => {
            return Err(section.refuse("x_name", "is missing: the baseline is a curve"));
        }
        Some(_) if !is_curve => {
            return Err(section.refuse("x_name", "is for curves, and the baseline is none"));
        }
        _ => {}
    }
    if result.machines.len() != 1 && result.machines.len() != series.points.len() {
        let (machines, points) = (result.machines.len(), series.points.len());
        let why = format!("has {machines} machines for {points} points; it needs one for each");
        return Err(section.refuse("machines", why));
    }
    let least = if result.relative { -100.0 } else { 0.0 };
    if let Some(point) = series.points.iter().find(|point| point.value < least) {
        let key = if is_curve { "values" } else { "value" };
        return Err(at.refuse(key, format!("has {}, which is below {least}", point.value)));
    }
    Ok(())
}
