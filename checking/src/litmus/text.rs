//! Words of a litmus file, each with the line it stands in.

use core::fmt;

/// Why a file cannot be read, or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl core::error::Error for Trouble {}

/// A text without its comments, of the same length and with the same lines.
///
/// # Errors
///
/// If a comment does not end.
pub(super) fn without_comments(text: &str) -> Result<String, Trouble> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut line = 1;
    while let Some(at) = rest.find("(*") {
        let (before, comment) = rest.split_at(at);
        line += before.matches('\n').count();
        out.push_str(before);
        let Some(end) = comment[2..].find("*)") else {
            return Err(Trouble { line, what: "a comment that does not end".into() });
        };
        let (comment, after) = comment.split_at(end + 4);
        line += comment.matches('\n').count();
        out.extend(comment.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// A word: a name, a number, or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
}

/// What is left of a text, as words.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    last: usize,
}

const SIGNS: [&str; 2] = ["/\\", "\\/"];

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str, first_line: usize) -> Self {
        let mut tokens = Vec::new();
        let mut line = first_line;
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if c == '\n' {
                line += 1;
            }
            if c.is_whitespace() {
                rest = &rest[c.len_utf8()..];
                continue;
            }
            let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
            let length = if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                sign.len()
            } else if word(c) {
                rest.find(|c| !word(c)).unwrap_or(rest.len())
            } else {
                c.len_utf8()
            };
            let (text, after) = rest.split_at(length);
            tokens.push(Token { text, line });
            rest = after;
        }
        let last = tokens.last().map_or(first_line, |token| token.line);
        Self { tokens, at: 0, last }
    }

    pub(super) fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(self.last, |token| token.line)
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|token| token.text)
    }

    pub(super) fn ahead(&self, by: usize) -> Option<&'a str> {
        self.tokens.get(self.at + by).map(|token| token.text)
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token.text)
    }

    pub(super) fn accept(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.eq_ignore_ascii_case(text));
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, text: &str) -> Result<(), Trouble> {
        if self.accept(text) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".to_owned(), |word| format!("`{word}`"));
        self.fail(format!("expected `{text}`, found {found}"))
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, Trouble> {
        match self.next() {
            Some(word) => Ok(word),
            None => self.fail(format!("expected {what}, found the end")),
        }
    }

    pub(super) fn fail<T>(&self, what: impl Into<String>) -> Result<T, Trouble> {
        Err(Trouble { line: self.line(), what: what.into() })
    }
}
