//! Inputs that resemble what is expected: random bytes alone do not get past the first line of a format.

use std::borrow::Cow;

/// The bytes themselves, or a seed with the damage that the bytes describe.
pub(crate) fn applied<'a>(input: &'a [u8], seeds: &[&[u8]]) -> Cow<'a, [u8]> {
    let [choice, edits @ ..] = input else { return Cow::Borrowed(input) };
    // One in eight is taken as it is.
    if choice % 8 == 0 || seeds.is_empty() {
        return Cow::Borrowed(edits);
    }
    let mut bytes = seeds[usize::from(choice / 8) % seeds.len()].to_vec();
    for edit in edits.chunks_exact(4).take(16) {
        apply(&mut bytes, [edit[0], edit[1], edit[2], edit[3]]);
    }
    Cow::Owned(bytes)
}

/// One edit: which, where (a fraction of the length), and a value.
fn apply(bytes: &mut Vec<u8>, [kind, high, low, value]: [u8; 4]) {
    if bytes.is_empty() {
        return;
    }
    let place = usize::from(u16::from_be_bytes([high, low]));
    let at = place * bytes.len() / (usize::from(u16::MAX) + 1);
    let length = usize::from(value) + 1;
    let end = (at + length).min(bytes.len());
    match kind % 8 {
        0 => bytes[at] = value,
        1 => bytes[at] ^= 1 << (value % 8),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
        4 => bytes.truncate(at),
        // Where a number stands, another one: none, many digits, a negative one.
        5 => {
            let number: &[u8] = [&b""[..], b"18446744073709551616", b"-1", b"1e400", b"0xf"]
                [usize::from(value) % 5];
            let start = bytes[at..].iter().position(u8::is_ascii_digit).map_or(at, |i| at + i);
            let digits = bytes[start..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
            bytes.splice(start..start + digits, number.iter().copied());
        }
        // Two lines change places.
        6 => {
            let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
            let count = lines.len();
            lines.swap(place % count, usize::from(value) % count);
            *bytes = lines.concat();
        }
        _ => drop(bytes.splice(at..at, [value; 3])),
    }
}
