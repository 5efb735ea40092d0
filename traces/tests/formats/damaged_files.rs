//! Every fixture with damage of every kind: bits that flip, ends that are missing, lengths that are absurd. Each is read as
//! far as it goes, and then reconstructed, or refused in one sentence; nothing panics, and no length in a file makes the reader
//! set aside memory.
//!
//! The damage follows from the number of the attempt alone. `LOOKASIDE_DAMAGES=20000 cargo test --release -p lookaside-traces
//! --test formats damaged_files` tries more.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use lookaside_traces::{
    import,
    reconstruct::{Flushes, reconstruct},
};

use super::damage::sound;

/// How many ways of damage each fixture is tried with.
const DAMAGES: u64 = 48;

/// Memory that the process of a test may have: far more than any fixture needs, far less than a length in a file can name.
#[cfg(target_os = "linux")]
const MEMORY: u64 = 3 << 30;

/// A generator of numbers (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// A place: heads and the records next to them are met as often as all the rest.
    fn place(&mut self, length: usize) -> usize {
        let wide = match self.next() % 4 {
            0 => 128,
            1 | 2 => 1 << 14,
            _ => length,
        };
        let place = self.below(wide.min(length));
        if self.next().is_multiple_of(4) { length - 1 - place } else { place }
    }
}

/// Numbers that lengths and places must not be.
const ABSURD: [u64; 10] =
    [0, 1, 7, 0xff, 0xffff, 1 << 31, u32::MAX as u64, 1 << 40, u64::MAX - 7, u64::MAX];

fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..1 + numbers.below(4) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        let at = numbers.place(length);
        match numbers.next() % 8 {
            0 | 1 => bytes[at] ^= 1 << numbers.below(8),
            2 => bytes[at] = numbers.next() as u8,
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..(at + 1 + numbers.below(64)).min(length))),
            // A number where one stands: they are at multiples of four, or of two, of the beginning.
            _ => {
                let (at, width) = (at & !3, [2, 4, 8, 8][numbers.below(4)]);
                let end = (at + width).min(length);
                let number = ABSURD[numbers.below(ABSURD.len())].to_le_bytes();
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
        }
    }
}

/// All traces of the repository, unpacked where they are.
fn fixtures() -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["", "corpus/found", "corpus/judged", "tests/formats", "tests/recorded"];
    let files =
        folders.iter().flat_map(|folder| fs::read_dir(root.join(folder)).expect("a folder"));
    let mut paths: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
    let is_trace = |path: &Path| {
        let kinds = ["trace", "txt", "gz", "tasks"];
        path.extension().is_some_and(|kind| kinds.iter().any(|known| kind == *known))
    };
    paths.retain(|path| is_trace(path));
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a file");
        let mut unpacked = Vec::new();
        match flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked) {
            Ok(_) => (path, unpacked),
            Err(_) => (path, bytes),
        }
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn each_fixture_with_damage_is_read_or_refused_in_one_sentence() {
    #[cfg(target_os = "linux")]
    rustix::process::setrlimit(
        rustix::process::Resource::As,
        rustix::process::Rlimit { current: Some(MEMORY), maximum: None },
    )
    .expect("memory can be limited");
    let damages = std::env::var("LOOKASIDE_DAMAGES").ok().and_then(|count| count.parse().ok());
    let fixtures = fixtures();
    assert!(fixtures.len() >= 25, "{}", fixtures.len());
    let binary =
        |start: &[u8]| fixtures.iter().filter(|(_, bytes)| bytes.starts_with(start)).count();
    assert!(binary(b"PERFILE2") >= 3 && binary(b"\x17\x08\x44tracing") >= 1);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damaged");
    for (name, whole) in &fixtures {
        // Large ones take long and have no other heads.
        let cost = 1 + whole.len() as u64 / (1 << 17);
        for seed in 0..damages.unwrap_or(DAMAGES) / cost {
            let mut bytes = whole.clone();
            damage(&mut bytes, &mut Numbers(seed));
            fs::write(&path, &bytes).expect("a file");
            let read = std::panic::catch_unwind(|| import::open(&path));
            let read =
                read.unwrap_or_else(|_| panic!("{}, damage {seed}: a panic", name.display()));
            match read {
                Ok(trace) => {
                    sound(&trace);
                    for flushes in [Flushes::Recorded, Flushes::FromCalls] {
                        let _any = reconstruct(&trace, flushes);
                    }
                }
                Err(why) => {
                    let why = why.to_string();
                    let place = format!("{}, damage {seed}: {why:?}", name.display());
                    assert!(why.lines().count() == 1 && why.len() < 400, "{place}");
                }
            }
        }
    }
}
