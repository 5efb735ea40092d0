//! The comparison as CSV, for spreadsheets: the rows of the JSON form, the same names.

use super::{json, row::Reproduction};

/// The rows as CSV, with a line of names first.
#[must_use]
pub fn to_csv(reproduction: &Reproduction<'_>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in json::flat(reproduction) {
        writer.serialize(row).expect("memory takes every row");
    }
    let bytes = writer.into_inner().expect("memory takes every row");
    String::from_utf8(bytes).expect("rows are text")
}
