use lookaside_lab::{
    data::{self, Machine},
    reproduce::*,
    workload,
};
use std::collections::BTreeMap;
fn files() -> data::Files {
    let read = |folder: &str| {
        let mut v: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "toml"))
            .collect();
        v.sort();
        v.iter()
            .map(|p| {
                data::Text::new(
                    p.to_str().unwrap().to_string(),
                    std::fs::read_to_string(p).unwrap(),
                )
            })
            .collect()
    };
    data::Files { machines: read("machines"), published: read("published") }
}
fn book() -> Book {
    let f = files();
    let p = f.parameters().unwrap();
    Book {
        machines: f.machines().unwrap(),
        published: f.published().unwrap(),
        parameters: p.workloads.keys().map(|k| (k.clone(), p.of(k))).collect(),
    }
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let run: Box<Execute> = Box::new(|m: &Machine, r: &Run| {
        let t = std::time::Instant::now();
        let x = r.measure(m);
        if t.elapsed().as_millis() > 300 {
            eprintln!("slow {:?} {} {:?} {:?}", t.elapsed(), r.strategy, r.x, r.workload)
        }
        x
    });
    match args[1].as_str() {
        "check" => {
            for b in files().breaches() {
                println!("{b}");
            }
            println!("{:?}", book().check());
        }
        "fit" => {
            let b = book();
            for f in fit(&b, &args[2..].to_vec(), &*run, 0).unwrap() {
                println!(
                    "{} {} {} {} -> {} {} err {:?} {:?}",
                    f.machine, f.name, f.to, f.old, f.new, f.unit, f.error, f.problem
                );
            }
        }
        "rep" => {
            let b = book();
            let req = Request { ids: args[2..].to_vec(), ..Default::default() };
            let plan = Plan::new(&b, &req).unwrap();
            let rep = plan.execute(&b, &*run, &|| (), false);
            print!("{}", table::to_text(&rep));
        }
        "run" => {
            // run workload machine strategy cpus x k=v...
            let m =
                Machine::open(std::path::Path::new(&format!("machines/{}.toml", args[3]))).unwrap();
            let mut options: BTreeMap<String, f64> = files().parameters().unwrap().of(&args[2]);
            for a in &args[7..] {
                let (k, v) = a.split_once('=').unwrap();
                options.insert(k.into(), v.parse().unwrap());
            }
            let setup = workload::Setup {
                machine: &m,
                strategy: &args[4],
                cpus: args[5].parse().ok(),
                x: args[6].parse().ok(),
                options: &options,
                seed: 0,
            };
            let t = std::time::Instant::now();
            let o = (workload::find(&args[2]).unwrap().run)(&setup).unwrap();
            let e = t.elapsed();
            for x in &o.metrics {
                println!("{} {} {}", x.key, x.value, x.unit);
            }
            println!(
                "elapsed {} us, events {} host {:?} {:.1} M/s",
                o.report.elapsed / 1_000_000,
                o.report.events,
                e,
                o.report.events as f64 / e.as_secs_f64() / 1e6
            );
            for l in o.report.lines.iter().take(8) {
                println!(
                    "  line {:24} {:5} moves {} spent {} ns, each {}",
                    l.name,
                    l.lines,
                    l.moves,
                    l.spent / 1000,
                    l.spent / l.moves.max(1) / 1000
                );
            }
            for a in &o.report.activities {
                for c in lookaside_machine::timed::Cause::ALL {
                    let s = o.report.spent(a, *c);
                    if s > 0 && *a != "boot" && c.key() != "idle" {
                        println!("  {a:12} {:14} {} ns", c.key(), s / 1000);
                    }
                }
            }
            println!("{:?}", o.report.counters());
        }
        _ => {}
    }
}
