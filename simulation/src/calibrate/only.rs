//! Some prices instead of all: which, and what must be measured for them.

use lookaside_terminal::Refused;

use super::probe::Scope;

const WORDS: Scope = Scope { words: true, ..NOTHING };
const CHASES: Scope = Scope { chases: true, ..NOTHING };
const SWITCHES: Scope = Scope { switches: true, ..NOTHING };
const CALLS: Scope = Scope { calls: true, ..NOTHING };
/// The answer to an interrupt crosses lines, whose share the model works out with the machine's TLB.
const INTERRUPTS: Scope = Scope { barriers: true, ..WORDS.and(CHASES) };
const NOTHING: Scope = Scope {
    compared: false,
    switches: false,
    chases: false,
    words: false,
    calls: false,
    barriers: false,
};

/// The prices that can be measured, by their names in a machine file, and what each needs.
const PRICES: [(&str, Scope); 14] = [
    ("hit", CHASES),
    ("atomic", WORDS),
    ("line_thread", WORDS),
    ("line_cluster", WORDS),
    ("line_socket", WORDS),
    ("line_remote", WORDS),
    ("second_level", CHASES),
    ("walk", CHASES),
    ("root", SWITCHES),
    ("root_flush", CALLS),
    ("flush_page", CALLS),
    ("flush_all", CALLS),
    ("interrupt_send", INTERRUPTS),
    ("interrupt_deliver", INTERRUPTS),
];

/// Some of the prices that can be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only {
    names: Vec<&'static str>,
    scope: Scope,
}

impl Only {
    /// The prices of these names. `interrupt` stands for all whose names begin with `interrupt_`.
    ///
    /// # Errors
    ///
    /// If a name is that of none, with all that there are.
    pub fn named(asked: &[String]) -> Result<Self, Refused> {
        let mut only = Self { names: Vec::new(), scope: NOTHING };
        for name in asked {
            let is_meant = |price: &str| {
                price
                    .strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
            };
            let found: Vec<_> = PRICES.iter().filter(|(price, _)| is_meant(price)).collect();
            if found.is_empty() {
                let known = PRICES.map(|(price, _)| price).join(", ");
                let all = "and `interrupt`, `line`, `root` and `flush` for all that begin so";
                return Err(Refused(format!(
                    "`{name}` cannot be measured; these can: {known}, {all}"
                )));
            }
            for &&(price, scope) in &found {
                only.names.push(price);
                only.scope = only.scope.and(scope);
            }
        }
        Ok(only)
    }

    /// What must be measured.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// The name of the price with this key of a machine file, if it is one of these.
    #[must_use]
    pub fn price(&self, key: &str) -> Option<&'static str> {
        let name = key.strip_prefix("prices.")?;
        self.names.iter().copied().find(|&price| price == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Result<Only, Refused> {
        Only::named(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn an_answer_names_what_can_be_measured() {
        assert_eq!(PRICES.map(|(name, _)| name), crate::sensitivity::words::MEASURED);
    }

    #[test]
    fn a_name_stands_for_itself_and_for_those_that_go_on() {
        let only = named(&["interrupt", "root"]).unwrap();
        let found = ["interrupt_send", "interrupt_deliver", "root", "root_flush", "walk"]
            .map(|name| only.price(&format!("prices.{name}")).is_some());
        assert_eq!(found, [true, true, true, true, false]);
        assert_eq!(only.price("paths.root"), None);
        let scope = only.scope();
        assert!(scope.barriers && scope.words && scope.chases && scope.switches && scope.calls);
        assert!(!named(&["walk"]).unwrap().scope().calls, "a chase is enough");
        let Refused(why) = named(&["roo"]).unwrap_err();
        assert!(why.contains("interrupt_deliver"), "{why}");
    }
}
