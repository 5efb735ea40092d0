//! Text for a terminal, and names typed at one.
//!
//! [`plain`] escapes the control characters in text from files and processes; [`grid`] formats tables; [`names`]
//! suggests the nearest name for one that does not exist; [`counted`] takes the singular of one; [`say!`] prints, and
//! [`tell!`] to standard error; [`seconds`] and [`threads`] read limits of a run; [`Refused`] is an error in one sentence.

pub mod grid;
mod limits;
pub mod names;
pub mod plain;
mod plural;
mod refused;
mod say;

pub use limits::{seconds, threads};
pub use plural::counted;
pub use refused::Refused;
pub use say::{Stdout, print, print_error};
