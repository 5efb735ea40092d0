//! Time by initiator: beside the CPU that spends it, time is charged to the account on whose behalf it is
//! spent.
//!
//! An interrupt carries the account of its sender to the handler. What broadcasts take from others is
//! shared among the accounts that broadcast, because it is not known which CPUs a single broadcast delayed.

use super::{
    account::{Account, Cause},
    price::Ps,
};

/// The number of an account on whose behalf CPUs spend time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub u32);

impl AccountId {
    /// The account of everything outside [`on_behalf`](super::on_behalf).
    pub const NOBODY: Self = Self(0);
}

/// What was spent on behalf of one account, by all CPUs.
#[derive(Clone, Debug, Default)]
pub struct Bill {
    pub(crate) account: Account,
    /// How many interrupts were sent.
    pub sent: u64,
    /// What broadcasts and calls of the firmware took from CPUs that had something else to do.
    pub stolen: Ps,
    /// What they would have taken if no CPU had waited.
    pub(crate) imposed: Ps,
}

impl Bill {
    /// What was spent on a cause in an activity, by its place in [`super::Report::activities`]. Nothing
    /// is spent on [`Cause::Stolen`]: see [`Self::stolen`].
    #[must_use]
    pub fn spent(&self, activity: usize, cause: Cause) -> Ps {
        self.account.get(activity, cause)
    }
}

/// Shares `total` in proportion to what each has imposed on others. What division leaves over goes to
/// later accounts.
pub(crate) fn share(bills: &mut [Bill], total: Ps) {
    let imposed: u128 = bills.iter().map(|bill| u128::from(bill.imposed)).sum();
    if imposed == 0 {
        if let Some(nobody) = bills.first_mut() {
            nobody.stolen = total;
        }
        return;
    }
    let (mut before, mut given) = (0, 0);
    for bill in bills {
        // Of all that was imposed up to here so much was felt; never more than the total.
        before += u128::from(bill.imposed);
        let up_to_here = (u128::from(total) * before / imposed) as Ps;
        bill.stolen = up_to_here - given;
        given = up_to_here;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        let bill = |imposed| Bill { imposed, ..Bill::default() };
        let mut bills = [bill(0), bill(1), bill(1), bill(1), bill(0)];
        share(&mut bills, 100);
        assert_eq!(bills.each_ref().map(|bill| bill.stolen), [0, 33, 33, 34, 0]);
        let mut nothing = [bill(0), bill(0)];
        share(&mut nothing, 7);
        assert_eq!(nothing.each_ref().map(|bill| bill.stolen), [7, 0]);
        share(&mut [], 7);
    }
}
