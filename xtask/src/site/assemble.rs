//! The sources of the site: each chapter is copied, and a link to a file that is no chapter becomes one to the
//! repository's address, so that it works on the site as it does in the repository.

use std::{collections::BTreeMap, fs, path::Path};

use crate::{
    failure::{Context, Failure, Result},
    workspace::Workspace,
};

/// The list of chapters.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Where the repository can be read.
const REPOSITORY: &str = "https://github.com/lookaside-rs/lookaside";

/// Copies the chapters that the summary lists, and says how many there are.
pub(super) fn run(workspace: &Workspace, to: &Path) -> Result<usize> {
    let summary = workspace.read(SUMMARY)?;
    let chapters: BTreeMap<String, String> = targets(&summary)
        .map(|link| resolve(SUMMARY, path_of(link)))
        .map(|file| (file.clone(), place(&file)))
        .collect();
    let mut wrong = Vec::new();
    let files = chapters.iter().map(|(file, place)| (file.as_str(), place.as_str()));
    for (file, place) in files.chain([(SUMMARY, "SUMMARY.md")]) {
        let text = workspace.read(file)?;
        let exists = |path: &str| workspace.root().join(path).exists();
        let text = drawings(&text, place);
        let text = rewrite(&text, |link| {
            let (rewritten, is_right) = target(link, file, place, &chapters, exists);
            if !is_right {
                wrong.push(format!("{file}: the link to `{link}` leads nowhere"));
            }
            rewritten
        });
        let path = to.join(place);
        let folder = path.parent().unwrap_or(to);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .context(|| format!("writing {}", path.display()))?;
    }
    if wrong.is_empty() { Ok(chapters.len()) } else { Err(Failure::new(wrong.join("\n"))) }
}

/// Puts each drawing where a line asks for it: `{{drawing NAME}}`. Drawings are made from runs.
fn drawings(text: &str, place: &str) -> String {
    let up = "../".repeat(place.matches('/').count());
    let drawn = text.lines().map(|line| {
        let name = line.strip_prefix("{{drawing ").and_then(|rest| rest.strip_suffix("}}"));
        name.map_or_else(
            || line.to_owned(),
            |name| {
                format!(
                    "<div class=\"drawing\"><img src=\"{up}drawings/{name}.svg\" \
                 alt=\"The steps of the CPUs, as executed: {name}\"></div>"
                )
            },
        )
    });
    drawn.map(|line| line + "\n").collect()
}

/// Where a file of the repository is in the book: `docs` is its root, and a README the first page of its folder.
fn place(file: &str) -> String {
    let file = file.strip_prefix("docs/").unwrap_or(file);
    file.strip_suffix("README.md")
        .map_or_else(|| file.to_owned(), |folder| format!("{folder}index.md"))
}

/// The path of a link, without the anchor.
fn path_of(link: &str) -> &str {
    link.split('#').next().unwrap_or(link)
}

/// What a link of a chapter becomes, and whether it leads somewhere.
fn target(
    link: &str,
    file: &str,
    place: &str,
    chapters: &BTreeMap<String, String>,
    exists: impl Fn(&str) -> bool,
) -> (String, bool) {
    let path = path_of(link);
    // The playground and drawings are made when the site is built.
    if path.is_empty()
        || link.contains("://")
        || link.starts_with("mailto:")
        || path.ends_with(".html")
    {
        return (link.to_owned(), true);
    }
    let resolved = resolve(file, path);
    let anchor = &link[path.len()..];
    if let Some(chapter) = chapters.get(&resolved) {
        let up = "../".repeat(place.matches('/').count());
        return (format!("{up}{chapter}{anchor}"), true);
    }
    let kind = if resolved.rsplit('/').next().is_some_and(|name| name.contains('.')) {
        "blob"
    } else {
        "tree"
    };
    (format!("{REPOSITORY}/{kind}/main/{resolved}{anchor}"), exists(&resolved))
}

/// The path, from the root of the repository, of a link in a file.
fn resolve(file: &str, link: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The targets of the inline links of a text.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Rewrites the target of each inline link that is not in code.
fn rewrite(text: &str, mut link: impl FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_fenced = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced {
            out.push_str(line);
            continue;
        }
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("](") {
            // The label of a link may be code, and code may look like a link.
            let is_code = before.matches('`').count() % 2 == 1;
            out.push_str(before);
            out.push_str("](");
            rest = after;
            if !is_code && let Some((target, after)) = after.split_once(')') {
                out.push_str(&link(target));
                out.push(')');
                rest = after;
            }
        }
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_chapters_or_to_the_repository() {
        let chapters = ["docs/zoo.md", "DESIGN.md", "docs/bugs/index.md"];
        let chapters = chapters.map(|file| (file.to_owned(), place(file))).into();
        let to = |link| {
            target(link, "docs/bugs/index.md", "bugs/index.md", &chapters, |path| path != "no.rs")
        };
        assert_eq!(to("../zoo.md#a"), ("../zoo.md#a".to_owned(), true));
        assert_eq!(to("../../DESIGN.md").0, "../DESIGN.md");
        assert_eq!(to("#here").0, "#here");
        assert_eq!(
            to("../../lookaside/src/lib.rs").0,
            format!("{REPOSITORY}/blob/main/lookaside/src/lib.rs")
        );
        assert_eq!(to("../../hunt/kernels").0, format!("{REPOSITORY}/tree/main/hunt/kernels"));
        assert!(!to("../../no.rs").1, "a file that does not exist is told");
    }

    #[test]
    fn code_is_left_alone() {
        let text = "[a](b) and [`c`](d), `x](y)`\n```\n[e](f)\n```\n";
        let rewritten = rewrite(text, |link| format!("<{link}>"));
        assert_eq!(rewritten, "[a](<b>) and [`c`](<d>), `x](y)`\n```\n[e](f)\n```\n");
    }
}
