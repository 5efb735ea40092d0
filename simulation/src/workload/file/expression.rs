//! Numbers and times of a workload file: `me * 16 + random(pages)`, `5 us`, `think * 2`.

use lookaside_machine::timed;

use crate::data::{Parameter, UNITS, list};

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Number(f64),
    Name(Name),
    Random(Box<Self>),
    Of(char, Box<Self>, Box<Self>),
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Name {
    /// A parameter, by its place.
    Parameter(usize),
    /// How many CPUs there are.
    Cpus,
    /// How many threads the group has.
    Threads,
    /// Which thread of its group this is, from 0.
    Me,
    /// How often the innermost loop has gone round, and the one around it.
    I,
    J,
}

const NAMES: [(&str, Name); 5] = [
    ("cpus", Name::Cpus),
    ("threads", Name::Threads),
    ("me", Name::Me),
    ("i", Name::I),
    ("j", Name::J),
];

/// Where an expression stands. It says which names have a value there, besides parameters and `cpus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// A statement of a program: all names, and `random`.
    Program,
    /// A key of which a run has one value.
    Run,
    /// A key of which a group of threads has one value: `threads`.
    Group,
    /// A key of which each thread has a value: `threads` and `me`.
    Thread,
}

impl Scope {
    /// Whether a name of the language has a value here.
    const fn has(self, name: Name) -> bool {
        match name {
            Name::Parameter(_) | Name::Cpus => true,
            Name::Threads => !matches!(self, Self::Run),
            Name::Me => matches!(self, Self::Program | Self::Thread),
            Name::I | Name::J => matches!(self, Self::Program),
        }
    }
}

/// The most numbers, names and parentheses of a statement. Expressions are evaluated on the stack of a simulated CPU.
const MOST_TERMS: usize = 100;

/// The most characters of a text that a message quotes.
const MOST_QUOTED: usize = 100;

/// What names are worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'v> {
    pub(super) parameters: &'v [f64],
    pub(super) cpus: usize,
    pub(super) threads: usize,
    pub(super) me: usize,
    pub(super) loops: [u64; 2],
}

impl Expression {
    /// What it is worth: times in nanoseconds.
    pub(super) fn value(&self, values: Values<'_>) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Name(name) => match name {
                Name::Parameter(place) => values.parameters[*place],
                Name::Cpus => values.cpus as f64,
                Name::Threads => values.threads as f64,
                Name::Me => values.me as f64,
                Name::I => values.loops[0] as f64,
                Name::J => values.loops[1] as f64,
            },
            Self::Random(limit) => {
                let limit = limit.value(values).max(1.0) as u64;
                timed::random_below(limit) as f64
            }
            Self::Of(operator, a, b) => {
                let (a, b) = (a.value(values), b.value(values));
                match operator {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    '/' => a / b,
                    _ => a.rem_euclid(b),
                }
            }
        }
    }
}

