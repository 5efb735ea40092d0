//! The user programs.
#![no_std]
#![no_main]
