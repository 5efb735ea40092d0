//! What there is to run and to compare with: machines, published results, parameters of workloads.

use std::collections::BTreeMap;

use super::reference::{Member, Reference};
use crate::{
    data::{Machine, Origin, Published, Refused},
    names, workload,
};

/// Options of a workload, by name.
pub type Settings = BTreeMap<String, f64>;

/// Machines, published results, and parameters of workloads.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// The machines.
    pub machines: Vec<Machine>,
    /// The published results, in the order in which they are shown.
    pub published: Vec<Published>,
    /// What workloads are told unless a result says otherwise, by workload.
    pub parameters: BTreeMap<String, Settings>,
}

impl Book {
    /// What the repository has.
    ///
    /// # Errors
    ///
    /// If one of its files is wrong.
    pub fn shipped() -> Result<Self, Refused> {
        Ok(Self::default())
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
        let mut options = self.parameters.get(workload).cloned().unwrap_or_default();
        options.extend(given.iter().map(|(name, &value)| (name.clone(), value)));
        options
    }

    /// Whether a number of a machine is fitted to this published value.
    #[must_use]
    pub fn is_fitted(&self, id: &str, member: Member, x: Option<f64>) -> bool {
        let values = self.machines.iter().flat_map(|machine| &machine.values);
        values.into_iter().any(|value| match &value.origin {
            Origin::Fitted { to } => {
                to.parse::<Reference>().is_ok_and(|reference| reference.names(id, member, x))
            }
            Origin::Source { .. } => false,
        })
    }

    /// Looks for results that cannot be run because of what they name.
    ///
    /// # Errors
    ///
    /// The first name that does not exist, with the nearest that does.
    pub fn check(&self) -> Result<(), Refused> {
        for result in &self.published {
            workload::find(&result.workload)?;
            result.machines.iter().try_for_each(|machine| self.machine(machine).map(drop))?;
        }
        Ok(())
    }
}
