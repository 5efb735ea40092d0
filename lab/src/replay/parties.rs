//! Who things are done for: the culprits of a script, and each program for what it uses by itself.

use std::collections::HashMap;

use lookaside_machine::timed::Party;

use crate::reconstruct::{Culprit, Deed, Script, SpaceId};

/// The parties of a replay. Party 0 is nobody; the culprits of the script follow in their order, and
/// then programs that the script makes no culprits for computing.
#[derive(Debug)]
pub(super) struct Parties {
    culprits: Vec<Culprit>,
    /// By space, its program when it computes.
    users: Vec<Party>,
}

impl Parties {
    pub(super) fn new(script: &Script) -> Self {
        let mut culprits = script.culprits.clone();
        let user = |(culprit, number): (&Culprit, u32)| {
            (culprit.deed == Deed::User).then(|| (culprit.process.clone(), Party(number)))
        };
        let mut known: HashMap<String, Party> =
            script.culprits.iter().zip(1..).filter_map(user).collect();
        let mut party = |name: &String| {
            if let Some(&party) = known.get(name) {
                return party;
            }
            culprits.push(Culprit { process: name.clone(), deed: Deed::User });
            let party = Party(culprits.len() as u32);
            known.insert(name.clone(), party);
            party
        };
        let users = script.spaces.iter().map(|space| party(&space.name)).collect();
        Self { culprits, users }
    }

    /// How many there are, with nobody.
    pub(super) const fn count(&self) -> u32 {
        self.culprits.len() as u32 + 1
    }

    /// The party of a culprit of the script.
    pub(super) const fn culprit(&self, number: u32) -> Party {
        Party(number + 1)
    }

    /// The party of a space's program when it computes.
    pub(super) fn user(&self, space: SpaceId) -> Party {
        self.users[space.0 as usize]
    }

    /// Who a party is; none for nobody.
    pub(super) fn who(&self, party: Party) -> Option<&Culprit> {
        self.culprits.get((party.0 as usize).checked_sub(1)?)
    }
}
