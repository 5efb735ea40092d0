//! How many bytes of a trace are read in a second, beside just reading the file: each kind of file that `import` knows.
//!
//! `cargo bench -p lookaside-traces`. The repository's recordings are small, so that their head weighs more than in
//! others; `LOOKASIDE_TRACES=perf.data:trace.dat` measures files of one's own instead.

use core::hint::black_box;
use std::{
    env, fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use flate2::read::MultiGzDecoder;
use lookaside_traces::import;

/// The repository's recordings in the formats of other tools, and one of its own.
const OWN: [&str; 6] = [
    "tests/formats/perf.data.gz",
    "tests/formats/trace.dat.gz",
    "tests/formats/perf.txt",
    "tests/formats/trace-cmd.txt",
    "tests/formats/tracefs.txt",
    "threads.trace",
];

/// The files, unpacked, as unpacking is not what is measured.
fn files(folder: &Path) -> Vec<PathBuf> {
    if let Some(files) = env::var_os("LOOKASIDE_TRACES") {
        return env::split_paths(&files).collect();
    }
    let unpacked = |name: &&str| {
        let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let Some(name) = name.strip_suffix(".gz") else { return packed };
        let mut bytes = Vec::new();
        let file = fs::File::open(&packed).expect("the recording");
        MultiGzDecoder::new(file).read_to_end(&mut bytes).expect("it is whole");
        let file = folder.join(Path::new(name).file_name().expect("a name"));
        fs::write(&file, bytes).expect("there is room");
        file
    };
    OWN.iter().map(unpacked).collect()
}

fn import(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    for file in files(folder.path()) {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let trace = import::open(&file).expect("a trace");
        let bytes = fs::metadata(&file).expect("the file").len();
        println!("{name}: {} events in {bytes} bytes", trace.events.len());
        let mut group = c.benchmark_group(&name);
        group.sample_size(10);
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(BenchmarkId::from_parameter("read alone"), |b| {
            b.iter(|| black_box(fs::read(&file)));
        });
        group.bench_function(BenchmarkId::from_parameter("import"), |b| {
            b.iter(|| black_box(import::open(&file)));
        });
        group.finish();
    }
}

criterion_group!(benches, import);
criterion_main!(benches);
