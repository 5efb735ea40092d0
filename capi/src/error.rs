//! The results of C functions: 0 or more, or a negative number with one sentence.

use core::ffi::{CStr, c_int};

use lookaside::Error;

/// What a function returns: 0 or more, or why it was refused.
pub(crate) type Reply = Result<c_int, Refused>;

macro_rules! refused {
    ($($(#[$about:meta])* $name:ident = $number:literal, $c:ident, $sentence:literal;)*) => {
        /// Why a function was refused: `enum lookaside_error`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Refused {
            $($(#[$about])* #[doc = $sentence] $name = $number,)*
        }

        /// Each number with its name in the header and its sentence.
        pub const ALL: &[(Refused, &str, &CStr)] = &[
            $((
                Refused::$name,
                stringify!($c),
                match CStr::from_bytes_with_nul(concat!($sentence, "\0").as_bytes()) {
                    Ok(sentence) => sentence,
                    Err(_) => panic!("a sentence has no zero byte"),
                },
            ),)*
        ];
    };
}

refused! {
    NotReady = -1, LOOKASIDE_ENOTREADY, "lookaside_init has not succeeded";
    Again = -2, LOOKASIDE_EAGAIN, "lookaside_init was called before";
    Layout = -3, LOOKASIDE_ELAYOUT, "lookaside.h was compiled for another version, architecture or LOOKASIDE_MAX_CPUS than the library";
    Irqs = -4, LOOKASIDE_EIRQS, "interrupts are on, and must be off";
    Offline = -5, LOOKASIDE_EOFFLINE, "this CPU is not online: lookaside_online comes first";
    Space = -6, LOOKASIDE_ESPACE, "not a space: it was not initialised, or was released, or is a copy of one";
    Wait = -7, LOOKASIDE_EWAIT, "not a flush to wait for, or still another one: it was not begun, or is over, or is a copy";
    Batch = -8, LOOKASIDE_EBATCH, "a copy of a batch that is in use";
    Root = -9, LOOKASIDE_EROOT, "a foreign root is loaded, or for lookaside_root_end none is";
    Argument = -10, LOOKASIDE_EARGUMENT, "a kind, flag or number that this function does not have on this architecture";
    Cpus = -11, LOOKASIDE_ECPUS, "no CPU, or more than LOOKASIDE_MAX_CPUS";
    Cpu = -12, LOOKASIDE_ECPU, "no such CPU, or it is online already";
    Tags = -13, LOOKASIDE_ETAGS, "too few tags: there must be more than CPUs and pins";
    Unsupported = -14, LOOKASIDE_EUNSUPPORTED, "the hardware does not support the configuration";
    FewerTags = -15, LOOKASIDE_EFEWERTAGS, "this CPU has fewer tag bits than the machine runs with";
    Feature = -16, LOOKASIDE_EFEATURE, "this CPU lacks a feature that the machine runs with";
    BadRoot = -17, LOOKASIDE_EBADROOT, "an address that the root register cannot hold";
    Pins = -18, LOOKASIDE_EPINS, "as many tags are pinned as lookaside_init was told";
    NotPinned = -19, LOOKASIDE_ENOTPINNED, "the tag of the space is not pinned";
    Pinned = -20, LOOKASIDE_EPINNED, "the tag of the space is pinned";
    PageSize = -21, LOOKASIDE_EPAGESIZE, "a page shift that is not one of 12 to 48";
    Range = -22, LOOKASIDE_ERANGE, "a range that runs past the top of the address space";
    Ids = -23, LOOKASIDE_EIDS, "no unused identifier is left";
    Other = -24, LOOKASIDE_EOTHER, "an error that this version of the interface has no number for";
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::CpuCount { .. } => Self::Cpus,
            Error::CpuOutOfRange { .. } | Error::NotStopped { .. } | Error::Online { .. } => {
                Self::Cpu
            }
            Error::TooFewTags { .. } => Self::Tags,
            Error::Unsupported(_) | Error::TagOutOfRange { .. } => Self::Unsupported,
            Error::PinCap { .. } => Self::Pins,
            Error::NotPinned => Self::NotPinned,
            Error::Pinned => Self::Pinned,
            Error::FewerTagBits { .. } => Self::FewerTags,
            Error::MissingFeature(_) => Self::Feature,
            Error::BadRoot { .. } => Self::BadRoot,
            Error::IdsExhausted => Self::Ids,
            Error::PageSize { .. } => Self::PageSize,
            Error::RangeOverflow { .. } | Error::NonCanonical { .. } => Self::Range,
            Error::UsedStorage { .. } => Self::Again,
            // Storage, ranges and spaces are checked before; the rest is of blocks, which C has no calls for.
            _ => Self::Other,
        }
    }
}

/// What C is told.
pub(crate) fn number(reply: Reply) -> c_int {
    match reply {
        Ok(result) => result,
        Err(refused) => refused as c_int,
    }
}

/// The sentence of a result.
#[must_use]
pub fn sentence(result: c_int) -> &'static CStr {
    if result >= 0 {
        return c"no error";
    }
    let found = ALL.iter().find(|(refused, ..)| *refused as c_int == result);
    found.map_or(c"not an error of Lookaside", |(.., sentence)| sentence)
}
