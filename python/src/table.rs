//! What a job has found: tables and single facts, as one text.

use serde::Serialize;
use serde_json::{Map, Value};

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Text,
    Whole,
    Number,
    Truth,
}

#[derive(Debug, Serialize)]
struct Column {
    name: String,
    kind: Kind,
    values: Vec<Value>,
}

/// Columns of the same length. A value may be missing.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    name: &'static str,
    columns: Vec<Column>,
}

impl Table {
    pub(crate) fn new(name: &'static str, columns: &[(&str, Kind)]) -> Self {
        let column = |&(name, kind): &(&str, Kind)| Column {
            name: name.to_owned(),
            kind,
            values: Vec::new(),
        };
        Self { name, columns: columns.iter().map(column).collect() }
    }

    /// Adds a row, which has a value for each column.
    pub(crate) fn row<const N: usize>(&mut self, values: [Value; N]) {
        assert_eq!(N, self.columns.len(), "a row has a value for each column");
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.values.push(value);
        }
    }
}

/// What a job has found. It does not depend on where and when the job was run.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    pub(crate) facts: Map<String, Value>,
    pub(crate) tables: Vec<Table>,
    /// A page with curves.
    pub(crate) page: Option<String>,
}
