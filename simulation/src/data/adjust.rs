//! Numbers of a machine that are changed in memory: what fitting does, and more sockets than the file has.

use core::{fmt, str::FromStr};

use lookaside_machine::timed::{Hops, Price};
use lookaside_terminal::{Refused, counted};

use super::{Machine, Value, value::picoseconds};

/// How many sockets a machine has in place of its own, and how far they are from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sockets {
    count: u32,
    hops: Hops,
}

/// The most sockets that a machine is given.
const MOST: u32 = 64;

/// Their number, if all are linked with each other, or a row of links for each: `0 1 1 2; 1 0 2 1; 1 2 0 1; 2 1 1 0`.
impl FromStr for Sockets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().parse() {
            Ok(count @ 1..=MOST) => return Ok(Self { count, hops: Hops::ONE }),
            Ok(count) => return Err(format!("there are 1 to {MOST} sockets, and not {count}")),
            Err(_) if !text.contains(';') => {
                return Err(format!(
                    "`{text}` is neither a number of sockets nor rows of links: `0 1 2; 1 0 1; 2 1 0`"
                ));
            }
            Err(_) => {}
        }
        let hops: Hops = text.parse()?;
        Ok(Self { count: hops.sockets().unwrap_or(1), hops })
    }
}

impl fmt::Display for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hops.sockets() {
            Some(_) => write!(f, "{} ({})", self.count, self.hops),
            None => write!(f, "{}", self.count),
        }
    }
}

impl Machine {
    /// The number of a value by its name (`prices.walk`, `paths.exit`), in the unit of the file.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|value| value.name == name).map(|value| value.number)
    }

    /// Gives it other sockets, each a node of its own, and says so in its key. What a link between two takes stays what
    /// it is.
    pub fn set_sockets(&mut self, sockets: Sockets) {
        let topology = &mut self.model.topology;
        (topology.sockets, topology.nodes, topology.hops) =
            (sockets.count, sockets.count, sockets.hops);
        self.key = format!("{}, sockets: {sockets}", self.key);
        self.given_sockets = Some(sockets);
    }

    /// Where so many CPUs are in some of the sockets alone that the machine was given: in how many, and what reaches all.
    #[must_use]
    pub fn unreached_sockets(&self, cpus: usize) -> Option<String> {
        let given = self.given_sockets?.count as usize;
        let topology = &self.model.topology;
        let each = (topology.cores_per_cluster * topology.clusters) as usize;
        // Second threads of cores come after the first ones of all.
        let reached = cpus.div_ceil(each);
        (reached < given).then(|| {
            let cpus = counted(cpus, "CPU", "CPUs");
            format!(
                "With {cpus} the run is in {reached} of the {given} sockets, of {each} cores each, and the others change nothing: \
                 {} CPUs are in all of them.",
                (given - 1) * each + 1
            )
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_a_number_or_rows_of_links() {
        let said = |text: &str| text.parse::<Sockets>().map(|sockets| sockets.to_string());
        assert_eq!(said("8").as_deref(), Ok("8"));
        assert_eq!(said(" 0 1;1 0 ").as_deref(), Ok("2 (0 1; 1 0)"));
        for (text, why) in [
            ("0", "there are 1 to 64 sockets, and not 0"),
            ("65", "there are 1 to 64 sockets, and not 65"),
            ("many", "`many` is neither a number of sockets nor rows of links"),
            ("0 1; 2 0", "from socket 0 to 1 it is not what it is back"),
        ] {
            assert!(said(text).unwrap_err().starts_with(why), "{text}");
        }
    }

    #[test]
    fn sockets_that_no_cpu_of_a_run_is_in_are_said() {
        let mut machine = Machine::named("zen5").unwrap();
        let own = machine.unreached_sockets(1);
        assert_eq!(own, None, "nobody has asked for them");
        let topology = machine.model.topology;
        let each = (topology.cores_per_cluster * topology.clusters) as usize;
        machine.set_sockets("3".parse().unwrap());
        let said = |cpus| machine.unreached_sockets(cpus);
        let one = said(each).unwrap();
        assert!(one.contains("the run is in 1 of the 3 sockets"), "{one}");
        assert!(one.contains(&format!("{} CPUs are in all", 2 * each + 1)), "{one}");
        assert!(said(2 * each).unwrap().contains("in 2 of the 3"));
        assert_eq!([2 * each + 1, 6 * each].map(said), [None, None]);
    }
}
