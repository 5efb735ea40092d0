//! A machine in software.
pub mod adversary;
pub mod explore;
