//! Plain tables: for terminals, for Markdown and for spreadsheets.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table, TableStyle, Width, presets,
};

use crate::plain;

/// How wide a table for a terminal is at most, in characters. It does not depend on the terminal, so
/// that two runs give the same bytes.
pub const WIDTH: u16 = 100;

/// A table of texts, each of one line.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Which columns are words; the others are numbers, to the right.
    words: Vec<usize>,
    /// Widths of columns, where they are given.
    widths: Vec<u16>,
}

/// A text from outside, as a cell.
fn cell(text: impl Into<String>) -> String {
    plain::line(&text.into()).into_owned()
}

impl Grid {
    /// A table with these column names. In the columns `words` text stands to the left, in all others
    /// to the right.
    #[must_use]
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>, words: &[usize]) -> Self {
        // Its words are ours, and may stand in two lines.
        let header = header.into_iter().map(Into::into).collect();
        Self { header, words: words.to_vec(), ..Self::default() }
    }

    /// The same with columns of these widths, without the two characters between them.
    #[must_use]
    pub fn with_widths(mut self, widths: &[u16]) -> Self {
        self.widths = widths.to_vec();
        self
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    /// The names of the columns.
    #[must_use]
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = &[String]> {
        self.rows.iter().map(Vec::as_slice)
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn table(&self, style: TableStyle) -> Table {
        let mut table = Table::new();
        table.load_style(style);
        table.set_header(&self.header);
        for row in &self.rows {
            table.add_row(row);
        }
        for (i, column) in table.column_iter_mut().enumerate() {
            if !self.words.contains(&i) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    /// For a terminal, each line indented by two characters.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut table = self.table(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
        for (i, column) in table.column_iter_mut().enumerate() {
            column.set_padding((2, 0));
            if let Some(&width) = self.widths.get(i) {
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + 2)));
            }
        }
        lines(&table)
    }

    /// As Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let escaped = |cells: &Vec<String>| -> Vec<String> {
            cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect()
        };
        let grid = Self {
            header: escaped(&self.header),
            rows: self.rows.iter().map(escaped).collect(),
            ..self.clone()
        };
        lines(&grid.table(presets::ASCII_MARKDOWN))
    }

    /// For a spreadsheet.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in core::iter::once(&self.header).chain(&self.rows) {
            writer.write_record(row).expect("memory takes every row");
        }
        let bytes = writer.into_inner().expect("memory takes every row");
        String::from_utf8(bytes).expect("rows are text")
    }
}

/// The lines of a table without blanks at their ends.
fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A sentence in lines of at most [`WIDTH`] characters, all but the first indented by two more than
/// `indent`.
#[must_use]
pub fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut line = " ".repeat(indent);
    let mut empty = true;
    for word in plain::text(text).split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > usize::from(WIDTH) {
            lines.push_str(&line);
            lines.push('\n');
            line = " ".repeat(indent + 2);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines + &line + "\n"
}

/// A number with four digits, or with as many as its whole part has.
#[must_use]
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{}", value.abs());
    }
    // What the exponent is after rounding to four digits: 999.96 has four before the point.
    let text = format!("{value:.3e}");
    let exponent: i32 = text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let decimals = usize::try_from(3 - exponent).unwrap_or(0);
    format!("{value:.decimals$}")
}

/// A fraction as a change in percent.
#[must_use]
pub fn percent(fraction: f64) -> String {
    let text = format!("{:+.1} %", 100.0 * fraction);
    if text == "-0.0 %" { "+0.0 %".to_owned() } else { text }
}

/// How many times: `15.56x`.
#[must_use]
pub fn times(multiple: f64) -> String {
    if multiple < 100.0 { format!("{multiple:.2}x") } else { format!("{multiple:.0}x") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let shown = [0.0, 2.1696, 0.139_41, 13.6327, 1_032_000.0, 999.96, -7.5, 0.000_123_456];
        let texts = shown.map(number);
        assert_eq!(
            texts,
            ["0", "2.170", "0.1394", "13.63", "1032000", "1000", "-7.500", "0.0001235"]
        );
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(percent(0.034), "+3.4 %");
        assert_eq!(percent(-0.0001), "+0.0 %");
        assert_eq!(times(15.563), "15.56x");
        assert_eq!(times(1234.5), "1234x");
    }

    #[test]
    fn a_table_is_the_same_in_three_forms() {
        let mut grid = Grid::new(["name", "ns"], &[0]);
        grid.row(["a|b", "1.5"]);
        grid.row(["long name", "10"]);
        assert_eq!(grid.to_text(), "  name        ns\n  a|b        1.5\n  long name   10\n");
        let markdown = grid.to_markdown();
        assert!(markdown.contains("| a\\|b      | 1.5 |"), "{markdown}");
        assert_eq!(grid.to_csv(), "name,ns\na|b,1.5\nlong name,10\n");
    }
}
