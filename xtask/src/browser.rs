//! Pages in a browser without a window: tried out by a script that is put at their end, and pictured.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    failure::{Context, Failure, Result},
    process, setup,
};

/// For how long, in milliseconds of its own time, a page may load and wait. The time of a page that waits passes at once.
const BUDGET: &str = "--virtual-time-budget=900000";

/// The browser: Debian's or another build of Chromium.
pub(crate) fn find(what: &str) -> Result<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = || names.iter().find(|name| process::succeeds(Command::new(name).arg("--version")));
    if found().is_none() {
        setup::debian(&format!("Chromium, in which {what} is looked at,"), &["chromium"])?;
    }
    let found = found().ok_or_else(|| Failure::new("chromium is installed but does not start"))?;
    Ok(PathBuf::from(found))
}

/// A browser without a window, that keeps to itself, with a profile that nobody has used.
fn headless(browser: &Path, profile: &Path, size: (u32, u32)) -> Command {
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--enable-logging=stderr",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!("--window-size={},{}", size.0, size.1));
    command
}

/// Starts the browser on a page, and returns what it prints on standard output and on its console.
fn browse(
    browser: &Path,
    page: &Path,
    size: (u32, u32),
    arguments: &[String],
) -> Result<(String, Vec<String>)> {
    let profile = page.with_extension("profile");
    let _ = fs::remove_dir_all(&profile);
    let mut command = headless(browser, &profile, size);
    command.args(arguments).arg(format!("file://{}", page.display()));
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(|| format!("starting `{}`", process::spelled(&command)))?;
    let _ = fs::remove_dir_all(&profile);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        let status = output.status;
        return Err(Failure::new(format!("the browser failed ({status})\n{errors}")));
    }
    let console = errors.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), console.collect()))
}

/// Tries a page out in a wide window and in a narrow one, and says how many checks were made.
pub(crate) fn probe(browser: &Path, page: &Path, script: &str, least: usize) -> Result<usize> {
    let text = fs::read_to_string(page).context(|| format!("reading {}", page.display()))?;
    let probed = page.with_file_name("probed.html");
    let (before, after) = text.rsplit_once("</body>").unwrap_or((&text, ""));
    let whole = format!("{before}<script>\n{script}</script>\n</body>{after}");
    fs::write(&probed, whole).context(|| format!("writing {}", probed.display()))?;
    let mut checks = 0;
    for size in [(1200, 900), (420, 900)] {
        checks += tried(page, browse(browser, &probed, size, &["--dump-dom".to_owned()])?)?;
    }
    enough(page, checks, least)
}

/// Opens a page that tries out others in a frame, waits until it has come to its end, and says how many checks were made.
pub(crate) fn tour(browser: &Path, page: &Path, least: usize) -> Result<usize> {
    let arguments = ["--dump-dom", "--allow-file-access-from-files", BUDGET].map(str::to_owned);
    let checks = tried(page, browse(browser, page, (1400, 1000), &arguments)?)?;
    enough(page, checks, least)
}

/// How many checks hold, if all do and the console is empty.
fn tried(page: &Path, (document, console): (String, Vec<String>)) -> Result<usize> {
    if !console.is_empty() {
        let said = console.join("\n");
        return Err(Failure::new(format!("{}: the console says\n{said}", page.display())));
    }
    judge(&document).map_err(|failure| Failure::new(format!("{}: {failure}", page.display())))
}

fn enough(page: &Path, checks: usize, least: usize) -> Result<usize> {
    if checks < least {
        return Err(Failure::new(format!("{}: only {checks} checks were made", page.display())));
    }
    Ok(checks)
}

/// How many checks hold according to the verdict in a document.
fn judge(document: &str) -> Result<usize> {
    let verdict = document.split_once("<pre id=\"verdict\">").map(|(_, rest)| rest);
    let verdict = verdict.and_then(|rest| rest.split_once("</pre>")).map(|(verdict, _)| verdict);
    let Some(verdict) = verdict else {
        return Err(Failure::new("the script that tries the page out did not come to its end"));
    };
    let failed: Vec<&str> = verdict.lines().filter(|line| line.starts_with("FAIL")).collect();
    if !failed.is_empty() {
        return Err(Failure::new(failed.join("\n")));
    }
    let passed = verdict.lines().filter(|line| line.starts_with("PASS")).count();
    if passed == 0 || !verdict.contains(&format!("END of {passed}")) {
        return Err(Failure::new("the verdict is not whole"));
    }
    Ok(passed)
}

/// Takes a picture of a page.
pub(crate) fn picture(
    browser: &Path,
    page: &Path,
    name: &Path,
    (width, height, dark): (u32, u32, bool),
) -> Result<()> {
    let picture = name.with_extension("png");
    let _ = fs::remove_file(&picture);
    let mut arguments = vec![format!("--screenshot={}", picture.display()), BUDGET.to_owned()];
    if dark {
        arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
    }
    browse(browser, page, (width, height), &arguments)?;
    // A page that is not drawn compresses to nearly nothing.
    match fs::metadata(&picture) {
        Ok(file) if file.len() > 20_000 => Ok(()),
        _ => Err(Failure::new(format!("{}: there is nothing on the picture", picture.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(verdict: &str) -> String {
        format!("<body><script>'<pre>'</script><pre id=\"verdict\">{verdict}</pre></body>")
    }

    #[test]
    fn a_verdict_is_good_only_if_it_is_whole_and_nothing_failed() {
        assert_eq!(judge(&document("\nPASS a\nPASS b\nEND of 2\n")), Ok(2));
        assert!(judge(&document("\nPASS a\nFAIL b\nEND of 2\n")).is_err());
        assert!(judge(&document("\nPASS a\nEND of 2\n")).is_err());
        assert!(judge(&document("\nEND of 0\n")).is_err());
        assert!(judge("<body></body>").is_err());
    }
}
