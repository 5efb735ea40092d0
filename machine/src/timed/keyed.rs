//! Lists of things that have a name in files and reports, and a sentence about them.

/// An enumeration whose members have a key and, in their documentation, what they are about.
macro_rules! keyed {
    (
        $(#[doc = $whole:literal])+ $list:ident
        $($(#[doc = $doc:literal])+ $name:ident = $key:literal,)+
    ) => {
        $(#[doc = $whole])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $list { $($(#[doc = $doc])+ $name,)+ }

        impl $list {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name, as files and reports have it.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(Self::$name => $key,)+ }
            }

            /// What it is.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }
        }
    };
}

pub(super) use keyed;
