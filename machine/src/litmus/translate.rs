//! What an access may be translated to: any translation that the CPU's TLB may hold, or a new walk.

use crate::adversary::tlb::Entry;

use super::{
    descriptor::{Descriptor, cacheable, with_accessed, with_dirty},
    state::{State, Walk},
    test::{FaultKind, Named, Test, Thread},
};

/// Whether an access is a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Load,
    Store,
}

/// The cell of a variable's descriptor.
pub(crate) fn descriptor_cell(test: &Test, variable: usize) -> usize {
    test.contents.len() + variable
}

/// Everything that an access of a thread may be translated to now.
pub(crate) fn translations(
    test: &Test,
    state: &State,
    cpu: usize,
    named: Named,
    kind: Kind,
) -> Vec<Walk> {
    let thread = &test.threads[cpu];
    let page = match named {
        Named::Page(page) => page,
        // Descriptors are mapped for the kernel, by entries that no test changes.
        Named::Descriptor(of) => {
            return vec![Walk {
                cell: descriptor_cell(test, of),
                version: None,
                fault: thread.user.then_some(FaultKind::Permission),
                update: None,
                updated: false,
                doomed: 0,
            }];
        }
    };
    let now = state.cells[descriptor_cell(test, page)];
    let mut found = Vec::new();
    for entry in state.tlbs[cpu].iter().filter(|entry| entry.vpn == page as u64 + 1) {
        let fresh = entry.owner == now.version;
        found.extend(through(test, thread, entry, fresh, kind));
    }
    if !cacheable(now.value) {
        found.extend(through(test, thread, &entry(page, now.value, now.version), true, kind));
    }
    found
}

/// What an access comes to through one translation.
fn through(test: &Test, thread: &Thread, entry: &Entry, fresh: bool, kind: Kind) -> Option<Walk> {
    let word = entry.descriptor;
    // A descriptor that leads nowhere in the test is one that the test did not mean.
    let fields = Descriptor::decode(word, test.contents.len())
        .or_else(|| (!cacheable(word)).then(|| Descriptor { valid: false, ..Descriptor::to(0) }))?;
    let walk = Walk {
        cell: fields.output,
        version: Some(entry.owner),
        fault: None,
        update: None,
        updated: false,
        doomed: entry.doomed,
    };
    let fault = |kind| Some(Walk { fault: Some(kind), ..walk });
    if !fields.valid {
        return fault(FaultKind::Translation);
    }
    let mut update = word;
    if !fields.accessed {
        if !thread.accessed {
            return fault(FaultKind::AccessFlag);
        }
        update = with_accessed(update);
    }
    if thread.user && !fields.user {
        return fault(FaultKind::Permission);
    }
    if kind == Kind::Store && !fields.dirty {
        if !(thread.dirty && fields.managed) {
            return fault(FaultKind::Permission);
        }
        update = with_dirty(update);
    }
    if update == word {
        return Some(walk);
    }
    // Hardware looks at memory again before it writes: what has changed is walked anew.
    fresh.then_some(Walk { update: Some(update), ..walk })
}

/// A translation that a TLB may hold. Its owner is the version of the descriptor.
pub(crate) fn entry(page: usize, descriptor: u64, version: u32) -> Entry {
    Entry {
        vpn: page as u64 + 1,
        descriptor,
        owner: version,
        tag: 0,
        level: 0,
        flags: 0,
        doomed: 0,
    }
}
