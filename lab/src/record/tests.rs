//! Whole pages, as a kernel gave them.

use super::*;
