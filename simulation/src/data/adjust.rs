//! Numbers of a machine that are changed in memory: what fitting does, and more sockets than the file has.

use lookaside_machine::timed::Price;
use lookaside_terminal::Refused;

use super::{Machine, Value, value::picoseconds};

impl Machine {
    /// The number of a value by its name (`prices.walk`, `paths.exit`), in the unit of the file.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|value| value.name == name).map(|value| value.number)
    }

    /// Gives it another number of sockets, each a node of its own, and says so in its key. How far they are from each other
    /// stays what it is.
    pub fn set_sockets(&mut self, sockets: u32) {
        self.model.topology.sockets = sockets;
        self.model.topology.nodes = sockets;
        self.key = format!("{}, sockets: {sockets}", self.key);
    }

    /// Sets a price or a path by its name, in the unit of the file.
    ///
    /// # Errors
    ///
    /// If the file has no such number, or it is no price and no path, or it would be negative.
    pub fn set_number(&mut self, name: &str, number: f64) -> Result<(), Refused> {
        let refuse = |why: &str| Refused(format!("`{name}` of `{}` {why}", self.key));
        if !number.is_finite() || number < 0.0 {
            return Err(refuse("cannot be negative"));
        }
        let clock = self.number("cpu.clock");
        let Some(place) = self.values.iter().position(|value| value.name == name) else {
            return Err(refuse("is not in the file"));
        };
        let value = Value { number, ..self.values[place].clone() };
        let time = || picoseconds(&value, clock).map_err(refuse);
        match name.split_once('.') {
            Some(("prices", key)) => {
                let Some(&price) = Price::ALL.iter().find(|price| price.key() == key) else {
                    return Err(refuse("is no price"));
                };
                let time = time()?;
                self.model.prices.set(price, time);
            }
            Some(("paths", key)) => {
                let time = time()?;
                self.paths.insert(key.to_owned(), time);
            }
            _ => return Err(refuse("is no price and no path")),
        }
        self.values[place] = value;
        Ok(())
    }
}
