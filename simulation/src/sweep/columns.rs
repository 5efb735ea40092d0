//! Names of the columns of a sweep's tables.

/// The columns that a table of a sweep may have beside that of the values which it is over.
const OTHERS: [&str; 11] = [
    "machine", "strategy", "CPUs", "seed", "value", "median", "least", "greatest", "bistable",
    "remark", "problem",
];

/// The name of the column with the values that a sweep is over: its own, or `x` where a column of any table of a sweep has
/// that name or that of the metric, so that it is the same in all of them.
#[must_use]
pub fn column<'o>(over: &'o str, metric: &str) -> &'o str {
    if OTHERS.contains(&over) || over == metric { "x" } else { over }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_name_of_no_other() {
        assert_eq!(column("pages", "time"), "pages");
        assert_eq!([column("median", "time"), column("time", "time")], ["x"; 2]);
    }
}
