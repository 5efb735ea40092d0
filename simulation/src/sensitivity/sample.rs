//! Machines that are plausible, given what is known of one.

use lookaside_machine::timed::{Price, Ps};
use lookaside_terminal::Refused;

use crate::data::{Machine, Origin, Quality, Ranges};

/// A price or a path that is not known exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Uncertain {
    /// Its name, as the machine file has it: `prices.walk`.
    pub name: String,
    /// How much can be trusted what the file has.
    pub quality: Quality,
    /// What the machine file has, in picoseconds, with the [parts](crate::data::Value::part_of) that it was measured with;
    /// none if it has nothing.
    pub known: Option<f64>,
    /// The low end, in picoseconds.
    pub low: f64,
    /// The high end.
    pub high: f64,
    /// Whether the range is assumed: nothing published bounds it.
    pub is_assumed: bool,
}

impl Uncertain {
    /// The number at a place between the low end (0) and the high end (1), in picoseconds.
    #[must_use]
    pub fn at(&self, place: f64) -> f64 {
        self.low * (self.high / self.low).powf(place)
    }

    /// Sets it on a machine, in picoseconds.
    fn set(&self, machine: &mut Machine, time: f64) {
        let time = time.round() as Ps;
        match self.name.split_once('.') {
            Some(("prices", key)) => {
                if let Some(&price) = Price::ALL.iter().find(|price| price.key() == key) {
                    machine.model.prices.set(price, time);
                }
            }
            Some((_, key)) => {
                machine.paths.insert(key.to_owned(), time);
            }
            None => {}
        }
    }
}

/// What is not known exactly of a machine: its prices and paths, the prices that it should have, and the paths that
/// a workload assumes.
#[must_use]
pub fn uncertain(machine: &Machine, ranges: &Ranges, assumed: &[&str]) -> Vec<Uncertain> {
    let mut all = Vec::new();
    for value in &machine.values {
        let known = match value.name.split_once('.') {
            Some(("prices", key)) => {
                let price = Price::ALL.iter().find(|price| price.key() == key);
                price.and_then(|&price| machine.model.prices.get(price))
            }
            Some(("paths", key)) => machine.paths.get(key).copied(),
            _ => None,
        };
        let (quality, known) = (value.quality(), known.map(|time| time as f64));
        // What is for nothing stays so: a reading has put it elsewhere.
        let Some(time) = known.filter(|&time| time > 0.0) else { continue };
        let (low, high, known) = match value.origin {
            Origin::Assumed { low, high } => {
                let unit = time / value.number;
                (low * unit, high * unit, known)
            }
            _ => {
                let sum = time + parts_of(machine, &value.name);
                let factor = ranges.factor(quality);
                (sum / factor, sum * factor, Some(sum))
            }
        };
        let is_assumed = quality == Quality::Assumed;
        all.push(Uncertain { name: value.name.clone(), quality, known, low, high, is_assumed });
    }
    for price in machine.unpriced() {
        if let Some(range) = ranges.price(machine.isa, price) {
            let name = format!("prices.{}", price.key());
            let (low, high) = (range.low * 1e3, range.high * 1e3);
            let is_assumed = range.is_assumed();
            all.push(Uncertain {
                name,
                quality: Quality::Unpriced,
                known: None,
                low,
                high,
                is_assumed,
            });
        }
    }
    for &path in assumed {
        if let Some(range) = ranges.path(machine, path) {
            let name = format!("paths.{path}");
            let (low, high) = (range.low * 1e3, range.high * 1e3);
            let is_assumed = range.is_assumed();
            all.push(Uncertain {
                name,
                quality: Quality::Assumed,
                known: None,
                low,
                high,
                is_assumed,
            });
        }
    }
    all
}

/// What a machine has no price for, and what is assumed of it, by the names of the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Prices that the machine file should have and has not.
    pub unpriced: Vec<String>,
    /// The prices, also of the file, whose range is assumed.
    pub assumed: Vec<String>,
    /// The price that [stands for `flush_tag`](Machine::tag_as) with the file's numbers.
    pub tag_as: Option<&'static str>,
}

impl Gaps {
    /// Those of a machine.
    #[must_use]
    pub fn of(machine: &Machine, ranges: &Ranges) -> Self {
        Self::among(&uncertain(machine, ranges, &[]), machine)
    }

    pub(super) fn among(numbers: &[Uncertain], machine: &Machine) -> Self {
        let names = |of: fn(&Uncertain) -> bool| {
            numbers.iter().filter(|one| of(one)).map(|one| one.name.clone()).collect()
        };
        Self {
            unpriced: names(|number| number.quality == Quality::Unpriced),
            assumed: names(|number| number.is_assumed && number.name.starts_with("prices.")),
            tag_as: machine.tag_as().map(Price::key),
        }
    }
}

