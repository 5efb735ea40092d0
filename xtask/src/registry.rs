//! What a registry asks of a package before it takes it, as `cargo publish --dry-run` says, and what that does not look at:
//! links, keywords, categories, the oldest Rust, and the targets of the documentation.

use std::process::Command;

use crate::{
    failure::{Context, Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// The categories of crates.io that our packages use. It drops others without an error.
const CATEGORIES: [&str; 9] = [
    "command-line-interface",
    "command-line-utilities",
    "concurrency",
    "development-tools",
    "development-tools::testing",
    "hardware-support",
    "memory-management",
    "no-std::no-alloc",
    "os",
];

/// The bare-metal targets that docs.rs builds documentation for.
pub(crate) const TARGETS_OF_DOCS: [&str; 3] =
    ["x86_64-unknown-none", "aarch64-unknown-none", "riscv64gc-unknown-none-elf"];

/// How the lines begin that are expected: tests and examples stay in the repository, and nothing is uploaded.
const EXPECTED: [&str; 4] = [
    "warning: ignoring test ",
    "warning: ignoring example ",
    "warning: ignoring benchmark ",
    "warning: aborting upload due to dry run",
];

/// The files beside `Cargo.toml` that have the address of the repository.
const ADDRESSED: [&str; 6] = [
    "lab/Cargo.toml",
    "book.toml",
    "xtask/src/site/assemble.rs",
    "templates/tlb-check.yml",
    ".github/ISSUE_TEMPLATE/config.yml",
    ".github/CODEOWNERS",
];

/// Fails if files name another repository than `Cargo.toml`: owner and name, or the owner alone before a team.
pub(crate) fn one_address(workspace: &Workspace) -> Result<()> {
    let manifest = workspace.read("Cargo.toml")?;
    let address = address(&manifest)
        .ok_or_else(|| Failure::new("Cargo.toml: `repository` is no address at github.com"))?;
    let owner = address.split('/').next().unwrap_or(address);
    for file in ADDRESSED {
        let text = workspace.read(file)?;
        if !text.contains(address) && !text.contains(&format!("@{owner}/")) {
            return Err(Failure::new(format!(
                "{file} does not have the address of the repository in Cargo.toml, {address}"
            )));
        }
    }
    Ok(())
}

fn address(manifest: &str) -> Option<&str> {
    let (_, rest) = manifest.split_once("repository = \"https://github.com/")?;
    let (address, _) = rest.split_once('"')?;
    Some(address)
}

/// Publishes without doing so, and fails on what is warned of.
pub(crate) fn rehearse(workspace: &Workspace, unpublished: &[&str]) -> Result<()> {
    let mut command = setup::cargo();
    command.current_dir(workspace.root());
    command.args(["publish", "--workspace", "--dry-run", "--no-verify", "--allow-dirty"]);
    command.args(unpublished.iter().map(|package| format!("--exclude={package}")));
    let said = match process::errors(&mut command) {
        Err(failure) if is_unreachable(&failure.to_string()) => {
            println!(
                "package: the registry cannot be reached, so the publication was not rehearsed"
            );
            return Ok(());
        }
        said => said?,
    };
    let unexpected = unexpected(&said);
    if unexpected.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("`cargo publish --dry-run` warns:\n{}", unexpected.join("\n"))))
}

/// Whether cargo failed because there is no network.
fn is_unreachable(said: &str) -> bool {
    said.contains("spurious network error") && said.contains("failed to download from")
}

fn unexpected(said: &str) -> Vec<&str> {
    said.lines()
        .filter(|line| line.starts_with("warning"))
        .filter(|line| !EXPECTED.iter().any(|expected| line.starts_with(expected)))
        .collect()
}

/// Looks at the manifests of the packages, as `cargo metadata` has them.
pub(crate) fn check<'a>(packages: impl Iterator<Item = &'a serde_json::Value>) -> Result<()> {
    let faults: Vec<String> = packages
        .flat_map(|package| {
            let name = package["name"].as_str().unwrap_or_default();
            faults(package).into_iter().map(move |fault| format!("`{name}`: {fault}"))
        })
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(Failure::new(faults.join("\n"))) }
}

