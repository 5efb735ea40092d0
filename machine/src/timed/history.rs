//! What has happened last: printed when something is found to be wrong.

use core::fmt;

use super::{invalidate::What, price::Ps};

/// Something that concerns translations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happened {
    Root { root: u64, tag: u16 },
    Revoke { root: u64, first: u64, pages: u64 },
    Flushed { root: u64, first: u64, pages: u64 },
    Invalidate { what: What, broadcast: bool },
    Stale { page: u64 },
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Root { root, tag } => write!(f, "loads root {root:#x} under tag {tag}"),
            Self::Revoke { root, first, pages } => {
                write!(f, "revokes {pages} pages of {root:#x} from page {first:#x}")
            }
            Self::Flushed { root, first, pages } => {
                write!(f, "says that {pages} pages of {root:#x} from page {first:#x} are flushed")
            }
            Self::Invalidate { what, broadcast } => {
                write!(f, "invalidates {what:?}{}", if broadcast { " on every CPU" } else { "" })
            }
            Self::Stale { page } => write!(f, "uses a stale translation of page {page:#x}"),
        }
    }
}

const KEPT: usize = 64;

/// The last few of them.
#[derive(Debug, Default)]
pub(crate) struct History {
    kept: std::collections::VecDeque<(Ps, usize, Happened)>,
}

impl History {
    #[inline]
    pub(crate) fn push(&mut self, time: Ps, cpu: usize, what: Happened) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((time, cpu, what));
    }

    pub(crate) fn to_lines(&self) -> Vec<String> {
        let line = |(time, cpu, what): &(Ps, usize, Happened)| {
            format!("{time:>16} ps  CPU {cpu:<4} {what}")
        };
        self.kept.iter().map(line).collect()
    }
}
