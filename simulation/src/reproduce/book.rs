//! What there is to run and to compare with: machines, published results, parameters of workloads.

use std::collections::BTreeMap;

use super::reference::{Member, Reference};
use lookaside_terminal::{Refused, names};

use crate::data::{Files, Machine, Origin, Parameters, Published, Ranges};

/// Options of a workload, by name.
pub type Settings = BTreeMap<String, f64>;

/// Machines, published results, and parameters of workloads.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// The machines.
    pub machines: Vec<Machine>,
    /// The published results, in the order in which they are shown: those of the founding systems first.
    pub published: Vec<Published>,
    /// What workloads are told unless a result says otherwise.
    pub parameters: Parameters,
    /// Where prices lie that are not known exactly.
    pub ranges: Ranges,
}

impl Book {
    /// What the repository has.
    ///
    /// # Errors
    ///
    /// If one of its files is wrong.
    pub fn shipped() -> Result<Self, Refused> {
        Self::of(Files::own())
    }

    /// What these files have.
    ///
    /// # Errors
    ///
    /// If one of them is wrong.
    pub fn of(files: &Files) -> Result<Self, Refused> {
        let mut published = files.published()?;
        published.sort_by_key(|result| (result.seed.is_none(), result.seed));
        let (machines, parameters) = (files.machines()?, files.parameters()?);
        Ok(Self { machines, published, parameters, ranges: files.ranges()? })
    }

    /// Adds the machine of a file, if `name_or_path` is a path: the key of the machine.
    ///
    /// # Errors
    ///
    /// If there is no such machine, or with the first thing that is wrong in the file.
    pub fn admit(&mut self, name_or_path: &str) -> Result<String, Refused> {
        if self.machines.iter().any(|machine| machine.key == name_or_path) {
            return Ok(name_or_path.to_owned());
        }
        let machine = Machine::named(name_or_path)?;
        let key = machine.key.clone();
        self.machines.retain(|other| other.key != key);
        self.machines.push(machine);
        Ok(key)
    }

    /// The machine of that name.
    ///
    /// # Errors
    ///
    /// If there is none, with the nearest name.
    pub fn machine(&self, key: &str) -> Result<&Machine, Refused> {
        self.machines.iter().find(|machine| machine.key == key).ok_or_else(|| {
            let known = self.machines.iter().map(|machine| machine.key.as_str());
            names::unknown("machine", key, known)
        })
    }

    /// The published result of that name.
    ///
    /// # Errors
    ///
    /// If there is none, with the nearest name.
    pub fn result(&self, id: &str) -> Result<&Published, Refused> {
        self.published.iter().find(|result| result.id == id).ok_or_else(|| {
            let known = self.published.iter().map(|result| result.id.as_str());
            names::unknown("result", id, known)
        })
    }

    /// The options of a workload: its parameters, and over them those that are given.
    #[must_use]
    pub fn options(&self, workload: &str, given: &Settings) -> Settings {
        let mut options = self.parameters.of(workload);
        options.extend(given.iter().map(|(name, &value)| (name.clone(), value)));
        options
    }

    /// Whether a number of a machine or of a workload is fitted to this published value.
    #[must_use]
    pub fn is_fitted(&self, id: &str, member: Member, x: Option<f64>) -> bool {
        let parameters = self.parameters.workloads.values().flatten();
        let machines = self.machines.iter().flat_map(|machine| &machine.values);
        machines.chain(parameters).any(|value| match &value.origin {
            Origin::Fitted { to } => {
                to.parse::<Reference>().is_ok_and(|reference| reference.names(id, member, x))
            }
            Origin::Source { .. } | Origin::Assumed { .. } => false,
        })
    }
}
