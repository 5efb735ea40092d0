//! The site in a browser: the playground is tried out, every page is looked at wide and narrow, light and dark, and the search
//! is used. Pictures are left for people to look at.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::check;
use crate::{
    browser,
    failure::{Context, Failure, Result},
    workspace::Workspace,
};

/// How wide the window is, how high, and whether it is dark.
const WINDOWS: [(&str, u32, u32, bool); 4] = [
    ("wide-light", 1280, 1400, false),
    ("wide-dark", 1280, 1400, true),
    ("narrow-light", 390, 1800, false),
    ("narrow-dark", 390, 1800, true),
];

/// What is pictured. Behind the question mark stands what is searched for.
const PICTURED: [&str; 7] = [
    "playground.html",
    "index.html",
    "newcomer.html",
    "bugs/missed-target.html",
    "maintainer.html",
    "reports/index.html",
    "index.html?search=shootdown",
];

/// What tries the playground out.
const PROBE: &str = include_str!("probe.js");

/// What looks at all pages and searches.
const TOUR: &str = include_str!("tour.js");

/// The page that does it, beside the others.
const TOUR_PAGE: &str = "tour.html";

/// Tries the site out: every protocol of the playground is walked to its bug, or to its end; no page is wider than its
/// window, and the search finds a word.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let browser = browser::find("the site")?;
    let site = workspace.root().join("target/site");
    let page = site.join("playground.html");
    if !page.is_file() {
        return Err(Failure::new("there is no playground yet: cargo xtask site"));
    }
    let checks = browser::probe(&browser, &page, PROBE, 150)?;
    println!("site: the playground: {checks} checks hold, the console is empty");
    let (tour, pages) = tour(&site)?;
    let checks = browser::tour(&browser, &tour, 3 * pages)?;
    println!("site: {pages} pages and the search: {checks} checks hold, the console is empty");
    let pictures = workspace.root().join("target/site-pictures");
    fs::create_dir_all(&pictures).context(|| format!("making {}", pictures.display()))?;
    for page in PICTURED {
        let title = page.replace(".html", "").replace(['/', '?', '='], "-");
        for (name, width, height, dark) in WINDOWS {
            let picture = pictures.join(format!("{title}-{name}"));
            browser::picture(&browser, &site.join(page), &picture, (width, height, dark))?;
        }
    }
    println!("site: pictures are in {}", pictures.display());
    Ok(())
}

/// Writes the page that looks at all others, and says how many there are.
fn tour(site: &Path) -> Result<(PathBuf, usize)> {
    let mut files = Vec::new();
    check::collect(site, &mut files)?;
    let names = files.iter().filter_map(|file| file.strip_prefix(site).ok()?.to_str());
    let pages: Vec<_> = names.filter(|name| name.ends_with(".html") && !is_made(name)).collect();
    let list = pages.join("', '");
    let text = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Every page</title>\n<body>\n\
         <iframe id=\"frame\" style=\"height: 900px; border: 0\"></iframe>\n\
         <script>\nconst PAGES = ['{list}'];\n{TOUR}</script>\n</body>\n"
    );
    let page = site.join(TOUR_PAGE);
    fs::write(&page, text).context(|| format!("writing {}", page.display()))?;
    Ok((page, pages.len()))
}

/// Pages that no reader meets: made for a check, shown where an address does not exist, or the list of chapters for a
/// browser without scripts.
fn is_made(name: &str) -> bool {
    [TOUR_PAGE, "probed.html", "404.html", "toc.html"].contains(&name)
}
