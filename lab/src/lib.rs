//! What the command line is made of.
//!
//! For correctness: scenarios in which the library runs on the adversarial machine ([`scenario`]), and
//! how they are explored ([`explore`]). For time: machines and published results as data ([`data`]), a
//! model kernel ([`kernel`]) with strategies to keep TLBs coherent ([`strategy`]), programs that run on
//! it ([`workload`]), and the comparison of what was published with what comes out ([`reproduce`]).

pub mod data;
pub mod explore;
pub mod kernel;
pub mod names;
pub mod reproduce;
pub mod scenario;
pub mod strategy;
pub mod workload;
