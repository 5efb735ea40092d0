//! Tables of a report for spreadsheets: names in the first line, times in picoseconds, shares as
//! fractions. `docs/report.md` says what the columns are.

use serde::Serialize;

use super::document::{Document, share};
use crate::{Replayed, Upkeep};

/// One row of [`strategies`].
#[derive(Serialize)]
struct Strategy<'a> {
    strategy: &'a str,
    machine: &'a str,
    cpus: usize,
    traced_ps: u64,
    total_ps: u64,
    total_share: f64,
    known_ps: u64,
    known_share: f64,
    switches_ps: u64,
    refills_ps: u64,
    flushes_ps: u64,
    waits_ps: u64,
    interrupted_ps: u64,
    fabric_ps: u64,
    switches: u64,
    flushes: u64,
    interrupts: u64,
    page_flushes: u64,
    full_flushes: u64,
    broadcasts: u64,
    walks: u64,
    accesses: u64,
    flush_p50: Option<u64>,
    flush_p99: Option<u64>,
    switch_p50: Option<u64>,
    switch_p99: Option<u64>,
    handler_p50: Option<u64>,
    handler_p99: Option<u64>,
}

/// One row of [`initiators`].
#[derive(Serialize)]
struct Initiator<'a> {
    strategy: &'a str,
    process: &'a str,
    operation: &'a str,
    count: u64,
    interrupts: u64,
    total_ps: u64,
    switches_ps: u64,
    refills_ps: u64,
    flushes_ps: u64,
    waits_ps: u64,
    interrupted_ps: u64,
    fabric_ps: u64,
}

/// One row of [`scaling`].
#[derive(Serialize)]
struct Point<'a> {
    strategy: &'a str,
    cpus: usize,
    total_ps: u64,
    total_share: f64,
}

/// One row of [`sensitivity`].
#[derive(Serialize)]
struct Swing<'a> {
    parameter: &'a str,
    unit: &'a str,
    value: f64,
    low: f64,
    high: f64,
    at_low: f64,
    at_high: f64,
}

fn table(rows: impl Iterator<Item = impl Serialize>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    rows.for_each(|row| writer.serialize(row).expect("memory takes every row"));
    let bytes = writer.into_inner().expect("memory takes every row");
    String::from_utf8(bytes).expect("rows are text")
}

/// The results of each strategy.
#[must_use]
pub fn strategies(document: &Document) -> String {
    table(document.results.iter().map(|result| {
        let Replayed { upkeep, operations, .. } = result;
        let of = |name: &str| result.latencies.iter().find(|latency| latency.of == name);
        let p50 = |name| of(name).map(|latency| latency.p50);
        let p99 = |name| of(name).map(|latency| latency.p99);
        Strategy {
            strategy: &result.strategy,
            machine: &result.machine,
            cpus: result.cpus,
            traced_ps: result.traced,
            total_ps: result.total,
            total_share: share(result),
            known_ps: result.known(),
            known_share: result.share_of(result.known()),
            switches_ps: upkeep.switches,
            refills_ps: upkeep.refills,
            flushes_ps: upkeep.flushes,
            waits_ps: upkeep.waits,
            interrupted_ps: upkeep.interrupted,
            fabric_ps: upkeep.fabric,
            switches: operations.switches,
            flushes: operations.flushes,
            interrupts: operations.interrupts,
            page_flushes: operations.page_flushes,
            full_flushes: operations.full_flushes,
            broadcasts: operations.broadcasts,
            walks: operations.walks,
            accesses: operations.accesses,
            flush_p50: p50("flush"),
            flush_p99: p99("flush"),
            switch_p50: p50("switch"),
            switch_p99: p99("switch"),
            handler_p50: p50("handler"),
            handler_p99: p99("handler"),
        }
    }))
}

/// Upkeep by initiator under each strategy.
#[must_use]
pub fn initiators(document: &Document) -> String {
    table(document.results.iter().flat_map(|result| {
        result.blame.iter().map(|blame| {
            let Upkeep { switches, refills, flushes, waits, interrupted, fabric } = blame.upkeep;
            Initiator {
                strategy: &result.strategy,
                process: &blame.process,
                operation: &blame.operation,
                count: blame.count,
                interrupts: blame.interrupts,
                total_ps: blame.upkeep.total(),
                switches_ps: switches,
                refills_ps: refills,
                flushes_ps: flushes,
                waits_ps: waits,
                interrupted_ps: interrupted,
                fabric_ps: fabric,
            }
        })
    }))
}

/// Upkeep by strategy and number of CPUs.
#[must_use]
pub fn scaling(document: &Document) -> String {
    table(document.scaling.iter().flat_map(|curve| {
        let strategy = curve.strategy.as_str();
        curve.points.iter().map(move |point| Point {
            strategy,
            cpus: point.cpus,
            total_ps: point.total,
            total_share: point.share,
        })
    }))
}

/// How much the factor depends on each number.
#[must_use]
pub fn sensitivity(document: &Document) -> String {
    let swings = document.sensitivity.iter().flat_map(|sensitivity| &sensitivity.swings);
    table(swings.map(|swing| Swing {
        parameter: &swing.parameter,
        unit: &swing.unit,
        value: swing.value,
        low: swing.low,
        high: swing.high,
        at_low: swing.at_low,
        at_high: swing.at_high,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn tables_have_a_row_for_each_thing_and_the_totals_of_the_results() {
        let document = sample::ordinary();
        let rows = strategies(&document);
        let mut reader = csv::Reader::from_reader(rows.as_bytes());
        let header = reader.headers().unwrap().clone();
        let column = |name: &str| header.iter().position(|h| h == name).unwrap();
        for (row, result) in reader.records().map(Result::unwrap).zip(&document.results) {
            assert_eq!(&row[column("strategy")], result.strategy);
            assert_eq!(row[column("total_ps")].parse::<u64>().unwrap(), result.total);
            let causes = Upkeep::NAMES.map(|name| column(&format!("{name}_ps")));
            let sum: u64 = causes.iter().map(|&i| row[i].parse::<u64>().unwrap()).sum();
            assert_eq!(sum, result.total);
            let known = sum - result.upkeep.refills;
            assert_eq!(row[column("known_ps")].parse::<u64>().unwrap(), known);
            assert!(
                row[column("known_share")].parse::<f64>().unwrap()
                    < row[column("total_share")].parse().unwrap()
            );
        }
        let lines = |text: &str| text.lines().count() - 1;
        assert_eq!(lines(&rows), document.results.len());
        let blamed: usize = document.results.iter().map(|result| result.blame.len()).sum();
        assert_eq!(lines(&initiators(&document)), blamed);
        let points: usize = document.scaling.iter().map(|curve| curve.points.len()).sum();
        assert_eq!(lines(&scaling(&document)), points);
        assert_eq!(
            lines(&sensitivity(&document)),
            document.sensitivity.as_ref().unwrap().swings.len()
        );
    }
}
