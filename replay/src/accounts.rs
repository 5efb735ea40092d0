//! The accounts that time is billed to: the initiators of a script, and each program for its own computing.

use std::collections::HashMap;

use lookaside_machine::timed::AccountId;
use lookaside_traces::reconstruct::{Initiator, Operation, Script, Space, SpaceId};

/// The accounts of a replay. Account 0 has no initiator. The initiators of the script follow in their order,
/// then programs whose computing is no initiator in the script.
#[derive(Debug)]
pub(super) struct Accounts {
    initiators: Vec<Initiator>,
    /// For each space, the account of its program when it computes.
    users: Vec<AccountId>,
}

impl Accounts {
    pub(super) fn new(script: &Script) -> Self {
        let mut initiators = script.initiators.clone();
        let user = |(initiator, number): (&Initiator, u32)| {
            (initiator.operation == Operation::User)
                .then(|| ((initiator.process.clone(), initiator.recorded), AccountId(number)))
        };
        let mut known: HashMap<(String, bool), AccountId> =
            script.initiators.iter().zip(1..).filter_map(user).collect();
        let mut account = |space: &Space| {
            let (process, recorded) = (space.name.clone(), space.recorded);
            *known.entry((process.clone(), recorded)).or_insert_with(|| {
                let operation = Operation::User;
                initiators.push(Initiator { process, operation, function: None, recorded });
                AccountId(initiators.len() as u32)
            })
        };
        let users = script.spaces.iter().map(&mut account).collect();
        Self { initiators, users }
    }

    /// The number of accounts, account 0 included.
    pub(super) const fn count(&self) -> u32 {
        self.initiators.len() as u32 + 1
    }

    /// The account of an initiator of the script.
    pub(super) const fn initiator(&self, number: u32) -> AccountId {
        AccountId(number + 1)
    }

    /// The account of a space's program when it computes.
    pub(super) fn user(&self, space: SpaceId) -> AccountId {
        self.users[space.0 as usize]
    }

    /// The initiator of an account; `None` for account 0.
    pub(super) fn who(&self, account: AccountId) -> Option<&Initiator> {
        self.initiators.get((account.0 as usize).checked_sub(1)?)
    }
}
