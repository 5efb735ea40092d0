//! Loops that are cut short: over words, CPUs, pages or whatever else there are several of.

use core::ops::Range;

use syn::{Expr, ExprMethodCall, spanned::Spanned};

use super::{Finder, Kind};

/// Methods of iterators that go through all elements, and how many arguments they have.
const CONSUMERS: &[(&str, usize)] = &[
    ("all", 1),
    ("any", 1),
    ("count", 0),
    ("find", 1),
    ("find_map", 1),
    ("fold", 2),
    ("for_each", 1),
    ("max", 0),
    ("min", 0),
    ("position", 1),
    ("sum", 0),
    ("try_fold", 2),
    ("try_for_each", 1),
];

/// Whether a call goes through all elements.
pub(super) fn asks_all(call: &ExprMethodCall) -> bool {
    let name = call.method.to_string();
    CONSUMERS.contains(&(name.as_str(), call.args.len()))
}

impl Finder<'_, '_, '_> {
    /// Elements, of which the first or the last is left out.
    pub(super) fn cut(&mut self, shown: Range<usize>, elements: &Expr) {
        if let Some(number) = self.moved(Kind::Loop, shown, &["without-first", "without-last"]) {
            let place = elements.span().byte_range();
            self.edits.insert(number, place, format!("crate::mutant::cut({number}, "), ")");
        }
    }
}
