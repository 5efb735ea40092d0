//! Links of the pages: every file and every anchor within the site that a page names must be there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::failure::{Context, Failure, Result};

/// A page that the site does not link to, with links relative to the site's address.
const NOT_FOUND: &str = "404.html";

/// A page whose anchors are names of protocols.
const PLAYGROUND: &str = "playground.html";

/// Follows the links of all pages, and says how many there are.
pub(super) fn run(site: &Path) -> Result<usize> {
    let mut files = Vec::new();
    collect(site, &mut files)?;
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "html")) {
        let text = fs::read_to_string(file).context(|| format!("reading {}", file.display()))?;
        pages.insert(file.clone(), Page::read(&text));
    }
    let mut wrong = Vec::new();
    let mut links = 0;
    for (file, page) in &pages {
        if file.ends_with(NOT_FOUND) {
            continue;
        }
        for link in page.links.iter().filter(|link| !is_outside(link)) {
            links += 1;
            if let Err(why) = follow(file, link, &pages) {
                let file = file.strip_prefix(site).unwrap_or(file).display();
                wrong.push(format!("{file}: `{link}`: {why}"));
            }
        }
    }
    if wrong.is_empty() { Ok(links) } else { Err(Failure::new(wrong.join("\n"))) }
}

fn is_outside(link: &str) -> bool {
    link.contains("://")
        || ["mailto:", "data:", "javascript:"].iter().any(|it| link.starts_with(it))
}

fn follow(
    file: &Path,
    link: &str,
    pages: &BTreeMap<PathBuf, Page>,
) -> core::result::Result<(), &'static str> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = path.split('?').next().unwrap_or(path);
    let mut target = file.to_path_buf();
    if !path.is_empty() {
        target.pop();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(target.pop()),
                part => target.push(part),
            }
        }
        if target.is_dir() {
            target.push("index.html");
        }
    }
    match pages.get(&target) {
        // The playground reads its anchor by itself.
        Some(_) if target.ends_with(PLAYGROUND) => Ok(()),
        Some(page) if anchor.is_empty() || page.ids.contains(anchor) => Ok(()),
        Some(_) => Err("the page has no such anchor"),
        None if target.is_file() => Ok(()),
        None => Err("there is no such file"),
    }
}

/// The files of a folder and of those in it.
pub(super) fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let reading = || format!("reading {}", folder.display());
    for entry in fs::read_dir(folder).context(reading)? {
        let path = entry.context(reading)?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

/// What a page names, and what can be named of it.
#[derive(Debug, Default)]
struct Page {
    ids: BTreeSet<String>,
    links: Vec<String>,
}

impl Page {
    /// Reads the tags of a page. What scripts write is not followed.
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut rest = text;
        while let Some((_, after)) = rest.split_once('<') {
            rest = after;
            if after.starts_with("!--") {
                rest = after.split_once("-->").map_or("", |(_, rest)| rest);
                continue;
            }
            let name: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
            if name.is_empty() {
                continue;
            }
            let Some((tag, after)) = after.split_once('>') else { break };
            for (attribute, value) in attributes(&tag[name.len()..]) {
                match attribute {
                    "id" => drop(page.ids.insert(value)),
                    "href" | "src" => page.links.push(value),
                    _ => {}
                }
            }
            rest = after;
            if name == "script" || name == "style" {
                rest = after.split_once(&format!("</{name}")).map_or("", |(_, rest)| rest);
            }
        }
        page
    }
}

/// The quoted attributes of a tag.
fn attributes(tag: &str) -> impl Iterator<Item = (&str, String)> {
    let mut rest = tag;
    core::iter::from_fn(move || {
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        let name = name.rsplit(char::is_whitespace).next().unwrap_or(name);
        Some((name, value.replace("&amp;", "&").replace("&#x27;", "'")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_and_scripts_are_not() {
        let page = Page::read(
            "<h1 class=\"x\" id=\"top\">a</h1><!-- <a href=\"no\"> --><a href=\"b.html#c&amp;d\">b</a>\
             <script src=\"s.js\">let x = '<a href=\"no\">';</script><img src=\"i.svg\">",
        );
        assert_eq!(page.links, ["b.html#c&d", "s.js", "i.svg"]);
        assert!(page.ids.contains("top"));
    }

    #[test]
    fn a_link_must_lead_to_a_page_and_to_an_anchor_of_it() {
        let pages = [("/s/a.html", "<p id=\"x\">"), ("/s/b/c.html", "")]
            .map(|(path, text)| (PathBuf::from(path), Page::read(text)))
            .into();
        let from = |link| follow(Path::new("/s/b/c.html"), link, &pages);
        assert_eq!(from("../a.html#x"), Ok(()));
        assert_eq!(from("../a.html#y"), Err("the page has no such anchor"));
        assert_eq!(from("a.html"), Err("there is no such file"));
        assert_eq!(from(""), Ok(()));
    }
}
