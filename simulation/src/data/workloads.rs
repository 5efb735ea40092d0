//! Parameters of workloads: `published/workloads.toml`.

use std::collections::BTreeMap;

use lookaside_terminal::Refused;

use super::{
    Value,
    read::Text,
    value::{self, Kind},
};

/// What is known of workloads that their descriptions leave open.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// The numbers of each workload, in the order of the file. Their names are `workload.parameter`.
    pub workloads: BTreeMap<String, Vec<Value>>,
    /// The sources, by key.
    pub sources: BTreeMap<String, String>,
}

impl Parameters {
    /// The parameters of a workload by name, each in the unit that the file has; none if the file
    /// does not mention the workload.
    #[must_use]
    pub fn of(&self, workload: &str) -> BTreeMap<String, f64> {
        let values = self.workloads.get(workload).into_iter().flatten();
        values.map(|value| (value.key().to_owned(), value.number)).collect()
    }
}

/// Reads the file.
pub(super) fn read(file: &Text) -> Result<Parameters, Refused> {
    let document = file.parse()?;
    let root = file.root(&document);
    let sources = value::sources(&root)?;
    let mut workloads = BTreeMap::new();
    for workload in root.keys().filter(|&key| key != "sources") {
        let section = root.needed(workload, root.section(workload))?;
        let values = section
            .keys()
            .map(|key| value::value(&section, key, Kind::Free, &sources))
            .collect::<Result<_, _>>()?;
        workloads.insert(workload.to_owned(), values);
    }
    Ok(Parameters { workloads, sources })
}
