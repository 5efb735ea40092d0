//! Numbers of things.

/// A number with the word for what is counted: the first for one, else the second.
#[must_use]
pub fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let words = [0, 1, 2].map(|count| counted(count, "flush", "flushes"));
        assert_eq!(words, ["0 flushes", "1 flush", "2 flushes"]);
    }
}
