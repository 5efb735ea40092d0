//! The programs, and what they share.

pub(crate) mod bad;
pub(crate) mod blocks;
pub(crate) mod churn;
pub(crate) mod dirty;
pub(crate) mod discard;
pub(crate) mod doomed;
pub(crate) mod endless;
pub(crate) mod fork;
pub(crate) mod hunters;
pub(crate) mod init;
pub(crate) mod lat_ctx;
pub(crate) mod moves;
pub(crate) mod ping_pong;
pub(crate) mod protect;
pub(crate) mod storm;
pub(crate) mod used;
mod wild;
