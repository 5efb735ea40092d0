//! Names of fences in comments.

use crate::source::Line;

/// Where a fence or an ordering is named and explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) id: String,
    pub(super) partners: Vec<String>,
    /// The function in whose body it stands.
    pub(super) function: Option<String>,
    /// Index of the line.
    pub(super) line: usize,
}

/// The words a definition begins with, and how the names that follow begin.
const KINDS: [(&str, &str); 2] = [("FENCE ", "F-"), ("ORDER ", "O-")];

/// What is wrong, by index of the line.
pub(super) type Wrong = Vec<(usize, String)>;

/// The definitions in a file, and the lines that look like one and are none.
pub(super) fn definitions(lines: &[Line]) -> (Vec<Definition>, Wrong) {
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for start in 0..lines.len() {
        if !begins(&lines[start]) {
            continue;
        }
        // The sentence runs on through the comment lines that follow.
        let mut sentence = lines[start].comment.trim().to_owned();
        for line in lines[start + 1..].iter().take_while(|line| line.is_comment()) {
            if line.is_doc() || begins(line) {
                break;
            }
            sentence.push(' ');
            sentence.push_str(line.comment.trim());
        }
        match parse(&sentence) {
            Ok((id, partners)) => {
                let function = lines[..start].iter().rev().find_map(function_in);
                good.push(Definition { id, partners, function, line: start });
            }
            Err(why) => bad.push((start, format!("{why}: expected `{SHAPE}`"))),
        }
    }
    (good, bad)
}

/// The name of the function that begins in a line.
fn function_in(line: &Line) -> Option<String> {
    let (before, after) = line.code.split_once("fn ")?;
    let is_word = before.is_empty() || before.ends_with(' ');
    let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (is_word && !name.is_empty()).then_some(name)
}

const SHAPE: &str = "FENCE F-NAME (pairs with F-OTHER, ...): reason";

fn begins(line: &Line) -> bool {
    !line.is_doc() && KINDS.iter().any(|(word, _)| line.comment.trim_start().starts_with(word))
}

fn parse(sentence: &str) -> Result<(String, Vec<String>), String> {
    let (word, prefix) = KINDS
        .into_iter()
        .find(|(word, _)| sentence.starts_with(word))
        .ok_or_else(|| "neither FENCE nor ORDER".to_owned())?;
    let rest = sentence[word.len()..].trim_start();
    let (id, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (id, rest) = id.split_once(':').unwrap_or((id, rest));
    if !is_id(id) || !id.starts_with(prefix) {
        return Err(format!("`{id}` is no name for a {}", word.trim()));
    }
    let partners = rest.trim_start().strip_prefix("(pairs with ");
    let (partners, reason) = partners
        .and_then(|rest| rest.split_once(')'))
        .ok_or_else(|| format!("{id} names no partner"))?;
    let partners = partners
        .split(',')
        .map(|text| {
            partner(text).ok_or_else(|| {
                let text = text.trim();
                format!("{id} pairs with `{text}`: not a name, `walks`, `caller` or a few words")
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let reason = reason.strip_prefix(':').ok_or_else(|| format!("{id} has no `:` and reason"))?;
    if reason.trim().is_empty() {
        return Err(format!("{id} gives no reason"));
    }
    Ok((id.to_owned(), partners))
}

/// What a partner is called: a name, whatever words follow it (`F-TURN of the other CPU`), one of
/// those that have no definition, or what it is, in at least two words (`the MSR before it`).
pub(super) fn partner(text: &str) -> Option<String> {
    let text = text.trim().trim_matches('`');
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    if is_id(first) || super::OUTSIDE.contains(&first) {
        Some(first.to_owned())
    } else {
        let misspelt = first.starts_with("F-") || first.starts_with("O-");
        (!rest.is_empty() && !misspelt).then(|| text.to_owned())
    }
}

/// Whether a word names a fence or an ordering: `F-` or `O-`, then capitals, digits and dashes.
pub(super) fn is_id(word: &str) -> bool {
    let Some(name) = word.strip_prefix("F-").or_else(|| word.strip_prefix("O-")) else {
        return false;
    };
    !name.is_empty()
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-')
}

/// The names in one comment.
pub(super) fn ids(comment: &str) -> impl Iterator<Item = &str> {
    comment
        .split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'))
        .map(|word| word.trim_end_matches('-'))
        .filter(|word| is_id(word))
}

/// Every name in every comment of a file, with the index of its line.
pub(super) fn mentions(lines: &[Line]) -> impl Iterator<Item = (usize, String)> {
    lines
        .iter()
        .enumerate()
        .flat_map(|(index, line)| ids(&line.comment).map(move |id| (index, id.to_owned())))
}
