//! The header is what the library is: sizes, numbers, names, in C and in C++.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use lookaside_c::{Layout, VERSION, batch_words, error, space_words, wait_words};

/// Every function of the header: a few, so that it can be read.
const MOST_FUNCTIONS: usize = 24;

const HEADER: &str = include_str!("../include/lookaside.h");

/// A language, its compiler, and its switches.
struct Compiler {
    language: &'static str,
    program: String,
    standard: &'static str,
    suffix: &'static str,
}

/// The compilers that are here. `CC` and `CXX` name others.
fn compilers() -> Vec<Compiler> {
    let named = |variable, or: &str| env::var(variable).unwrap_or_else(|_| or.to_owned());
    let c =
        Compiler { language: "C11", program: named("CC", "cc"), standard: "-std=c11", suffix: "c" };
    let cpp = Compiler {
        language: "C++17",
        program: named("CXX", "c++"),
        standard: "-std=c++17",
        suffix: "cpp",
    };
    let is_here = |compiler: &Compiler| {
        let here = Command::new(&compiler.program).arg("--version").output().is_ok();
        if !here {
            println!("skipped: no compiler of {} ({})", compiler.language, compiler.program);
        }
        here
    };
    [c, cpp].into_iter().filter(is_here).collect()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

impl Compiler {
    /// Compiles a program that includes the header.
    fn compile(&self, name: &str, source: &str, cpus: usize) -> Result<PathBuf, String> {
        let folder = folder(self.suffix);
        let (file, program) = (folder.join(format!("{name}.{}", self.suffix)), folder.join(name));
        fs::write(&file, format!("#include <lookaside.h>\n{source}")).unwrap();
        let output = Command::new(&self.program)
            .args([self.standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args(["-Wno-unused-function", "-DLOOKASIDE_HOST"])
            .arg(format!("-DLOOKASIDE_MAX_CPUS={cpus}"))
            .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"))
            .arg(&file)
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap();
        if output.status.success() {
            Ok(program)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Runs a program that prints names and numbers.
    fn numbers(&self, name: &str, source: &str, cpus: usize) -> BTreeMap<String, i64> {
        // The functions of the library are not needed: only `lookaside_init_as` is mentioned, by an inline function.
        let program = self.compile(name, source, cpus).expect("a program that compiles");
        let output = Command::new(program).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let pair = |line: &str| {
            let (name, number) = line.split_once(' ').unwrap();
            (name.to_owned(), number.parse().unwrap())
        };
        text.lines().map(pair).collect()
    }
}

/// A program that prints expressions.
fn printing(expressions: &[(String, String)]) -> String {
    let prints: String = expressions
        .iter()
        .map(|(name, value)| format!("    printf(\"{name} %lld\\n\", (long long)({value}));\n"))
        .collect();
    // So that nothing of the library is linked.
    let stubs = "int lookaside_init_as(const struct lookaside_boot *b, const struct lookaside_layout *l) \
                 { (void)b; (void)l; return 0; }\n\
                 int lookaside_flush_range(struct lookaside_space *s, uint64_t a, uint64_t b, unsigned c, \
                 enum lookaside_kind k, struct lookaside_wait *w) \
                 { (void)s; (void)a; (void)b; (void)c; (void)k; (void)w; return 0; }\n";
    format!("#include <stdio.h>\n{stubs}int main(void) {{\n{prints}    return 0;\n}}\n")
}

fn same(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ((*name).to_owned(), (*name).to_owned())).collect()
}

#[test]
fn structs_have_the_same_size_in_c_cpp_and_rust() {
    for compiler in compilers() {
        for cpus in [1, 32, 33, 64, 65, 256, 8192] {
            let sizes = ["space", "wait", "batch"]
                .map(|name| (name.to_owned(), format!("sizeof(struct lookaside_{name})")));
            let found = compiler.numbers(&format!("sizes{cpus}"), &printing(&sizes), cpus);
            let expected = [space_words(cpus), wait_words(), batch_words(cpus)];
            for ((name, _), words) in sizes.iter().zip(expected) {
                assert_eq!(
                    found[name],
                    8 * words as i64,
                    "{name}, {cpus} CPUs, {}",
                    compiler.language
                );
            }
        }
    }
}

#[test]
fn errors_have_the_same_numbers_in_c_cpp_and_rust() {
    let names: Vec<_> = error::ALL.iter().map(|(_, name, _)| *name).collect();
    for compiler in compilers() {
        let found = compiler.numbers("errors", &printing(&same(&names)), 64);
        for (refused, name, sentence) in error::ALL {
            assert_eq!(found[*name], *refused as i64, "{name}");
            assert_eq!(error::sentence(*refused as i32), *sentence);
        }
    }
    let mut declared = 0;
    for (line, name) in
        HEADER.lines().filter_map(|line| Some((line, line.trim().strip_prefix("LOOKASIDE_E")?)))
    {
        let Some((name, _)) = name.split_once(" = -") else { continue };
        declared += 1;
        assert!(names.contains(&format!("LOOKASIDE_E{name}").as_str()), "{line}");
    }
    assert_eq!(declared, error::ALL.len());
}

#[test]
fn sentences_are_short_and_have_no_full_stop() {
    for (refused, _, sentence) in error::ALL {
        let text = sentence.to_str().unwrap();
        assert!(text.len() < 120 && !text.ends_with('.'), "{refused:?}: {text}");
    }
    assert_eq!(error::sentence(0), c"no error");
    assert_eq!(error::sentence(-4711), c"not an error of Lookaside");
}

#[test]
fn other_numbers_are_those_of_the_library() {
    let names = [
        "LOOKASIDE_VERSION",
        "LOOKASIDE_UNCHANGED",
        "LOOKASIDE_CAUGHT_UP",
        "LOOKASIDE_KEPT",
        "LOOKASIDE_FLUSHED",
        "LOOKASIDE_FRESH",
        "LOOKASIDE_ROLLED_OVER",
    ];
    use lookaside::tags::Switched::*;
    let switched = [Unchanged, CaughtUp, Kept, Flushed, Fresh, RolledOver];
    let mut expressions = same(&names);
    for (number, how) in switched.into_iter().enumerate() {
        expressions.push((format!("changed{number}"), format!("LOOKASIDE_ROOT_CHANGED({number})")));
        assert_eq!(how as usize, number);
    }
    expressions.push(("refused".to_owned(), "LOOKASIDE_ROOT_CHANGED(LOOKASIDE_ESPACE)".to_owned()));
    expressions.push(("layout".to_owned(), "sizeof(struct lookaside_layout)".to_owned()));
    for compiler in compilers() {
        let found = compiler.numbers("others", &printing(&expressions), 64);
        assert_eq!(found["LOOKASIDE_VERSION"], i64::from(VERSION));
        assert_eq!(found["refused"], 0);
        assert_eq!(found["layout"], size_of::<Layout>() as i64);
        for (number, (name, how)) in names[1..].iter().zip(switched).enumerate() {
            assert_eq!(found[*name], number as i64);
            assert_eq!(found[&format!("changed{number}")], i64::from(how.root_changed()), "{name}");
        }
    }
}

#[test]
fn a_number_of_cpus_that_makes_no_sense_does_not_compile() {
    for compiler in compilers() {
        for cpus in [0, 8193] {
            let complaint = compiler.compile("refused", "int main(void) { return 0; }\n", cpus);
            let complaint = complaint.expect_err("a refusal");
            assert!(complaint.contains("Lookaside serves 1 to 8192 CPUs"), "{complaint}");
        }
    }
}

#[test]
fn results_that_are_not_looked_at_are_warned_of() {
    for compiler in compilers() {
        let ignored = "int main(void) { lookaside_lazy(); return 0; }\n";
        let complaint = compiler.compile("ignored", ignored, 64).expect_err("a warning");
        assert!(complaint.contains("lookaside_lazy"), "{complaint}");
    }
}

#[test]
fn the_header_for_risc_v_compiles_on_the_host() {
    let source = "#include <lookaside_riscv.h>\n\
                  int main(void) { return lookaside_riscv_is_spurious(12, 0x19) ? 0 : 1; }\n";
    for compiler in compilers() {
        let program = compiler.compile("riscv", source, 64).expect("a program that compiles");
        assert!(Command::new(program).status().unwrap().success(), "{}", compiler.language);
    }
}

#[test]
fn the_header_for_risc_v_compiles_for_it_in_c_and_assembly() {
    let program = env::var("RISCV_CC").unwrap_or_else(|_| "riscv64-linux-gnu-gcc".to_owned());
    if Command::new(&program).arg("--version").output().is_err() {
        println!("skipped: no compiler for RISC-V ({program})");
        return;
    }
    let c = "#include <lookaside_riscv.h>\n\
             uint32_t bits(void) { return lookaside_riscv_asid_bits(); }\n\
             void send(uint64_t mask) { lookaside_riscv_send_msip(0x2000000, 0, mask); }\n";
    // The handler that the header shows, out of its comment.
    const RISCV_HEADER: &str = include_str!("../include/lookaside_riscv.h");
    let (_, handler) = RISCV_HEADER.split_once(" *             .balign 4\n").expect("a handler");
    let (handler, _) = handler.split_once(" */").expect("its end");
    let handler = handler.replace(" *  ", "    ");
    let assembly = format!("#include <lookaside_riscv.h>\n.balign 4\n{handler}");
    assert!(assembly.contains("lookaside_forward_msip") && assembly.contains("mret"), "{assembly}");
    let folder = folder("riscv");
    let example = include_str!("../examples/own_root.c");
    for (name, source) in [("in_c.c", c), ("in_assembly.S", &assembly), ("own_root.c", example)] {
        let file = folder.join(name);
        fs::write(&file, source).unwrap();
        let output = Command::new(&program)
            .args(["-ffreestanding", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args(["-march=rv64gc", "-mabi=lp64", "-c", "-o"])
            .arg(folder.join("object.o"))
            .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"))
            .arg(&file)
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {complaint}");
    }
}

#[test]
fn the_example_unmaps_a_heap_of_which_not_all_is_mapped() {
    let program = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if Command::new(&program).arg("--version").output().is_err() {
        println!("skipped: no compiler of C11 ({program})");
        return;
    }
    let heap = folder("heap").join("heap");
    let output = Command::new(&program)
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-DLOOKASIDE_HOST"])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/own_root_heap.c"))
        .arg("-o")
        .arg(&heap)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&heap).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The functions that the header declares, without those that the kernel provides.
fn functions() -> Vec<String> {
    let mut text = String::new();
    let mut left = HEADER;
    while let Some((code, comment)) = left.split_once("/*") {
        text.push_str(code);
        left = comment.split_once("*/").expect("a comment that ends").1;
    }
    text.push_str(left);
    let text: String =
        text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names: Vec<_> = text
        .split(';')
        .filter(|declared| !declared.contains('{') && !declared.contains("static inline"))
        .filter_map(|declared| {
            let (before, _) = declared.trim_end().strip_suffix(')')?.split_once('(')?;
            let name = before.rsplit(|c| !is_name(c)).next()?;
            name.starts_with("lookaside_").then(|| name.to_owned())
        })
        .filter(|name| {
            !name.starts_with("lookaside_platform_") && !name.starts_with("lookaside_host_")
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn the_header_has_few_functions_and_the_library_exports_each() {
    let functions = functions();
    assert!(functions.len() <= MOST_FUNCTIONS, "{}: {functions:?}", functions.len());
    let source = include_str!("../src/exports/mod.rs");
    for function in &functions {
        let exported = source.contains(&format!("fn {function}("))
            || source.contains(&format!("    {function}("));
        assert!(exported, "{function} is not exported");
    }
    let exports = source.matches(", or NOT_READY, is ").count()
        + source.matches(", or false, is ").count()
        + source.matches("), is |machine, space|").count()
        + source.matches("),\n        is |machine, space|").count()
        + source.matches("extern \"C\" fn lookaside_").count();
    assert_eq!(exports, functions.len(), "{functions:?}");
}
