//! The barriers that both stages have in common.

use super::instructions::{Dsb, Instructions, Tlbi, TlbiOp};
use crate::arch::{Errata, Scope, Wait, errata};

/// Makes the caller's page-table stores visible to walks, before invalidation.
#[inline]
pub(super) fn publish<I: Instructions>(insn: &I, scope: Scope) {
    // FENCE F-ARM-PUBLISH (pairs with F-ARM-DONE, F-ARM-SETTLE of a switch, walks): the caller's
    // page-table stores are visible to every walk that starts after the TLBI. Without it a walk
    // between the TLBI and the store's arrival caches the old descriptor again. What the caller
    // loads after it, above all the tag, is not older.
    insn.dsb(match scope {
        Scope::Local => Dsb::Nshst,
        Scope::Broadcast => Dsb::Ishst,
    });
}

/// Makes the caller's page-table stores visible to walks, before it asks who may have used what they
/// replaced.
#[inline]
pub(super) fn revoke<I: Instructions>(insn: &I, broadcasts: Wait) {
    // FENCE F-ARM-REVOKE (pairs with F-ARM-SETTLE, walks): the caller's page-table stores, and those of
    // others that it has read, are visible to every walk before the caller loads who runs the space and under
    // which tag, and before its TLBI. If that load came first, it would miss a CPU which publishes that it runs the
    // space, settles, and walks the old descriptor before the store arrives.
    match broadcasts {
        Wait::Now => insn.dsb(Dsb::Ish),
        Wait::Later => {
            // As F-ARM-REVOKE: what the caller has read, then what it has stored. Only a DSB for loads and stores at once
            // waits for TLBIs as well. No instruction after a DSB is executed before that is complete, so that a
            // later load comes after the stores (litmus/unmap-asked-batch, unmap-handed-batch).
            insn.dsb(Dsb::Ishld);
            insn.dsb(Dsb::Ishst);
        }
    }
}

/// Waits until what was invalidated is gone and what used it is performed.
#[inline]
pub(super) fn complete<I: Instructions>(insn: &I, errata: Errata, scope: Scope) {
    match scope {
        Scope::Local => {
            // FENCE F-ARM-DONE (pairs with F-ARM-PUBLISH, F-ARM-DONE-SYNC, F-ARM-REPEAT): the
            // invalidation is complete, on every CPU that it names, and so are the accesses that
            // used what it removed. Without it the caller frees a frame that is still written to.
            insn.dsb(Dsb::Nsh);
        }
        Scope::Broadcast => {
            // As F-ARM-DONE.
            insn.dsb(Dsb::Ish);
            if errata.contains(errata::REPEAT_BROADCAST) {
                insn.tlbi(Tlbi { op: TlbiOp::Val, scope, operand: 0 });
                // FENCE F-ARM-REPEAT (pairs with F-ARM-DONE): on affected CPUs the accesses are
                // performed only now. Any broadcast TLBI will do; this one names page 0 of ASID 0.
                insn.dsb(Dsb::Ish);
            }
        }
    }
    // FENCE F-ARM-DONE-SYNC (pairs with F-ARM-DONE): this CPU's own next access walks again.
    // Without FEAT_ETS2 a DSB orders later walks only together with a context synchronisation.
    insn.isb();
}

/// Waits for this CPU's invalidations, and orders accesses and walks.
pub(super) fn settle<I: Instructions>(insn: &I) {
    // FENCE F-ARM-SETTLE (pairs with F-ARM-PUBLISH of an initiator, F-ARM-REVOKE,
    // F-ARM-SETTLE-SYNC, F-ARM-DROP, F-ARM-GUEST-DROP): orders what this CPU has published before
    // the walks that follow: an initiator that changes tables and then misses it in what it reads has changed
    // them before those walks. It also completes what a thread has begun in user mode that goes on elsewhere, the
    // maintenance of caches (`DC CVAU`, `IC IVAU`): a DSB on another CPU would complete nothing. So it is for all
    // accesses, and not only for stores.
    insn.dsb(Dsb::Ish);
    // FENCE F-ARM-SETTLE-SYNC (pairs with F-ARM-SETTLE): without FEAT_ETS2 the DSB orders later
    // walks only together with a context synchronisation, and one CPU of the machine may lack it.
    // Where a load follows, its own ISB does (`Mmu::load_kept`). A switch that changes nothing has none, and the
    // kernel may touch user memory before it returns to user mode, which would be the next one.
    insn.isb();
}
