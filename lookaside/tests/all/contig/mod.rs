//! What the tests of contiguous entries share.

pub(crate) mod hostile;
