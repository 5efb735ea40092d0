//! The adversarial machine: what it may do, architecture by architecture, and what its explorer leaves out.

mod common;

mod arm;
mod blocks;
mod breaks;
mod casemate;
mod differential;
mod early;
mod early_tlbi;
mod explorer;
mod interrupts;
mod invalid;
mod kernel;
mod litmus;
mod nmis;
mod platform;
mod quiet;
mod reductions;
mod rest;
mod riscv;
mod states;
mod tags;
mod updates;
mod x86;
