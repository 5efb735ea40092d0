//! Numbers and fields of lines.

use memchr::memmem;

/// What is after the blanks at the beginning.
pub(super) fn after_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    &bytes[blanks..]
}

/// The digits at the beginning as a number, and what follows them. None without digits or with too many.
pub(crate) fn decimal(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number: u64 = 0;
    let mut length = 0;
    while let Some(digit) = bytes.get(length).filter(|byte| byte.is_ascii_digit()) {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        length += 1;
    }
    (length > 0).then(|| (number, &bytes[length..]))
}

/// The hexadecimal digits at the beginning, without `0x`, as a number, and what follows them.
pub(super) fn hexadecimal(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number: u64 = 0;
    let mut length = 0;
    while let Some(&byte) = bytes.get(length) {
        let Some(digit) = (byte as char).to_digit(16) else { break };
        if number >> 60 != 0 {
            return None;
        }
        number = number << 4 | u64::from(digit);
        length += 1;
    }
    (length > 0).then(|| (number, &bytes[length..]))
}

/// A number as the kernel prints them: hexadecimal after `0x`, decimal otherwise, with a sign or
/// without.
pub(super) fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    if let Some(digits) = bytes.strip_prefix(b"0x") {
        return hexadecimal(digits);
    }
    match bytes.strip_prefix(b"-") {
        Some(digits) => decimal(digits).map(|(number, rest)| (number.wrapping_neg(), rest)),
        None => decimal(bytes),
    }
}

/// A pointer: hexadecimal with `0x` or without; 0 where it is null or hidden.
pub(super) fn pointer(bytes: &[u8]) -> Option<u64> {
    if bytes.starts_with(b"(nil)") || bytes.starts_with(b"(____ptrval____)") {
        return Some(0);
    }
    hexadecimal(bytes.strip_prefix(b"0x").unwrap_or(bytes)).map(|(number, _)| number)
}

/// What follows the first `key` that begins a field.
pub(super) fn value<'b>(body: &'b [u8], key: &[u8]) -> Option<&'b [u8]> {
    let mut from = 0;
    loop {
        let at = from + memmem::find(&body[from..], key)?;
        from = at + key.len();
        if at == 0 || matches!(body[at - 1], b' ' | b'\t' | b',') {
            return Some(&body[from..]);
        }
    }
}

/// The number that follows `key`.
pub(super) fn number_of<T: TryFrom<u64>>(body: &[u8], key: &[u8]) -> Option<T> {
    T::try_from(number(value(body, key)?)?.0).ok()
}

/// What is before the last `separator`, and what is after it.
pub(super) fn split_last<'b>(body: &'b [u8], separator: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let at = memmem::rfind(body, separator)?;
    Some((&body[..at], &body[at + separator.len()..]))
}

/// What is before the first `separator`, and what is after it.
pub(super) fn split_first<'b>(body: &'b [u8], separator: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let at = memmem::find(body, separator)?;
    Some((&body[..at], &body[at + separator.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_printed() {
        assert_eq!(number(b"0x7fe9457d8000, len"), Some((0x7fe9_457d_8000, &b", len"[..])));
        assert_eq!(number(b"-1 reason"), Some((u64::MAX, &b" reason"[..])));
        assert_eq!(number(b"3"), Some((3, &b""[..])));
        assert_eq!(number(b"x"), None);
        assert_eq!(number(b"0xg"), None);
        assert_eq!(number(b"18446744073709551615"), Some((u64::MAX, &b""[..])));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b"0x10000000000000000"), None);
        assert_eq!(pointer(b"ffff888191d0de00, DESTROY"), Some(0xffff_8881_91d0_de00));
        assert_eq!(pointer(b"0xffff888191d0de00"), Some(0xffff_8881_91d0_de00));
        assert_eq!(pointer(b"(nil)"), Some(0));
        assert_eq!(pointer(b"somewhere"), None);
    }

    #[test]
    fn a_key_is_a_key_only_where_a_field_begins() {
        assert_eq!(number_of::<u32>(b"old_pid=7 pid=8", b"pid="), Some(8));
        assert_eq!(number_of::<u32>(b"old_pid=7", b"pid="), None);
        assert_eq!(number_of::<u16>(b"cpu=65536", b"cpu="), None);
    }
}
