//! `lookaside completions` and `lookaside man`: what a shell and `man` want to know of the commands.

use std::{fs, io, path::PathBuf, process::ExitCode};

use lookaside_terminal::{Refused, print, tell};

/// Arguments of `lookaside completions`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lookaside completions bash > /etc/bash_completion.d/lookaside
  lookaside completions zsh > ~/.zfunc/_lookaside
  lookaside completions fish > ~/.config/fish/completions/lookaside.fish")]
pub(crate) struct Completions {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Arguments of `lookaside man`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lookaside man /usr/local/share/man/man1
  lookaside man pages && man ./pages/lookaside-record.1")]
pub(crate) struct Manual {
    /// The folder for the pages, one for each command. It is made if it is not there.
    folder: PathBuf,
}

/// Prints the completions of all commands.
pub(crate) fn completions(arguments: &Completions, commands: clap::Command) -> super::Result {
    let mut text = Vec::new();
    let mut visible = visible(&commands);
    clap_complete::generate(arguments.shell, &mut visible, "lookaside", &mut text);
    print(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The commands without those that are hidden, which nobody is to complete.
fn visible(commands: &clap::Command) -> clap::Command {
    clap::Command::new("lookaside")
        .version(env!("CARGO_PKG_VERSION"))
        .args(commands.get_arguments().cloned())
        .subcommands(commands.get_subcommands().filter(|one| !one.is_hide_set()).cloned())
}

/// Writes the pages of the manual.
pub(crate) fn manual(arguments: &Manual, commands: clap::Command) -> super::Result {
    let folder = &arguments.folder;
    let refuse = |error: io::Error| Refused(format!("{}: {error}", folder.display()));
    if folder.exists() && !folder.is_dir() {
        return Err(Refused(format!("{} is no folder", folder.display())).into());
    }
    fs::create_dir_all(folder).map_err(refuse)?;
    clap_mangen::generate_to(commands, folder).map_err(refuse)?;
    let pages = fs::read_dir(folder).map_err(refuse)?.flatten();
    let own = pages.filter(|page| page.file_name().to_string_lossy().starts_with("lookaside"));
    tell!("{}: {} pages", folder.display(), own.count());
    Ok(ExitCode::SUCCESS)
}
