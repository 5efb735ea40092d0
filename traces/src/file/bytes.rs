//! Numbers and texts as bytes.
//!
//! A number is written seven bits at a time, the lowest first; all bytes but the last have their highest
//! bit set. A number with a sign is folded first (0, -1, 1, -2 become 0, 1, 2, 3), so that small ones are
//! short.

/// Why bytes cannot be read.
pub(super) type Malformed = &'static str;

pub(super) fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// The difference between two numbers, whichever is greater.
pub(super) fn put_difference(to: &mut Vec<u8>, number: u64, before: u64) {
    let difference = number.wrapping_sub(before) as i64;
    put(to, ((difference << 1) ^ (difference >> 63)) as u64);
}

pub(super) fn put_text(to: &mut Vec<u8>, text: &str) {
    put(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// What is left to read.
pub(super) struct Bytes<'b>(pub(super) &'b [u8]);

impl<'b> Bytes<'b> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.0.split_first().ok_or("it ends within a number")?;
        self.0 = rest;
        Ok(first)
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits")
    }

    /// A number of a narrower type.
    pub(super) fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| "a number is too large")
    }

    pub(super) fn difference(&mut self, before: u64) -> Result<u64, Malformed> {
        let folded = self.number()?;
        Ok(before.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg()))
    }

    pub(super) fn text(&mut self) -> Result<&'b str, Malformed> {
        let length: usize = self.narrow()?;
        let (text, rest) = self.0.split_at_checked(length).ok_or("it ends within a text")?;
        self.0 = rest;
        core::str::from_utf8(text).map_err(|_| "a text is not UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_small_ones_are_short() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        for number in numbers {
            for before in numbers {
                let mut to = Vec::new();
                put(&mut to, number);
                put_difference(&mut to, number, before);
                let mut bytes = Bytes(&to);
                assert_eq!(bytes.number(), Ok(number));
                assert_eq!(bytes.difference(before), Ok(number));
                assert!(bytes.is_empty());
            }
        }
        let mut to = Vec::new();
        put_difference(&mut to, 1000, 1063);
        assert_eq!(to, [125]);
    }

    #[test]
    fn oversized_and_truncated_values_are_refused() {
        assert!(Bytes(&[0x80; 3]).number().is_err());
        assert!(Bytes(&[0xff; 11]).number().is_err());
        let mut most = [0xff; 10];
        most[9] = 2;
        assert!(Bytes(&most).number().is_err());
        assert!(Bytes(&[0x80, 0x80, 4]).narrow::<u16>().is_err());
        assert!(Bytes(&[3, b'a', b'b']).text().is_err());
        assert!(Bytes(&[1, 0xff]).text().is_err());
    }
}
