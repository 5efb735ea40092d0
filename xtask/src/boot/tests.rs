//! The command line, and what fits together.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn parse(words: &str) -> core::result::Result<Options, String> {
    let line = Line::try_parse_from(["boot"].into_iter().chain(words.split_whitespace()));
    line.map(|line| line.options).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(words: &str, expected: &str) {
    let said = parse(words).and_then(|options| {
        options.check().map_err(|failure| failure.to_string()).map(|()| "accepted".to_owned())
    });
    let said = said.unwrap_or_else(|error| error);
    assert!(said.contains(expected), "`{words}` gives `{said}`, not `{expected}`");
}

#[test]
fn the_short_form_is_what_one_gets_without_options() {
    for architecture in Architecture::ALL {
        let parsed = parse(architecture.name()).unwrap();
        assert_eq!(format!("{parsed:?}"), format!("{:?}", Options::short(architecture)));
    }
}

#[test]
fn invalid_and_contradicting_options_are_refused() {
    refused("z80", "possible values: x86_64, aarch64, riscv64");
    refused("", "<ARCH>");
    for cpus in ["0", "9", "-1", "many"] {
        refused(&format!("x86_64 --cpus={cpus}"), "--cpus");
    }
    refused("x86_64 --emulator z80", "qemu, bochs");
    refused("aarch64 --emulator bochs", "Bochs is an x86 machine");
    refused("x86_64 --emulator bochs --accel kvm", "KVM is for QEMU");
    let foreign = Architecture::ALL.into_iter().find(|a| a.name() != std::env::consts::ARCH);
    refused(&format!("{} --accel kvm", foreign.unwrap()), "KVM here cannot");
}

#[test]
fn patience_grows_with_the_soak_and_with_a_slow_emulator() {
    let limit = |words: &str| parse(words).unwrap().patience().time.as_secs();
    assert_eq!(limit("riscv64"), 120);
    assert_eq!(limit("riscv64 --soak 600"), 720);
    assert_eq!(limit("x86_64 --soak 600 --limit 5"), 5);
    assert_eq!(limit("x86_64 --emulator bochs"), 600);
}

#[test]
fn a_run_is_called_by_what_it_is() {
    let name = |words: &str| parse(words).unwrap().to_string();
    assert_eq!(name("aarch64 --cpus 1"), "aarch64 with 1 CPU in QEMU");
    assert_eq!(name("x86_64 --emulator bochs --cpus 2"), "x86_64 with 2 CPUs in Bochs");
    assert_eq!(name("x86_64 --accel kvm"), "x86_64 with 4 CPUs in QEMU with KVM");
}
