//! Text of others, made fit for a terminal.
//!
//! Names of processes, lines of traces and contents of files come from others, and what is recorded as root
//! is printed as root. A control character in them would be obeyed by the terminal: it could move the cursor,
//! change what was printed before, or set the window's title. So each is written as an escape (`\u{1b}`), and
//! so are the characters that reverse the direction of text, which make a line read as another.

use std::borrow::Cow;

/// Text of several lines: line feeds and tabs stay.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && c != '\t' && is_obeyed(c), |c| c.escape_unicode().to_string())
}

/// A document in JSON, the same document afterwards. JSON has escapes of its own for some of these
/// characters, and none of the others is outside of a string.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && is_obeyed(c), |c| format!("\\u{:04x}", u32::from(c)))
}

/// A name, or what else belongs into one line or one cell of a table: nothing stays that is obeyed.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_obeyed, |c| c.escape_unicode().to_string())
}

fn escape(
    text: &str,
    is_bad: impl Fn(char) -> bool,
    escaped_form: impl Fn(char) -> String,
) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_bad(c) {
            escaped.push_str(&escaped_form(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Whether a terminal does something else with a character than to show it: control characters of both sets
/// (Unicode's category Cc), separators of lines, and marks, embeddings, overrides and isolates of direction
/// (Unicode Standard Annex 9, table 4 and section 2).
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_is_not_copied() {
        for plain in ["", "kworker/0:1", "ünï\u{4e2d}", "a\nb\tc"] {
            assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }

    #[test]
    fn json_stays_what_it_was() {
        let name = "a\u{9b}1m\u{202e}\u{1b}";
        let document = format!("{:#}", serde_json::json!({ "name": name }));
        let plain = json(&document);
        assert!(!plain.replace('\n', "").chars().any(is_obeyed), "{plain}");
        let read: serde_json::Value = serde_json::from_str(&plain).expect("it is JSON");
        assert_eq!(read["name"], name);
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        assert_eq!(text("\u{1b}[2Jx\u{9b}1m\r\n\u{7f}"), "\\u{1b}[2Jx\\u{9b}1m\\u{d}\n\\u{7f}");
        assert_eq!(line("a\nb\tc"), "a\\u{a}b\\u{9}c");
        assert_eq!(line("exe\u{202e}txt.sh\u{2066}"), "exe\\u{202e}txt.sh\\u{2066}");
        let all: String = (0..=char::MAX as u32).filter_map(char::from_u32).collect();
        assert!(!line(&all).chars().any(is_obeyed));
    }
}
