//! A graph of states as compact JSON: texts, CPUs, memories and lists of lines are stored once, and named by number.

use core::hash::Hash;
use std::collections::HashMap;

use lookaside_machine::{adversary::Line, explore::Graph};
use serde_json::{Value, json};

/// Values by number.
struct Table<T> {
    numbers: HashMap<T, usize>,
    list: Vec<T>,
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn new() -> Self {
        Self { numbers: HashMap::new(), list: Vec::new() }
    }

    fn number(&mut self, value: T) -> usize {
        let next = self.list.len();
        let list = &mut self.list;
        *self.numbers.entry(value).or_insert_with_key(|value| {
            list.push(value.clone());
            next
        })
    }
}

/// What the page reads: see `playground/src/page.html`.
pub(crate) fn compact(graph: &Graph) -> Value {
    let mut texts = Table::<String>::new();
    let mut cpus = Table::<String>::new();
    let mut memories = Table::<Vec<usize>>::new();
    let mut lists = Table::<String>::new();
    let mut states = Vec::new();
    for state in &graph.states {
        let seen = state.view.cpus.iter().map(|cpu| {
            let entries = cpu.entries.iter().map(|entry| {
                let flags = u8::from(entry.is_stale) | u8::from(entry.is_revoked) << 1;
                json!([texts.number(entry.text.clone()), flags])
            });
            let entries: Vec<_> = entries.collect();
            let stores: Vec<_> = cpu.stores.iter().map(|text| texts.number(text.clone())).collect();
            let flags = u8::from(cpu.takes_interrupts) | u8::from(cpu.is_interrupted) << 1;
            let root = texts.number(cpu.root.clone());
            cpus.number(json!([root, flags, stores, entries, cpu.pending]).to_string())
        });
        let seen: Vec<_> = seen.collect();
        let values = state.view.memory.iter().map(|(_, value)| texts.number(value.clone()));
        let memory = memories.number(values.collect());
        let edges = state.edges.iter().map(|edge| {
            let kind = texts.number(edge.kind.to_owned());
            let list = lists.number(lines(&edge.lines, &mut texts).to_string());
            json!([edge.cpu.map_or(-1, |cpu| cpu as i64), kind, list, edge.to])
        });
        let edges: Vec<_> = edges.collect();
        let violation = state.violation.as_ref().map(|it| texts.number(it.to_string()));
        states.push(match violation {
            Some(text) => json!([seen, memory, edges, text]),
            None => json!([seen, memory, edges]),
        });
    }
    let begin = lines(&graph.begin, &mut texts);
    let names: Vec<_> = graph.states.first().map_or(Vec::new(), |state| {
        state.view.memory.iter().map(|(name, _)| name.clone()).collect()
    });
    json!({
        "texts": texts.list,
        "names": names,
        "cpus": parsed(&cpus.list),
        "memories": memories.list,
        "lists": parsed(&lists.list),
        "begin": begin,
        "states": states,
    })
}

/// Lines of a trace: the CPU, whether the line begins a step, and the text.
fn lines(lines: &[Line], texts: &mut Table<String>) -> Value {
    let lines = lines.iter().map(|line| {
        json!([line.cpu, u8::from(line.step.is_some()), texts.number(line.text.trim().to_owned())])
    });
    Value::Array(lines.collect())
}

fn parsed(list: &[String]) -> Vec<Value> {
    list.iter().map(|text| serde_json::from_str(text).unwrap_or(Value::Null)).collect()
}
