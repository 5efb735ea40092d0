//! The rows of `docs/fences.md`.

use super::comments::{self, Wrong};

/// The columns, as the header must name them.
const COLUMNS: [&str; 6] = ["id", "place", "pairs with", "what it orders", "test", "mutant"];

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: String,
    /// The file.
    pub(super) place: String,
    /// The function, if the row names one.
    pub(super) function: Option<String>,
    pub(super) partners: Vec<String>,
    pub(super) orders: String,
    pub(super) tests: Vec<String>,
    /// The mutants, or why there is none.
    pub(super) mutants: Result<Vec<String>, String>,
    /// Index of the line.
    pub(super) line: usize,
}

/// The rows of every table with these columns.
pub(super) fn rows(text: &str) -> (Vec<Row>, Wrong) {
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    let mut in_table = false;
    let mut tables = 0;
    for (line, text) in text.lines().enumerate() {
        let Some(cells) = cells(text) else {
            in_table = false;
            continue;
        };
        if cells == COLUMNS {
            in_table = true;
            tables += 1;
        } else if in_table && !cells.iter().all(|cell| is_rule(cell)) {
            match row(&cells, line) {
                Ok(row) => rows.push(row),
                Err(why) => wrong.push((line, why)),
            }
        }
    }
    if tables == 0 {
        wrong.push((0, format!("no table with the columns {}", COLUMNS.join(" | "))));
    }
    (rows, wrong)
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inside = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(|cell| cell.trim().to_owned()).collect())
}

/// Whether a cell belongs to the line between header and rows.
fn is_rule(cell: &str) -> bool {
    !cell.is_empty() && cell.chars().all(|c| c == '-' || c == ':')
}

fn row(cells: &[String], line: usize) -> Result<Row, String> {
    let [id, place, partners, orders, tests, mutants] = cells else {
        return Err(format!("a row has {} cells, not {}", COLUMNS.len(), cells.len()));
    };
    let id = id.trim_matches('`').to_owned();
    if !comments::is_id(&id) {
        return Err(format!("`{id}` is no name of a fence or an ordering"));
    }
    let place = place.trim_matches('`');
    let (place, function) = match place.split_once("::") {
        Some((file, function)) => (file.to_owned(), Some(function.to_owned())),
        None => (place.to_owned(), None),
    };
    let mutants = match mutants.strip_prefix('-') {
        Some(reason) => {
            Err(reason.trim().trim_start_matches('(').trim_end_matches(')').trim().to_owned())
        }
        None if mutants.is_empty() => Err(String::new()),
        None => Ok(names(mutants)),
    };
    let partners = partners
        .split(',')
        .map(|text| comments::partner(text).ok_or_else(|| format!("{id} pairs with `{text}`")))
        .collect::<Result<_, _>>()?;
    Ok(Row {
        id,
        place,
        function,
        partners,
        orders: orders.clone(),
        tests: names(tests),
        mutants,
        line,
    })
}

/// Names between commas. Of a path (`tests::epochs::name`), the last part.
fn names(cell: &str) -> Vec<String> {
    cell.split(',')
        .map(|name| name.trim().trim_matches('`'))
        .map(|name| name.rsplit("::").next().unwrap_or(name).to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}
