//! A report as JSON, for other programs. `docs/report.md` says what the keys are.

use super::document::Document;

/// The report as JSON, one key a line.
#[must_use]
pub fn to_json(document: &Document) -> String {
    let mut text = serde_json::to_string_pretty(document).expect("numbers and strings are JSON");
    text.push('\n');
    text
}
