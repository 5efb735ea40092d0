//! How many CPUs the library is built for.

/// The most CPUs: the value of `LOOKASIDE_MAX_CPUS` when this was built, or 64. The header's macro of that name must
/// be the same number; `lookaside_init` compares them.
pub const MAX_CPUS: usize = match option_env!("LOOKASIDE_MAX_CPUS") {
    None => 64,
    Some(number) => parse(number),
};

/// A number from 1 to 8192. Anything else ends the build.
const fn parse(text: &str) -> usize {
    let (digits, mut number, mut index) = (text.as_bytes(), 0, 0);
    while index < digits.len() && number <= lookaside::platform::MAX_CPUS {
        assert!(digits[index].is_ascii_digit(), "LOOKASIDE_MAX_CPUS is not a number");
        number = number * 10 + (digits[index] - b'0') as usize;
        index += 1;
    }
    assert!(
        number >= 1 && number <= lookaside::platform::MAX_CPUS,
        "LOOKASIDE_MAX_CPUS is not a number from 1 to 8192"
    );
    number
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::parse;

    #[test]
    fn numbers_of_cpus_are_read_and_others_refused() {
        assert_eq!([parse("1"), parse("64"), parse("0256"), parse("8192")], [1, 64, 256, 8192]);
        for bad in ["", "0", "8193", "-1", "64 ", "99999999999999999999999999"] {
            assert!(std::panic::catch_unwind(|| parse(bad)).is_err(), "{bad}");
        }
    }
}
