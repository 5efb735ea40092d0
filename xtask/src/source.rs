//! Rust source seen as lines, with code and comments told apart.
//!
//! This is no parser. It knows just enough of the language (comments, strings, characters,
//! attributes for tests) that a check of comments is not fooled by a string, nor a check of code
//! by a comment. What a `use` brings is parsed.

use syn::UseTree;

/// One name that a `use` brings.
pub(crate) struct Import {
    /// Where it comes from, its own name there included; `*` for all names.
    pub(crate) path: Vec<String>,
    /// What it is called here.
    pub(crate) name: String,
}

/// The names of a `use`, which may have groups within groups.
pub(crate) fn imports(tree: &UseTree) -> Vec<Import> {
    fn add(tree: &UseTree, path: &[String], found: &mut Vec<Import>) {
        let below = |name: &dyn ToString| [path, &[name.to_string()]].concat();
        let mut leaf = |path, name| found.push(Import { path, name });
        match tree {
            UseTree::Path(part) => add(&part.tree, &below(&part.ident), found),
            UseTree::Name(name) => leaf(below(&name.ident), name.ident.to_string()),
            UseTree::Rename(name) => leaf(below(&name.ident), name.rename.to_string()),
            UseTree::Glob(_) => leaf(below(&"*"), "*".to_owned()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| add(tree, path, found)),
        }
    }
    let mut found = Vec::new();
    add(tree, &[], &mut found);
    found
}

/// One line of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The code, with the contents of strings and characters blanked out.
    pub(crate) code: String,
    /// The comment, without its slashes. Doc comments begin with `/` or `!` here.
    pub(crate) comment: String,
    /// Whether the line belongs to an item under `#[cfg(test)]`.
    pub(crate) test: bool,
}

impl Line {
    /// Whether the line holds a comment and no code.
    pub(crate) fn is_comment(&self) -> bool {
        self.code.trim().is_empty() && !self.comment.is_empty()
    }

    /// Whether the comment is documentation.
    pub(crate) fn is_doc(&self) -> bool {
        self.comment.starts_with(['/', '!'])
    }
}

enum State {
    Code,
    LineComment,
    BlockComment(usize),
    /// A string; for raw ones, how many hashes close it.
    Text(Option<usize>),
}

/// Splits a source file into lines.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let characters: Vec<char> = text.chars().collect();
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut at = 0;
    while let Some(&now) = characters.get(at) {
        let line = lines.last_mut().expect("there is always a line");
        let next = characters.get(at + 1).copied();
        if now == '\n' {
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            lines.push(Line::default());
            at += 1;
            continue;
        }
        let mut taken = 1;
        match &mut state {
            State::LineComment => line.comment.push(now),
            State::BlockComment(depth) => match (now, next) {
                ('*', Some('/')) => {
                    taken = 2;
                    *depth -= 1;
                    if *depth == 0 {
                        state = State::Code;
                    }
                }
                ('/', Some('*')) => {
                    taken = 2;
                    *depth += 1;
                }
                _ => line.comment.push(now),
            },
            State::Text(None) => match now {
                '\\' if next != Some('\n') => taken = 2,
                '"' => {
                    line.code.push('"');
                    state = State::Code;
                }
                _ => {}
            },
            State::Text(Some(hashes)) => {
                let closing = 1 + *hashes;
                if now == '"' && hashes_from(&characters, at + 1) >= *hashes {
                    line.code.push('"');
                    taken = closing;
                    state = State::Code;
                }
            }
            State::Code => match (now, next) {
                ('/', Some('/')) => {
                    taken = 2;
                    state = State::LineComment;
                }
                ('/', Some('*')) => {
                    taken = 2;
                    state = State::BlockComment(1);
                }
                ('"', _) => {
                    line.code.push('"');
                    state = State::Text(None);
                }
                ('r', Some('"' | '#')) if !ends_in_name(&line.code) => {
                    let hashes = hashes_from(&characters, at + 1);
                    if characters.get(at + 1 + hashes) == Some(&'"') {
                        line.code.push('"');
                        taken = hashes + 2;
                        state = State::Text(Some(hashes));
                    } else {
                        line.code.push(now);
                    }
                }
                ('\'', Some(_)) => {
                    taken = character_length(&characters, at);
                    line.code.push('\'');
                }
                _ => line.code.push(now),
            },
        }
        at += taken;
    }
    mark_tests(&mut lines);
    lines
}

