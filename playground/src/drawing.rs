//! A schedule as a drawing: a column for each CPU, time from top to bottom, light and dark.

use core::fmt::Write as _;

use lookaside_machine::explore::{Replay, Schedule};

const COLUMN: usize = 300;
const LINE: usize = 17;
/// How many characters fit into a column.
const CHARACTERS: usize = 38;
const TOP: usize = 44;

/// The colours follow the reader's choice of light or dark.
const STYLE: &str = "\
text{font:12px ui-monospace,monospace;fill:#1c1e21}.h{font-weight:600}.note{fill:#5b6470}\
.gain{fill:#1a6b35}.loss{fill:#8a5200}.bad{fill:#b00020;font-weight:600}\
.cpu{stroke:#c3c9d1}.step{fill:#eef3fb;stroke:#7c97c4}.fill{fill:#ffffff}\
@media(prefers-color-scheme:dark){text{fill:#e3e6ea}.note{fill:#9aa4b1}.gain{fill:#6fd08c}\
.loss{fill:#e7b05c}.bad{fill:#ff7b8a}.cpu{stroke:#454d58}.step{fill:#253248;stroke:#5f7fb3}.fill{fill:#15181d}}";

/// Draws what a schedule does.
pub(crate) fn draw(replay: &Replay, schedule: &Schedule) -> String {
    let cpus = replay.end.cpus.len();
    let mut body = String::new();
    let mut y = TOP;
    for line in &replay.lines {
        let x = line.cpu * COLUMN + 12;
        let parts = wrapped(line.text.trim(), CHARACTERS);
        if line.step.is_some() {
            y += 7;
            let height = parts.len() * LINE + 4;
            let _ = write!(
                body,
                "<rect class=\"step\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{height}\" rx=\"4\"/>",
                x - 6,
                y - 13,
                COLUMN - 12,
            );
        }
        let class = match line.text.trim().as_bytes().first() {
            _ if line.step.is_some() => "",
            Some(b'+') => "gain",
            Some(b'-') => "loss",
            _ => "note",
        };
        for part in parts {
            let _ = write!(
                body,
                "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>",
                escaped(&part)
            );
            y += LINE;
        }
        y += if line.step.is_some() { 3 } else { 0 };
    }
    y = holdings(replay, y + 10, &mut body);
    let width = (cpus * COLUMN).max(2 * COLUMN);
    if let Some(violation) = &replay.violation {
        y += 10;
        for part in wrapped(&format!("broken: {violation}"), width / 7 - 4) {
            let _ =
                write!(body, "<text class=\"bad\" x=\"12\" y=\"{y}\">{}</text>", escaped(&part));
            y += LINE;
        }
    }
    let heads = (0..cpus).fold(String::new(), |mut heads, cpu| {
        let x = cpu * COLUMN;
        let _ = write!(
            heads,
            "<line class=\"cpu\" x1=\"{0}\" x2=\"{0}\" y1=\"30\" y2=\"{y}\"/>\
             <text class=\"h\" x=\"{1}\" y=\"20\">CPU {cpu}</text>",
            x + 2,
            x + 12,
        );
        heads
    });
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" height=\"{y}\" viewBox=\"0 0 {width} {y}\">\
         <title>schedule {}</title><style>{STYLE}</style>\
         <rect class=\"fill\" width=\"{width}\" height=\"{y}\"/>{heads}{body}</svg>\n",
        escaped(&schedule.to_string()),
    )
}

/// Draws what each CPU may hold at the end, and returns where it ends.
fn holdings(replay: &Replay, top: usize, body: &mut String) -> usize {
    let mut bottom = top;
    for (cpu, held) in replay.end.cpus.iter().enumerate() {
        let x = cpu * COLUMN + 12;
        let mut y = top;
        let mut write = |class: &str, text: &str| {
            let text = escaped(text);
            let _ = write!(body, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
            y += LINE;
        };
        write("h", "may be cached now:");
        if held.entries.is_empty() {
            write("note", "nothing");
        }
        for entry in &held.entries {
            if entry.is_stale || entry.is_revoked {
                write("bad", &format!("{}, stale", entry.text));
            } else {
                write("note", &entry.text);
            }
        }
        bottom = bottom.max(y);
    }
    bottom
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Breaks at blanks so that no part is wider than `width`, unless a word is.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in text.split_whitespace() {
        let last = parts.last_mut().filter(|last| {
            last.is_empty() || last.chars().count() + 1 + word.chars().count() <= width
        });
        match last {
            Some(last) if last.is_empty() => last.push_str(word),
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => parts.push(format!("  {word}")),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_broken_at_blanks_and_escaped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "  three"]);
        assert_eq!(escaped("a <- b & c"), "a &lt;- b &amp; c");
    }

    #[test]
    fn a_drawing_has_a_column_for_each_cpu_and_tells_what_was_broken() {
        let protocol =
            lookaside_scenarios::zoo::find("freed-before-the-flush").expect("it is in the zoo");
        let judged = lookaside_scenarios::zoo::judge(
            protocol,
            lookaside_machine::explore::Budget::UNLIMITED,
        );
        let schedule: Schedule =
            judged.schedule.expect("it breaks").parse().expect("it is a schedule");
        let replay = protocol.open(lookaside_scenarios::zoo::Form::Described).watch(&schedule);
        let drawn = draw(&replay.expect("it is of the protocol"), &schedule);
        assert!(drawn.contains("CPU 1") && drawn.contains("broken: "), "{drawn}");
        assert!(drawn.contains("frame 0x2, stale"), "CPU 1 still holds it: {drawn}");
    }
}
