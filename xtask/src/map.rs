//! The map in CONTRIBUTING.md: what it names exists, and no folder is left out.

use std::collections::BTreeSet;

use crate::{
    failure::{Failure, Result},
    workspace::Workspace,
};

const PAGE: &str = "CONTRIBUTING.md";

/// Compares the map with the files.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let wrong = wrong(&workspace.read(PAGE)?, &workspace.files()?);
    if wrong.is_empty() {
        println!("{PAGE}: its map has every folder");
        return Ok(());
    }
    Err(Failure::new(format!("the map in {PAGE}:\n{}", wrong.join("\n"))))
}

/// What is named and does not exist, and folders that are not named.
fn wrong(page: &str, files: &[String]) -> Vec<String> {
    let map = page.split_once("```text\n").map_or("", |(_, map)| map);
    let map = map.split_once("```").map_or("", |(map, _)| map);
    let named: BTreeSet<&str> =
        map.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let exists = |name: &str| {
        files
            .iter()
            .any(|file| if name.ends_with('/') { file.starts_with(name) } else { file == name })
    };
    let mut wrong: Vec<String> = named
        .iter()
        .filter(|name| !exists(name))
        .map(|name| format!("{name} does not exist"))
        .collect();
    let folders: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| file.split_once('/').map(|(folder, _)| folder))
        .filter(|folder| !folder.starts_with('.'))
        .collect();
    let missing =
        folders.into_iter().filter(|folder| !named.contains(format!("{folder}/").as_str()));
    wrong.extend(missing.map(|folder| format!("{folder}/ is not named")));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_and_what_is_new_is_told() {
        let files = ["a/b.rs", "c/d.rs", ".ci/run", "top.md"].map(str::to_owned);
        let page = "# T\n```text\na/      one\na/b.rs  two\na/x.rs  gone\n```\n";
        assert_eq!(wrong(page, &files), ["a/x.rs does not exist", "c/ is not named"]);
    }
}