/// The prices that were measured in one sum with another, each with that other.
fn sums(machine: &Machine) -> impl Iterator<Item = (Price, Price)> + '_ {
    let price = |key: &str| Price::ALL.iter().copied().find(|price| price.key() == key);
    machine.values.iter().flat_map(move |value| {
        let part = value.name.strip_prefix("prices.").and_then(price);
        part.into_iter().flat_map(move |part| {
            value.part_of.iter().filter_map(move |whole| Some((part, price(whole)?)))
        })
    })
}

/// What was measured in one sum with a number, in picoseconds.
fn parts_of(machine: &Machine, name: &str) -> f64 {
    let parts =
        sums(machine).filter(|(_, whole)| name.strip_prefix("prices.") == Some(whole.key()));
    parts.map(|(part, _)| machine.model.prices.charge(part) as f64).sum()
}

/// Takes parts out of the sums that were drawn: what is sure is the sum, which no part exceeds.
fn take_parts_out(machine: &mut Machine) {
    let sums: Vec<(Price, Price)> = sums(machine).collect();
    let prices = &mut machine.model.prices;
    for (part, whole) in sums {
        if let Some(sum) = prices.get(whole) {
            let taken = prices.charge(part).min(sum);
            prices.set(part, taken);
            prices.set(whole, sum - taken);
        }
    }
}

/// A plausible machine.
#[derive(Clone, Debug)]
pub struct Plausible {
    /// The machine.
    pub machine: Machine,
    /// The reading of the sources that it follows; none for that of the file.
    pub reading: Option<String>,
    /// Where each [uncertain](Uncertain) number was set, from 0 to 1, by name.
    pub places: Vec<(String, f64)>,
}

/// A pseudo-random number, after Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The places of one number on `count` machines: one in each of as many equal parts of its range, in random
/// order (a Latin hypercube). They depend on the name and the seed alone, so that a machine which gets another price
/// keeps the places of the old ones.
fn places(name: &str, count: usize, seed: u64) -> Vec<f64> {
    let mut state = name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut strata: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        strata.swap(i, (next(&mut state) % (i as u64 + 1)) as usize);
    }
    let within = |state: &mut u64| (next(state) >> 11) as f64 / (1_u64 << 53) as f64;
    strata.into_iter().map(|part| (part as f64 + within(&mut state)) / count as f64).collect()
}

/// So many plausible machines. The readings of the sources take turns.
///
/// # Errors
///
/// If a reading cannot be followed.
pub fn plausible(
    machine: &Machine,
    ranges: &Ranges,
    assumed: &[&str],
    count: usize,
    seed: u64,
) -> Result<Vec<Plausible>, Refused> {
    let mut read = vec![(None, machine.clone())];
    for reading in &machine.readings {
        read.push((Some(reading.name.clone()), machine.read_as(&reading.name)?));
    }
    let mut all: Vec<Plausible> = (0..count)
        .map(|i| {
            let (reading, machine) = read[i % read.len()].clone();
            Plausible { machine, reading, places: Vec::new() }
        })
        .collect();
    for (turn, (_, machine)) in read.iter().enumerate() {
        for number in uncertain(machine, ranges, assumed) {
            let places = places(&number.name, count, seed);
            for (one, &place) in all.iter_mut().zip(&places).skip(turn).step_by(read.len()) {
                number.set(&mut one.machine, number.at(place));
                one.places.push((number.name.clone(), place));
            }
        }
    }
    all.iter_mut().for_each(|one| take_parts_out(&mut one.machine));
    Ok(all)
}

