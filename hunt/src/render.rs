//! Results: as text, JSON, SARIF, or a page.

mod page;
mod sarif;
mod text;

use std::{fs, io::Write};

use crate::{
    arguments::{Arguments, Format},
    run::Outcome,
};

/// The version of the results as JSON, which goes up when a key goes or means something else.
const VERSION: u32 = 1;

/// Tells what a run has shown, in the form that was asked for.
pub(crate) fn render(arguments: &Arguments, outcome: &Outcome) -> Result<(), String> {
    let text = match arguments.format {
        Format::Text => text::text(outcome, &arguments.deny),
        Format::Json => json(outcome)?,
        Format::Sarif => sarif::sarif(outcome)?,
        Format::Html => page::page(outcome),
    };
    write(arguments, &text)?;
    if arguments.format != Format::Text || arguments.output.is_some() {
        eprintln!("{}", text::summary(outcome));
    }
    Ok(())
}

/// Writes to where the command line says.
pub(crate) fn write(arguments: &Arguments, text: &str) -> Result<(), String> {
    match &arguments.output {
        Some(file) => fs::write(file, text).map_err(|error| format!("{}: {error}", file.display())),
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes()).map_err(|error| format!("the terminal: {error}"))
        }
    }
}

fn json(outcome: &Outcome) -> Result<String, String> {
    let mut document = serde_json::to_value(outcome).map_err(|error| error.to_string())?;
    document["version"] = VERSION.into();
    Ok(format!("{document:#}"))
}

#[cfg(test)]
#[path = "../../lab/tests/all/schemas/schema.rs"]
mod schema;

#[cfg(test)]
mod tests {
    use lookaside_watch::front_end::Report;
    use serde_json::Value;

    use super::{json, schema::misfits};
    use crate::{run::Outcome, symbols::Symbols};

    /// As the plugin writes it, with everything that may be missing and without.
    const REPORT: &str = include_str!("render/report.json");

    #[test]
    fn the_json_fits_its_schema() {
        let report: Report = serde_json::from_str(REPORT).unwrap();
        assert_eq!(report.findings.len(), 2);
        let outcome = Outcome {
            kernel: "xv6".into(),
            processors: 1.5,
            report,
            forgiven: vec![("kvminithart".into(), "it boots".into(), 3)],
            remarks: vec!["it was ended after 60 s".into()],
            symbols: Symbols::default(),
        };
        let value: Value = serde_json::from_str(&json(&outcome).unwrap()).unwrap();
        let schema: Value =
            serde_json::from_str(include_str!("../../docs/schemas/hunt.json")).unwrap();
        let misfits = misfits(&schema, &value);
        assert!(misfits.is_empty(), "{misfits:#?}");
    }
}
