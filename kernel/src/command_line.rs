//! The kernel's command line.

use crate::lock::Once;

static WORDS: Once<&'static str> = Once::new();

pub(crate) fn set(words: &'static str) {
    WORDS.set(words);
}

/// The value of `name=value`.
pub(crate) fn get(name: &str) -> Option<&'static str> {
    let words = WORDS.get().split_ascii_whitespace();
    words.filter_map(|word| word.split_once('=')).find(|(n, _)| *n == name).map(|(_, value)| value)
}

/// The value of `name=number`.
pub(crate) fn number(name: &str) -> Option<u64> {
    get(name)?.parse().ok()
}
