//! The scenarios, the protocols of other systems, and what is generated: which break, and where.

mod blocks;
mod errata;
mod generate;
mod kept;
mod reports;
mod scenarios;
mod shorten;
mod trampoline;
mod zoo;
