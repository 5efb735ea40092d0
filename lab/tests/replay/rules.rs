//! What becomes of one step after the other.