/// A text as messages quote it: the beginning of one that is long.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(MOST_QUOTED) {
        Some((end, _)) => format!("`{} ...`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// The words of a text: names, numbers, and signs by themselves.
fn words(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut open = false;
    for letter in text.chars() {
        let inside = letter.is_alphanumeric() || letter == '_' || letter == '.';
        match all.last_mut() {
            Some(last) if inside && open => last.push(letter),
            _ if !letter.is_whitespace() => all.push(letter.to_string()),
            _ => {}
        }
        open = inside;
    }
    all
}

/// Reads expressions from the words of a statement.
pub(super) struct Reader<'r> {
    words: std::vec::IntoIter<String>,
    next: Option<String>,
    parameters: &'r [Parameter],
    scope: Scope,
    /// How many numbers, names and parentheses were read.
    terms: usize,
    /// The parameters that were named.
    pub(super) read: Vec<usize>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(text: &str, parameters: &'r [Parameter], scope: Scope) -> Self {
        let mut words = words(text).into_iter();
        let next = words.next();
        Self { words, next, parameters, scope, terms: 0, read: Vec::new() }
    }

    /// The next word, if there is one.
    pub(super) fn word(&mut self) -> Option<String> {
        core::mem::replace(&mut self.next, self.words.next())
    }

    /// The next word without taking it.
    pub(super) fn peek(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// A number without a unit.
    pub(super) fn number(&mut self) -> Result<Expression, String> {
        match self.sum()? {
            (expression, false) => Ok(expression),
            (_, true) => Err("has a time where a number is needed".to_owned()),
        }
    }

    /// A time.
    pub(super) fn time(&mut self) -> Result<Expression, String> {
        match self.sum()? {
            (expression, true) => Ok(expression),
            (_, false) => {
                Err("has a number where a time is needed: add a unit, as in `5 us`".to_owned())
            }
        }
    }

    fn sum(&mut self) -> Result<(Expression, bool), String> {
        let (mut left, is_time) = self.product()?;
        while let Some(operator) = self.peek().and_then(|word| "+-".find(word)) {
            let _ = self.word();
            let (right, other) = self.product()?;
            if is_time != other {
                return Err("adds a time and a number".to_owned());
            }
            left = Expression::Of(['+', '-'][operator], left.into(), right.into());
        }
        Ok((left, is_time))
    }

    fn product(&mut self) -> Result<(Expression, bool), String> {
        let (mut left, mut is_time) = self.term()?;
        while let Some(operator) = self.peek().and_then(|word| "*/%".find(word)) {
            let _ = self.word();
            let (right, other) = self.term()?;
            if other && (is_time || operator != 0) {
                return Err("multiplies or divides by a time".to_owned());
            }
            is_time |= other;
            left = Expression::Of(['*', '/', '%'][operator], left.into(), right.into());
        }
        Ok((left, is_time))
    }

    fn term(&mut self) -> Result<(Expression, bool), String> {
        let word = self.word().ok_or("ends where a number is needed")?;
        self.terms += 1;
        if self.terms > MOST_TERMS {
            return Err(format!(
                "has more than {MOST_TERMS} numbers, names and parentheses: write it shorter"
            ));
        }
        if word == "-" {
            return Err("has a number below 0; all are 0 or more".to_owned());
        }
        if word == "(" {
            let inner = self.sum()?;
            return self.close().map(|()| inner);
        }
        if word == "random" && self.peek() == Some("(") {
            if self.scope != Scope::Program {
                let why =
                    "has `random`, which is for programs: write a number, a parameter or `cpus`";
                return Err(why.to_owned());
            }
            let _ = self.word();
            let limit = self.number()?;
            return self.close().map(|()| (Expression::Random(limit.into()), false));
        }
        if let Ok(number) = word.parse::<f64>() {
            let unit = self.peek().and_then(|next| UNITS.iter().find(|(name, _)| *name == next));
            return Ok(match unit {
                Some(&(_, scale)) => {
                    let _ = self.word();
                    (Expression::Number(number * scale), true)
                }
                None => match self.peek().filter(|next| next.chars().all(char::is_alphabetic)) {
                    // A number and then a word that is neither a unit nor begins another number.
                    Some(other) if is_no_name(other, self.parameters) => {
                        let known = UNITS.map(|(name, _)| name).join("`, `");
                        return Err(format!("has the unknown unit `{other}`; there are `{known}`"));
                    }
                    _ => (Expression::Number(number), false),
                },
            });
        }
        if let Some(&(_, name)) = NAMES.iter().find(|(name, _)| *name == word) {
            return self.own_name(&word, name).map(|expression| (expression, false));
        }
        if let Some(place) = self.parameters.iter().position(|one| one.name == word) {
            self.read.push(place);
            return Ok((Expression::Name(Name::Parameter(place)), self.parameters[place].is_time));
        }
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            let number = word.trim_end_matches(char::is_alphabetic);
            let unit = &word[number.len()..];
            let units = UNITS.map(|(name, _)| name);
            return Err(match units.contains(&unit) && number.parse::<f64>().is_ok() {
                true => format!("has `{word}`: write `{number} {unit}`, with a space"),
                false => format!(
                    "has `{word}`, which is neither a number nor a name; the units of times are `{}`",
                    units.join("`, `")
                ),
            });
        }
        let known = NAMES.iter().map(|(name, _)| *name);
        let known = known.chain(self.parameters.iter().map(|one| one.name.as_str()));
        let help = match lookaside_terminal::names::nearest(&word, known) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`[parameters]` has none of that name".to_owned(),
        };
        Err(format!("names `{word}`, which is unknown; {help}"))
    }

    /// A name of the language, unless it has no value where the expression stands.
    fn own_name(&self, word: &str, name: Name) -> Result<Expression, String> {
        if self.scope.has(name) {
            return Ok(Expression::Name(name));
        }
        let known = NAMES.iter().filter(|(_, name)| self.scope.has(*name));
        let known: Vec<&str> = known.map(|(name, _)| *name).collect();
        let known = list(&known);
        Err(format!("names `{word}`, which has no value here; there are {known}, and parameters"))
    }

    fn close(&mut self) -> Result<(), String> {
        match self.word().as_deref() {
            Some(")") => Ok(()),
            _ => Err("lacks a `)`".to_owned()),
        }
    }
}