fn faults(package: &serde_json::Value) -> Vec<String> {
    let mut faults = Vec::new();
    for field in ["description", "license", "repository", "documentation", "readme", "rust_version"]
    {
        if package[field].as_str().is_none_or(str::is_empty) {
            faults.push(format!("the manifest has no `{}`", field.replace('_', "-")));
        }
    }
    let keywords = words(&package["keywords"]);
    if !(1..=5).contains(&keywords.len()) {
        faults.push(format!("{} keywords: crates.io takes up to five", keywords.len()));
    }
    for keyword in keywords.into_iter().filter(|keyword| !is_keyword(keyword)) {
        faults.push(format!("the keyword `{keyword}`: crates.io takes 20 characters of ASCII"));
    }
    let categories = words(&package["categories"]);
    if !(1..=5).contains(&categories.len()) {
        faults.push(format!("{} categories: crates.io takes up to five", categories.len()));
    }
    for category in categories.iter().filter(|category| !CATEGORIES.contains(category)) {
        faults.push(format!(
            "the category `{category}` is not in the list of xtask/src/registry.rs: \
             add it if https://crates.io/category_slugs has it"
        ));
    }
    // What is for kernels has no host to be documented on.
    if categories.contains(&"no-std::no-alloc") {
        let docs = &package["metadata"]["docs"]["rs"];
        let targets = words(&docs["targets"]);
        let default = docs["default-target"].as_str().unwrap_or_default();
        if !targets.contains(&default) || !targets.iter().all(|it| TARGETS_OF_DOCS.contains(it)) {
            faults.push(format!(
                "`package.metadata.docs.rs` names no default among its targets, or another than {}",
                TARGETS_OF_DOCS.join(", ")
            ));
        }
    }
    faults
}

fn words(list: &serde_json::Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(serde_json::Value::as_str).collect()
}

/// Whether crates.io takes a keyword: a letter or digit, then those, `_`, `-` and `+`.
fn is_keyword(keyword: &str) -> bool {
    let follows = |c: char| c.is_ascii_alphanumeric() || "_-+".contains(c);
    keyword.len() <= 20
        && keyword.starts_with(|c: char| c.is_ascii_alphanumeric())
        && keyword.chars().all(follows)
}

/// Makes the documentation of a library as docs.rs does for a target, and takes warnings for errors.
pub(crate) fn document(workspace: &Workspace, mut cargo: Command) -> Result<()> {
    cargo.current_dir(workspace.root()).env("RUSTDOCFLAGS", "-Dwarnings");
    process::run(cargo.args(["--no-deps", "--quiet"]))
}

/// What `cargo metadata` knows of the packages of the workspace.
pub(crate) fn metadata(workspace: &Workspace) -> Result<Vec<serde_json::Value>> {
    let mut command = setup::cargo();
    command.current_dir(workspace.root()).args(["metadata", "--no-deps", "--format-version=1"]);
    let mut metadata: serde_json::Value = serde_json::from_str(&process::output(&mut command)?)
        .context(|| "reading the metadata of the workspace".to_owned())?;
    Ok(metadata["packages"].as_array_mut().map(core::mem::take).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{ "name": "a", "description": "d", "license": "MIT", "repository": "r", "documentation": "d",
        "readme": "README.md", "rust_version": "1.88", "keywords": ["tlb"], "categories": ["no-std::no-alloc"],
        "metadata": { "docs": { "rs": { "default-target": "x86_64-unknown-none", "targets": ["x86_64-unknown-none"] } } } }"#;

    #[test]
    fn what_a_manifest_lacks_is_named() {
        let good: serde_json::Value = serde_json::from_str(GOOD).unwrap();
        assert_eq!(faults(&good), <[String; 0]>::default());
        let mut bad = good.clone();
        bad["rust_version"] = serde_json::Value::Null;
        bad["keywords"] = serde_json::json!(["two words"]);
        bad["categories"] = serde_json::json!(["no-std::no-alloc", "kernels"]);
        bad["metadata"] = serde_json::Value::Null;
        let faults = faults(&bad).join("\n");
        for part in ["`rust-version`", "`two words`", "`kernels`", "docs.rs"] {
            assert!(faults.contains(part), "{part}: {faults}");
        }
        assert!(check([&bad].into_iter()).unwrap_err().to_string().starts_with("`a`: "));
    }

    #[test]
    fn the_address_of_the_repository_is_read() {
        let manifest = "repository = \"https://github.com/a/b\"\nrust-version = \"1.88\"\n";
        assert_eq!(address(manifest), Some("a/b"));
        assert_eq!(address("repository = \"https://example.org\""), None);
    }

    #[test]
    fn a_registry_out_of_reach_is_no_fault_of_a_package() {
        assert!(is_unreachable(
            "warning: spurious network error (1 try remaining): [6] Could not resolve hostname\n\
             error: download of config.json failed\nCaused by:\n  failed to download from `https://x/config.json`"
        ));
        assert!(!is_unreachable("error: 1 files in the working directory contain changes"));
    }

    #[test]
    fn only_what_is_expected_may_be_warned_of() {
        let said = "   Packaging a\nwarning: ignoring test `t` as `tests/t.rs` is not included\n\
                    warning: manifest has no documentation\nwarning: aborting upload due to dry run\n";
        assert_eq!(unexpected(said), ["warning: manifest has no documentation"]);
    }
}