/// How many `#` stand from `at` on.
fn hashes_from(characters: &[char], at: usize) -> usize {
    characters.iter().skip(at).take_while(|&&c| c == '#').count()
}

fn ends_in_name(code: &str) -> bool {
    // `br"..."` is a string too.
    let before = code.strip_suffix('b').unwrap_or(code);
    before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// How many characters the literal takes that the quote at `at` begins; 1 if it is a lifetime.
fn character_length(characters: &[char], at: usize) -> usize {
    match (characters.get(at + 1), characters.get(at + 2)) {
        (Some('\\'), Some(_)) => {
            let end = characters.iter().skip(at + 3).take(10).position(|&c| c == '\'');
            end.map_or(1, |end| end + 4)
        }
        (Some(_), Some('\'')) => 3,
        _ => 1,
    }
}

/// Marks each item that follows `#[cfg(test)]`, up to its closing brace or semicolon.
fn mark_tests(lines: &mut [Line]) {
    let mut inside = false;
    let mut depth = 0_usize;
    for line in lines {
        let mut code = line.code.as_str();
        if !inside {
            let Some(start) = code.find("#[cfg(test)]") else { continue };
            code = &code[start + "#[cfg(test)]".len()..];
            inside = true;
            depth = 0;
        }
        line.test = true;
        for c in code.chars() {
            match c {
                '{' => depth += 1,
                '}' => {
                    depth = depth.saturating_sub(1);
                    inside = depth > 0;
                }
                ';' if depth == 0 => inside = false,
                _ => {}
            }
        }
    }
}

/// Whether `code` holds `word`, and not just a longer name that contains it.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(in_name) && !code[at + word.len()..].starts_with(in_name)
    })
}

/// The name of the function that a line of code begins to define.
pub(crate) fn function_name(code: &str) -> Option<&str> {
    let at = code
        .match_indices("fn ")
        .map(|(at, _)| at)
        .find(|&at| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))?;
    let name = code[at + 3..].trim_start();
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    (end > 0).then(|| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_told_apart() {
        let lines = lines(
            "let a = \"// no\"; // yes \"x\nlet b = r#\"\"// no\"#; /* one /* two */ three */ c",
        );
        assert_eq!(lines[0].code, "let a = \"\"; ");
        assert_eq!(lines[0].comment, " yes \"x");
        assert_eq!(lines[1].code, "let b = \"\";  c");
        assert_eq!(lines[1].comment, " one  two  three ");
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        let lines = lines(r#"f('"', '\'', '\u{22}'); g::<'a>(&'a x) // end"#);
        assert_eq!(lines[0].code, "f(', ', '); g::<'a>(&'a x) ");
        assert_eq!(lines[0].comment, " end");
    }

    #[test]
    fn a_string_may_span_lines() {
        let lines = lines("a(\"one \\\n // two\\\" \n three\"); // four");
        assert!(lines[1].comment.is_empty() && lines[2].comment == " four", "{lines:?}");
    }

    #[test]
    fn doc_comments_are_known() {
        let lines = lines("/// doc\n//! inner\n// plain\ncode(); // trailing");
        assert!(lines[0].is_doc() && lines[1].is_doc() && !lines[2].is_doc());
        assert!(lines[2].is_comment() && !lines[3].is_comment());
    }

    #[test]
    fn test_items_are_marked_to_their_end() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { \"}\"; }\n}\nfn c() {}\n#[cfg(test)]\nuse x;\nfn d() {}";
        let marked: Vec<bool> = lines(text).iter().map(|line| line.test).collect();
        assert_eq!(marked, [false, true, true, true, true, false, true, true, false]);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("Ordering::Acquire)", "Acquire"));
        assert!(!has_word("AcquireGuard", "Acquire") && !has_word("reAcquire", "Acquire"));
        assert_eq!(function_name("    pub const fn load<W>(&self)"), Some("load"));
        assert_eq!(function_name("let often = 1;"), None);
        assert_eq!(function_name("f: impl Fn(u8)"), None);
    }
}