/// Whether the language has this name, so that no parameter can.
pub(super) fn is_own_name(word: &str) -> bool {
    NAMES.iter().any(|(name, _)| *name == word)
}

fn is_no_name(word: &str, parameters: &[Parameter]) -> bool {
    let is_name = is_own_name(word)
        || parameters.iter().any(|one| one.name == word)
        || ["random", "batch", "each", "of"].contains(&word);
    !is_name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        value_in(text, Scope::Program)
    }

    fn value_in(text: &str, scope: Scope) -> Result<f64, String> {
        let parameters = [
            Parameter { name: "pages".into(), value: 16.0, is_time: false, line: 1 },
            Parameter { name: "think".into(), value: 500.0, is_time: true, line: 2 },
        ];
        let numbers = [16.0, 500.0];
        let values = Values { parameters: &numbers, cpus: 8, threads: 4, me: 3, loops: [5, 7] };
        let mut reader = Reader::new(text, &parameters, scope);
        let (expression, _) = reader.sum()?;
        match reader.word() {
            None => Ok(expression.value(values)),
            Some(word) => Err(format!("more: {word}")),
        }
    }

    #[test]
    fn expressions_are_worth_what_arithmetic_says() {
        assert_eq!(value("me * pages + i"), Ok(53.0));
        assert_eq!(value("(cpus - 1) % threads"), Ok(3.0));
        assert_eq!(value("1.5 us + think * 2"), Ok(2500.0));
        assert_eq!(value("3 * 2 ms"), Ok(6e6));
        assert_eq!(value("j/2"), Ok(3.5));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(value("5 parsecs").unwrap_err().contains("unknown unit `parsecs`"));
        assert!(value("5us").unwrap_err().ends_with("has `5us`: write `5 us`, with a space"));
        assert!(value("2 * 1.5ms").unwrap_err().contains("write `1.5 ms`"));
        let why = value("3parsecs").unwrap_err();
        assert!(why.contains("`3parsecs`, which is neither") && why.contains("`us`"), "{why}");
        assert!(value("page").unwrap_err().contains("did you mean `pages`?"));
        assert!(value("5 us + 3").unwrap_err().contains("adds a time and a number"));
        assert!(value("(3").unwrap_err().contains("lacks a `)`"));
        assert!(value("3 +").unwrap_err().contains("ends where a number is needed"));
        assert!(value("3 / 2 us").unwrap_err().contains("divides by a time"));
    }

    #[test]
    fn names_have_values_where_something_has_them() {
        for (name, scopes) in [
            ("cpus", [true, true, true]),
            ("pages", [true, true, true]),
            ("threads", [false, true, true]),
            ("me", [false, false, true]),
            ("i", [false; 3]),
            ("j", [false; 3]),
            ("random(3)", [false; 3]),
        ] {
            for (scope, has) in [Scope::Run, Scope::Group, Scope::Thread].into_iter().zip(scopes) {
                assert_eq!(value_in(name, scope).is_ok(), has, "{name} {scope:?}");
            }
        }
        let why = value_in("1 + me", Scope::Group).unwrap_err();
        assert!(why.ends_with("there are `cpus`, `threads`, and parameters"), "{why}");
        assert!(value_in("random(3)", Scope::Run).unwrap_err().contains("is for programs"));
    }

    /// Each would overflow the stack: of the reader, or of the CPU that evaluates it.
    #[test]
    fn an_expression_is_only_so_long() {
        let nested = |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        let sum = |terms| vec!["1"; terms].join(" + ");
        assert_eq!(value(&nested(MOST_TERMS - 1)), Ok(1.0));
        assert_eq!(value(&sum(MOST_TERMS)), Ok(MOST_TERMS as f64));
        for text in [nested(MOST_TERMS), sum(MOST_TERMS + 1), nested(10_000), sum(10_000)] {
            assert!(value(&text).unwrap_err().contains("more than 100 numbers"));
        }
    }
}
