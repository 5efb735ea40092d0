//! TOML with positions: what is wrong in a file is said with its name, the line and the key.

use core::{fmt, ops::Range};

use lookaside_terminal::{Refused, names};
use toml_edit::{Document, Item, TableLike};

/// A file of data, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Its name, as messages have it.
    pub name: String,
    /// What is in it.
    pub text: String,
}

impl Text {
    /// A file of that name.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// The name without folder and ending.
    pub(super) fn stem(&self) -> &str {
        let name = self.name.rsplit('/').next().unwrap_or_default();
        name.strip_suffix(".toml").unwrap_or(name)
    }

    /// The file as TOML.
    pub(super) fn parse(&self) -> Result<Document<&str>, Refused> {
        Document::parse(self.text.as_str()).map_err(|error| {
            let line = line(&self.text, error.span().map_or(self.text.len(), |span| span.start));
            let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            Refused(format!("{}:{line}: {message}", self.name))
        })
    }

    /// The outermost table of a file that was parsed.
    pub(super) fn root<'f>(&'f self, document: &'f Document<&'f str>) -> Section<'f> {
        Section { text: self, path: String::new(), table: document.as_table(), begins: 0 }
    }

    /// A refusal of the key `name`, which is on a line.
    pub(super) fn refuse(&self, line: usize, name: &str, why: impl fmt::Display) -> Refused {
        Refused(format!("{}:{line}: `{name}` {why}", self.name))
    }
}

/// The number of the line in which a byte is, from 1.
fn line(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// A table of a file.
#[derive(Clone)]
pub(super) struct Section<'f> {
    text: &'f Text,
    /// The keys that lead here, with dots between.
    path: String,
    table: &'f dyn TableLike,
    /// The byte where it begins.
    begins: usize,
}

impl<'f> Section<'f> {
    /// The keys that lead to a key of this table.
    pub(super) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The line of a key, or of the table if it lacks the key.
    pub(super) fn line(&self, key: &str) -> usize {
        let span = self.table.key(key).and_then(toml_edit::Key::span);
        line(&self.text.text, span.map_or(self.begins, |span| span.start))
    }

    /// A refusal of a key.
    pub(super) fn refuse(&self, key: &str, why: impl fmt::Display) -> Refused {
        self.text.refuse(self.line(key), &self.name(key), why)
    }

    /// The keys, in the order of the file.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'f str> + use<'f> {
        self.table.iter().map(|(key, _)| key)
    }

    /// Refuses any key that is not one of these.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Refused> {
        match self.keys().find(|key| !known.contains(key)) {
            Some(key) => Err(self.unknown(key, known)),
            None => Ok(()),
        }
    }

    /// A refusal of a key that there is not.
    pub(super) fn unknown(&self, key: &str, known: &[&str]) -> Refused {
        self.refuse(key, format!("is no key of this table; {}", among(key, known)))
    }

    fn get<T>(
        &self,
        key: &str,
        what: &str,
        read: impl FnOnce(&'f Item) -> Option<T>,
    ) -> Result<Option<T>, Refused> {
        let Some(item) = self.table.get(key) else { return Ok(None) };
        match read(item) {
            Some(value) => Ok(Some(value)),
            None => Err(self.refuse(key, format!("is {}, not {what}", a(item.type_name())))),
        }
    }

    /// A value that must be there.
    pub(super) fn needed<T>(
        &self,
        key: &str,
        value: Result<Option<T>, Refused>,
    ) -> Result<T, Refused> {
        value?.ok_or_else(|| self.refuse(key, "is missing"))
    }

    /// A text, which is not empty.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'f str>, Refused> {
        let text = self.get(key, "a text", Item::as_str)?;
        if text.is_some_and(|text| text.trim().is_empty()) {
            return Err(self.refuse(key, "is empty"));
        }
        Ok(text)
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(
        &self,
        key: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Refused> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match words.iter().find(|&&(word, _)| word == text) {
            Some(&(_, meaning)) => Ok(Some(meaning)),
            None => {
                let known: Vec<_> = words.iter().map(|&(word, _)| word).collect();
                let help = among(text, &known);
                Err(self.refuse(key, format!("cannot be `{text}`; {help}")))
            }
        }
    }

    /// True or false; false if it is not there.
    pub(super) fn flag(&self, key: &str) -> Result<bool, Refused> {
        Ok(self.get(key, "true or false", Item::as_bool)?.unwrap_or(false))
    }

    /// A number, which is finite.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, Refused> {
        let number = self.get(key, "a number", as_number)?;
        if number.is_some_and(|number| !number.is_finite()) {
            return Err(self.refuse(key, "is not finite"));
        }
        Ok(number)
    }

    /// A list of numbers, which are finite.
    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>, Refused> {
        let numbers = self.get(key, "a list of numbers", |item| {
            let list = item.as_array()?;
            list.iter().map(|value| value.as_float().or(value.as_integer().map(whole))).collect()
        });
        let numbers: Option<Vec<f64>> = numbers?;
        if numbers.iter().flatten().any(|number| !number.is_finite()) {
            return Err(self.refuse(key, "has a number that is not finite"));
        }
        Ok(numbers)
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, Refused> {
        self.get(key, "a list of texts", |item| {
            let list = item.as_array()?;
            list.iter().map(|value| value.as_str().map(str::to_owned)).collect()
        })
    }

    /// A table.
    pub(super) fn section(&self, key: &str) -> Result<Option<Section<'f>>, Refused> {
        let name = self.name(key);
        let table = self.get(key, "a table", |item| Some((item.as_table_like()?, item.span())))?;
        Ok(table.map(|(table, span)| self.inner(name, table, span, key)))
    }

    /// The tables of a list of tables; none if it is not there.
    pub(super) fn sections(&self, key: &str) -> Result<Vec<Section<'f>>, Refused> {
        let tables = self.get(key, "a list of tables", Item::as_array_of_tables)?;
        Ok(tables
            .into_iter()
            .flatten()
            .map(|table| self.inner(self.name(key), table, table.span(), key))
            .collect())
    }

    fn inner(
        &self,
        path: String,
        table: &'f dyn TableLike,
        span: Option<Range<usize>>,
        key: &str,
    ) -> Section<'f> {
        let key = self.table.key(key).and_then(toml_edit::Key::span);
        let begins = span.or(key).map_or(self.begins, |span| span.start);
        Section { text: self.text, path, table, begins }
    }
}

/// Which of the known names was meant, or all of them.
fn among(name: &str, known: &[&str]) -> String {
    match names::nearest(name, known.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("there are {}", list(known)),
    }
}

/// Names in quotes with commas between.
pub(crate) fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The name of a type, with an article.
fn a(name: &str) -> String {
    match name {
        "integer" | "float" => "a number".to_owned(),
        "string" => "a text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" | "array of tables" => "a list".to_owned(),
        "inline table" => "a table".to_owned(),
        other => format!("a {other}"),
    }
}

fn as_number(item: &Item) -> Option<f64> {
    item.as_float().or(item.as_integer().map(whole))
}

/// An integer of a file as a number. Beyond 2^53 it is rounded, as TOML's own numbers with a point are.
fn whole(integer: i64) -> f64 {
    integer as f64
}