/// The machine in the middle of all ranges, but for one number that is at this place of its range.
#[must_use]
pub fn middle(machine: &Machine, uncertain: &[Uncertain], but: Option<(&str, f64)>) -> Machine {
    let mut machine = machine.clone();
    for number in uncertain {
        let place = but.filter(|(name, _)| *name == number.name).map_or(0.5, |(_, place)| place);
        number.set(&mut machine, number.at(place));
    }
    take_parts_out(&mut machine);
    machine
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Files;

    #[test]
    fn a_hypercube_has_each_part_of_a_range_once() {
        for count in [1, 7, 64] {
            let mut parts: Vec<usize> = places("prices.walk", count, 3)
                .iter()
                .map(|p| (p * count as f64) as usize)
                .collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..count).collect::<Vec<_>>());
        }
        assert_eq!(places("prices.walk", 8, 3), places("prices.walk", 8, 3));
        assert_ne!(places("prices.walk", 8, 3), places("prices.hit", 8, 3));
        assert_ne!(places("prices.walk", 8, 3), places("prices.walk", 8, 4));
    }

    #[test]
    fn every_number_of_a_plausible_machine_is_in_its_range() {
        let ranges = Files::own().ranges().unwrap();
        for machine in Files::own().machines().unwrap() {
            let numbers = uncertain(&machine, &ranges, &[]);
            assert!(numbers.iter().all(|one| one.low > 0.0 && one.low <= one.high));
            for one in plausible(&machine, &ranges, &[], 5, 1).unwrap() {
                if one.reading.is_some() {
                    continue;
                }
                for number in &numbers {
                    let time = match number.name.split_once('.') {
                        Some(("prices", key)) => {
                            let price = Price::ALL.iter().find(|price| price.key() == key);
                            one.machine.model.prices.get(*price.unwrap()).unwrap()
                        }
                        Some((_, key)) => one.machine.paths[key],
                        None => unreachable!("names have a table"),
                    } as f64
                        + parts_of(&one.machine, &number.name);
                    let inside = time >= number.low - 1.0 && time <= number.high + 1.0;
                    assert!(inside, "{} {number:?} {time}", machine.key);
                }
            }
        }
    }

    #[test]
    fn an_interrupt_takes_time_of_its_target_and_the_round_trip_stays_what_was_measured() {
        let ranges = Files::own().ranges().unwrap();
        for key in [
            "turin",
            "genoa",
            "zen2",
            "zen4",
            "zen5",
            "skylake_sp",
            "ice_lake_sp",
            "sapphire_rapids",
            "haswell_desktop",
        ] {
            let machine = Machine::named(key).unwrap();
            let charge = |machine: &Machine, price| machine.model.prices.charge(price) as f64 / 1e3;
            let target = |machine: &Machine| {
                charge(machine, Price::InterruptEntry) + charge(machine, Price::InterruptExit)
            };
            let round = |machine: &Machine, delivery| {
                charge(machine, delivery) + charge(machine, Price::InterruptEntry)
            };
            assert!((70.0..=470.0).contains(&target(&machine)), "{key}");
            let deliveries = [Price::InterruptDeliver, Price::InterruptDeliverRemote];
            let is_priced = |&price: &Price| machine.model.prices.get(price).is_some();
            for delivery in deliveries.into_iter().filter(is_priced) {
                let measured = if key == "haswell_desktop" { 435.79 } else { 708.0 };
                assert!((round(&machine, delivery) - measured).abs() < 0.1, "{key} {delivery:?}");
                let quality =
                    machine.values.iter().find(|of| of.key() == delivery.key()).unwrap().quality();
                let factor = ranges.factor(quality);
                for one in plausible(&machine, &ranges, &[], 12, 1).unwrap() {
                    assert!((70.0..=470.0).contains(&target(&one.machine)), "{key}");
                    let sum = round(&one.machine, delivery);
                    assert!(
                        (measured / factor - 1.0..measured * factor + 1.0).contains(&sum),
                        "{key} {sum}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_part_is_more_than_its_sum() {
        let mut machine = Machine::named("turin").unwrap();
        let parts = [Price::InterruptDeliver, Price::InterruptEntry];
        let mut left = |sum: Ps| {
            machine.model.prices.set(parts[0], sum);
            machine.model.prices.set(parts[1], 350_000);
            take_parts_out(&mut machine);
            parts.map(|price| machine.model.prices.charge(price))
        };
        assert_eq!(left(400_000), [50_000, 350_000]);
        assert_eq!(left(348_600), [0, 348_600]);
    }

    #[test]
    fn no_price_of_a_machine_is_left_at_nothing() {
        let ranges = Files::own().ranges().unwrap();
        for machine in Files::own().machines().unwrap() {
            for price in machine.unpriced() {
                let key = &machine.key;
                let range = ranges.price(machine.isa, price);
                assert!(range.is_some(), "{key}: no range for `{}`", price.key());
            }
        }
    }

    #[test]
    fn what_is_part_of_another_number_is_not_counted_twice() {
        let milan = Machine::named("milan_72cpu").unwrap();
        let unpriced: Vec<_> = milan.unpriced().collect();
        assert!(!unpriced.contains(&Price::InterruptDeliver), "it is in `interrupt_entry`");
        assert!(unpriced.contains(&Price::FabricSync), "nobody has published TLBSYNC");
        assert!(!unpriced.contains(&Price::LineRemote), "it has one socket");
    }
}
