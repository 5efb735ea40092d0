//! A machine in software.
