//! `lookaside import`: converts a trace of any supported format into the project's own.

use std::{path::PathBuf, process::ExitCode};

use lookaside_terminal::{
    grid::{Grid, number},
    print, tell,
};
use lookaside_traces::{Origin, Summary, file, import};
use serde_json::{Value, json};

use super::output::{self, Format};

/// Arguments of `lookaside import`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lookaside import perf.data -o server.trace
  perf script -F comm,pid,tid,cpu,time,event,trace,ip,sym,dso --ns | lookaside import - -o server.trace")]
pub(crate) struct Arguments {
    /// The trace: `.trace`, a file of `perf record` or of `trace-cmd record`, or text of tracefs (`trace`, `trace_pipe`),
    /// of `trace-cmd report` or of `perf script`, with call chains or without; each may be compressed with gzip or zstd.
    /// `-` is standard input.
    file: PathBuf,
    /// Write it to this file in the project's own format; its name should end in `.trace`. A recorded trace is not replaced.
    #[arg(short, long, value_name = "OUT.trace")]
    output: Option<PathBuf>,
    /// Format of the summary.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// Runs `lookaside import`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let Arguments { file, output, format } = arguments;
    if let Some(path) = output {
        output::check(path)?;
        output::check_ending(path)?;
    }
    let trace = import::open(file)?;
    if let Some(missing) = trace.missing() {
        tell!("note: {missing}");
    }
    if let Some(path) = output {
        output::replace_with(path, |to| file::write(&trace, to))?;
    }
    let summary = Summary::of(&trace);
    let text = match format {
        Format::Json => format!("{:#}\n", to_json(&trace.origin, &summary)?),
        Format::Csv => csv(&trace.origin, &summary),
        Format::Markdown => join(&grids(&trace.origin, &summary), Grid::to_markdown),
        Format::Table => join(&grids(&trace.origin, &summary), Grid::to_text),
    };
    print(&format.plain(&text))?;
    Ok(ExitCode::SUCCESS)
}

fn join(grids: &[Grid], form: fn(&Grid) -> String) -> String {
    grids.iter().map(form).collect::<Vec<_>>().join("\n")
}

/// All of it in one table: that of each row, its name and its value.
fn csv(origin: &Origin, summary: &Summary) -> String {
    let mut all = Grid::new(["table", "row", "value"], &[0, 1, 2]);
    for (table, grid) in ["trace", "event", "missing"].into_iter().zip(grids(origin, summary)) {
        grid.rows().for_each(|cells| all.row([table, &cells[0], &cells[1]]));
    }
    for name in &origin.absent {
        all.row(["absent", name, ""]);
    }
    all.to_csv()
}

/// The summary of a trace: its origin, counts of events, and what is missing.
fn grids(origin: &Origin, summary: &Summary) -> [Grid; 3] {
    let unknown = || "not known".to_owned();
    let mut about = Grid::new(["trace", "value"], &[0]);
    about.row(["architecture", &origin.architecture.clone().unwrap_or_else(unknown)]);
    about.row(["kernel", &origin.kernel.clone().unwrap_or_else(unknown)]);
    about.row(["CPUs", &summary.cpus.to_string()]);
    let hardware = &origin.hardware;
    let processor = hardware.processor.clone().unwrap_or_else(unknown);
    about.row(["processor", &processor]);
    if let Some(name) = &hardware.name {
        about.row(["name of the processor", name]);
    }
    if let Some(guest) = origin.guest {
        about.row(["guest", if guest { "yes" } else { "no" }]);
    }
    if let Some(hypervisor) = &hardware.hypervisor {
        about.row(["hypervisor", hypervisor]);
    }
    if !hardware.caches.is_empty() {
        about.row(["caches", &hardware.caches.join(", ")]);
    }
    about.row(["threads at the beginning", &summary.tasks.to_string()]);
    about.row(["seconds", &number(summary.length as f64 / 1e9)]);
    if !origin.command.is_empty() {
        about.row(["command", &origin.command.join(" ")]);
    }
    let mut kinds = Grid::new(["event", "count"], &[0]);
    for (word, count) in &summary.kinds {
        kinds.row([word.replace('_', " "), count.to_string()]);
    }
    kinds.row(["all".to_owned(), summary.events.to_string()]);
    let mut losses = Grid::new(["missing", "count"], &[0]);
    losses.row(["lost by the kernel", &summary.lost.to_string()]);
    losses.row(["lines that cannot be read", &summary.damaged.to_string()]);
    losses.row(["events of other kinds", &summary.foreign.to_string()]);
    losses.row(["events put in order", &summary.reordered.to_string()]);
    losses.row(["end of the file", if summary.truncated { "missing" } else { "there" }]);
    [about, kinds, losses]
}

fn to_json(origin: &Origin, summary: &Summary) -> serde_json::Result<Value> {
    let Origin { architecture, kernel, guest, hardware, command, root, absent, .. } = origin;
    Ok(json!({
        "version": 1,
        "architecture": architecture,
        "kernel": kernel,
        "guest": guest,
        "processor": hardware.processor,
        "processor_name": hardware.name,
        "hypervisor": hardware.hypervisor,
        "caches": hardware.caches,
        "command": command,
        "root": root,
        "absent": absent,
        "holds": serde_json::to_value(summary)?,
    }))
}
