//! Which mutant this run has chosen, and which of them were reached.
//!
//! `cargo xtask mutants` writes this into its copy of the library, and nowhere else.

extern crate std;

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::{env, fs, string::String};

/// One more than the greatest number.
const MUTANTS: usize = 1;
/// Nobody has looked yet.
const UNKNOWN: u32 = u32::MAX;

static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: [AtomicU8; MUTANTS] = [const { AtomicU8::new(0) }; MUTANTS];

unsafe extern "C" {
    safe fn atexit(call: extern "C" fn()) -> i32;
}

#[inline(always)]
fn chosen(number: u32) -> u32 {
    REACHED[number as usize].store(1, Relaxed);
    match CHOSEN.load(Relaxed) {
        UNKNOWN => look(),
        chosen => chosen,
    }
}

#[cold]
fn look() -> u32 {
    let number = env::var("LOOKASIDE_MUTANT").ok().and_then(|number| number.parse().ok());
    let number = number.unwrap_or(0);
    if CHOSEN.swap(number, Relaxed) == UNKNOWN && env::var_os("LOOKASIDE_REACHED").is_some() {
        atexit(report);
    }
    number
}

extern "C" fn report() {
    let mut text = String::new();
    for (number, reached) in REACHED.iter().enumerate() {
        if reached.load(Relaxed) != 0 {
            text += &std::format!("{number}\n");
        }
    }
    if let Some(path) = env::var_os("LOOKASIDE_REACHED") {
        let _ = fs::write(path, text);
    }
}

/// Whether the body of this mutant is executed.
#[inline(always)]
pub fn is(number: u32) -> bool {
    chosen(number) == number
}

/// Whether this step is executed.
#[inline(always)]
pub fn keep(number: u32) -> bool {
    chosen(number) != number
}

/// A condition that always holds under one mutant, and never under the next.
#[inline(always)]
pub fn check(number: u32, holds: bool) -> bool {
    match chosen(number).wrapping_sub(number) {
        0 => true,
        1 => false,
        _ => holds,
    }
}

/// A condition, or what it is under this mutant.
#[inline(always)]
pub fn forced(number: u32, holds: bool, to: bool) -> bool {
    if chosen(number) == number { to } else { holds }
}

/// A value, or one of others under this mutant and those that follow.
#[inline(always)]
pub fn pick<T: Copy>(number: u32, value: T, others: &[T]) -> T {
    match others.get(chosen(number).wrapping_sub(number) as usize) {
        Some(other) => *other,
        None => value,
    }
}

/// The elements; under this mutant without the first, and under the next without the last.
#[inline(always)]
pub fn cut<I: IntoIterator>(number: u32, elements: I) -> Cut<I::IntoIter> {
    let how = match chosen(number).wrapping_sub(number) {
        0 => How::WithoutFirst,
        1 => How::WithoutLast(None),
        _ => How::Whole,
    };
    Cut { elements: elements.into_iter(), how }
}

/// What [`cut`] leaves.
pub struct Cut<I: Iterator> {
    elements: I,
    how: How<I::Item>,
}

enum How<T> {
    Whole,
    WithoutFirst,
    /// With the element that may be the last.
    WithoutLast(Option<T>),
}

impl<I: Iterator> Iterator for Cut<I> {
    type Item = I::Item;

    #[inline(always)]
    fn next(&mut self) -> Option<I::Item> {
        match &mut self.how {
            How::Whole => self.elements.next(),
            How::WithoutFirst => {
                self.how = How::Whole;
                self.elements.nth(1)
            }
            How::WithoutLast(ahead) => {
                let element = match ahead.take() {
                    Some(element) => element,
                    None => self.elements.next()?,
                };
                *ahead = Some(self.elements.next()?);
                Some(element)
            }
        }
    }
}
