//! `lookaside hunt`: the TLB sanitizer, which is a program of its own.

pub(crate) use lookaside_hunt::{Arguments, hunt};
