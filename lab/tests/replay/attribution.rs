//! Who caused what.
