//! Names, each once.

use std::{borrow::Cow, collections::HashMap};

use super::NameId;

/// Collects names; each has one number.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<String>,
    numbers: HashMap<String, NameId>,
}

impl Names {
    /// The number of a name. Bytes that are no text are replaced, as names of threads may be any bytes.
    ///
    /// # Panics
    ///
    /// With more than 2^32 names.
    pub fn number(&mut self, name: &[u8]) -> NameId {
        let name = String::from_utf8_lossy(name);
        if let Some(&known) = self.numbers.get(name.as_ref()) {
            return known;
        }
        let number = NameId(u32::try_from(self.names.len()).expect("there are not so many names"));
        let name = Cow::into_owned(name);
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    /// All names, by number.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.names
    }

    /// All names, by number.
    #[must_use]
    pub fn into_all(self) -> Vec<String> {
        self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_survives_bytes_that_are_no_text() {
        let mut names = Names::default();
        let sort = names.number(b"sort");
        let odd = names.number(b"a\xffb");
        assert_eq!((sort, odd), (NameId(0), NameId(1)));
        assert_eq!(names.number(b"sort"), sort);
        assert_eq!(names.into_all(), ["sort", "a\u{fffd}b"]);
    }
}
