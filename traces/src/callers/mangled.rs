//! Names of functions as people write them.

/// The name of a function that compilers of C++ and Rust have encoded, without its parameters. Names that are more than a
/// path of plain words (templates, operators, Rust's newer form) stay encoded.
pub(crate) fn plain(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    words(&text).unwrap_or_else(|| text.clone().into_owned())
}

/// The words of `_ZN4sort5mergeEv`, or of `_Z5mergev`.
fn words(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_Z")?;
    let (mut rest, nested) = rest.strip_prefix('N').map_or((rest, false), |rest| (rest, true));
    // A method that changes nothing.
    rest = rest.strip_prefix('K').filter(|_| nested).unwrap_or(rest);
    let mut words: Vec<&str> = Vec::new();
    let mut sign = "";
    loop {
        // A constructor or destructor has the name of its type, which is the word before.
        if let (&[.., of_type], Some(("C" | "D", _))) = (&words[..], rest.split_at_checked(1)) {
            sign = if rest.starts_with('D') { "~" } else { "" };
            words.push(of_type);
            rest = rest.get(2..)?;
            break;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length: usize = rest[..digits].parse().ok()?;
        let word = rest.get(digits..digits.checked_add(length)?)?;
        rest = &rest[digits + length..];
        words.push(word);
        if !nested || rest.starts_with('E') {
            break;
        }
    }
    // Parameters of a template belong to the name.
    if rest.starts_with('I') {
        return None;
    }
    // Rust ends the path with a hash.
    if let [path @ .., hash] = &words[..]
        && let Some(digits) = hash.strip_prefix('h')
        && (digits.len(), digits.bytes().all(|byte| byte.is_ascii_hexdigit())) == (16, true)
    {
        words = path.to_vec();
    }
    let last = words.pop()?;
    let mut path: String = words.iter().flat_map(|word| [word, "::"]).collect();
    path.extend([sign, last]);
    for (encoded, plain) in [("..", "::"), ("$LT$", "<"), ("$GT$", ">"), ("$u20$", " ")] {
        path = path.replace(encoded, plain);
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn paths_are_read_and_all_else_stays() {
        let plain = |name: &str| plain(name.as_bytes());
        assert_eq!(plain("_ZN5alloc3vec4push17h0123456789abcdefE"), "alloc::vec::push");
        assert_eq!(plain("_ZN4sort5mergeEv"), "sort::merge");
        assert_eq!(plain("_Z5mergePc"), "merge");
        assert_eq!(plain("_ZNK4sort5Merge4sizeEv"), "sort::Merge::size");
        assert_eq!(plain("_ZN2v86MemoryC1EPcm"), "v8::Memory::Memory");
        assert_eq!(plain("_ZN2v86MemoryD0Ev"), "v8::Memory::~Memory");
        let whole = [
            "munmap",
            "_ZNSt6vectorIiE4pushEv",
            "_Z",
            "_ZN",
            "_ZN9a",
            "_Z3fooIiEvv",
            "_ZN99999999999999999999999aE",
            "_RNvC1a1b",
            "_ZN2a\u{e4}E",
        ];
        for name in whole {
            assert_eq!(plain(name), name);
        }
    }
}
