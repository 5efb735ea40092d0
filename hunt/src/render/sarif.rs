//! SARIF 2.1.0, which hosts of code read (OASIS standard "Static Analysis Results Interchange Format").

use lookaside_watch::Criterion;
use serde_json::{Value, json};

use crate::run::Outcome;

pub(super) fn sarif(outcome: &Outcome) -> Result<String, String> {
    let rules: Vec<Value> = Criterion::ALL
        .iter()
        .map(|rule| json!({ "id": rule.letter().to_string(), "name": rule.title() }))
        .collect();
    let results: Vec<Value> = outcome.findings().map(|finding| result(outcome, finding)).collect();
    let log = json!({
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{
            "tool": { "driver": { "name": "lookaside hunt", "rules": rules } },
            "results": results,
        }],
    });
    serde_json::to_string_pretty(&log).map_err(|error| error.to_string())
}

fn result(outcome: &Outcome, finding: &lookaside_watch::Finding) -> Value {
    let missing = finding.missing.as_ref().map_or("", |remedy| &remedy.instruction);
    let location = |pc: u64| {
        json!({
            "logicalLocations": [{ "fullyQualifiedName": outcome.name(pc), "kind": "function" }],
            "physicalLocation": { "address": { "absoluteAddress": pc as i64 } },
        })
    };
    let level = if finding.criterion.is_certain() { "error" } else { "warning" };
    let mut places = vec![location(finding.shown.pc)];
    places.extend(finding.revoked.map(|revoked| location(revoked.by.pc)));
    json!({
        "ruleId": finding.criterion.letter().to_string(),
        "level": level,
        "occurrenceCount": finding.count,
        "message": { "text": format!(
            "{}: CPU {} may still hold page {:#x}; missing: {missing}",
            finding.criterion.title(), finding.holder, finding.address
        ) },
        "locations": [places[0]],
        "relatedLocations": places[1..],
    })
}
