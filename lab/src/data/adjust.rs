//! Numbers of a machine that are changed in memory: what fitting does.

use lookaside_machine::timed::{Price, Ps};

use super::{Machine, Refused};

impl Machine {
    /// The number of a value by its name (`prices.walk`, `paths.exit`), in the unit of the file.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|value| value.name == name).map(|value| value.number)
    }

    /// Sets a price or a path by its name, in the unit of the file.
    ///
    /// # Errors
    ///
    /// If the file has no such number, or it is no price and no path, or it would be negative.
    pub fn set_number(&mut self, name: &str, number: f64) -> Result<(), Refused> {
        let refuse = |why: &str| Err(Refused(format!("`{name}` of `{}` {why}", self.key)));
        if !number.is_finite() || number < 0.0 {
            return refuse("cannot be negative");
        }
        let clock = self.number("cpu.clock");
        let Some(value) = self.values.iter().position(|value| value.name == name) else {
            return refuse("is not in the file");
        };
        let ps = match (self.values[value].unit.as_str(), clock) {
            ("ps", _) => number,
            ("ns", _) => number * 1e3,
            ("us", _) => number * 1e6,
            ("cycles", Some(gigahertz)) => number * 1e3 / gigahertz,
            _ => return refuse("is not a length of time"),
        };
        let ps = ps.round() as Ps;
        match name.split_once('.') {
            Some(("prices", key)) => {
                let Some(&price) = Price::ALL.iter().find(|price| price.key() == key) else {
                    return refuse("is no price");
                };
                self.model.prices.set(price, ps);
            }
            Some(("paths", key)) => {
                self.paths.insert(key.to_owned(), ps);
            }
            _ => return refuse("is no price and no path"),
        }
        self.values[value].number = number;
        Ok(())
    }
}
