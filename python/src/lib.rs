//! The native part of the Python package `lookaside`.
//!
//! A [`Job`] is a sweep, a check or a replay: numbered tasks, each a pure function of the job and its number, and a
//! way to gather their results. A job and a result are bytes and text, so that any engine can move them between
//! processes. While a task runs, other Python threads run as well.

mod check;
mod generate;
mod job;
mod replay;
mod run;
mod source;
mod sweep;
mod table;

use std::borrow::Cow;

use lookaside_terminal::Refused;
use pyo3::{exceptions::PyOverflowError, prelude::*, types::PyTuple};

use self::job::{Spec, Work};

/// The exception, which has the name of the crates' error.
mod exception {
    pyo3::create_exception!(
        lookaside,
        Refused,
        pyo3::exceptions::PyValueError,
        "What was asked for cannot be done; the message says why."
    );
}

/// An error of the crates as an exception.
fn raise(Refused(why): Refused) -> PyErr {
    exception::Refused::new_err(why)
}

/// Numbered tasks, each a pure function of the job and its number.
#[pyclass(frozen, module = "lookaside._native")]
struct Job {
    bytes: Vec<u8>,
    /// Which job it is: what results are of.
    digest: String,
    work: Box<dyn Work>,
}

impl Job {
    /// Looks up all names of the job before anything is run.
    fn new(py: Python<'_>, spec: Spec) -> PyResult<Self> {
        py.detach(|| {
            let bytes = spec.to_bytes();
            let digest = job::digest(&bytes);
            Ok(Self { bytes, digest, work: spec.work()? })
        })
        .map_err(raise)
    }
}

#[pymethods]
impl Job {
    /// A workload over many values.
    #[staticmethod]
    #[pyo3(signature = (workload, over, machines, strategies, options, prices, metric, seed, seeds, plausible))]
    #[allow(clippy::too_many_arguments, reason = "each is a parameter of a sweep")]
    fn sweep(
        py: Python<'_>,
        workload: &str,
        over: &str,
        machines: Vec<String>,
        strategies: Vec<String>,
        options: Vec<(String, f64)>,
        prices: Vec<(String, f64)>,
        metric: Option<String>,
        seed: u64,
        seeds: u64,
        plausible: bool,
    ) -> PyResult<Self> {
        let of = || -> Result<Spec, Refused> {
            let (over, values) = lookaside_simulation::sweep::values(over)?;
            Ok(Spec::ParameterSweep(sweep::Spec {
                workload: source::workload(workload)?,
                machines: machines
                    .iter()
                    .map(|name| source::machine(name))
                    .collect::<Result<_, _>>()?,
                strategies,
                over,
                values,
                options: options.into_iter().collect(),
                prices: prices.into_iter().collect(),
                metric,
                seed,
                seeds,
                plausible,
            }))
        };
        Self::new(py, of().map_err(raise)?)
    }

    /// Scenarios of the catalogue.
    #[staticmethod]
    fn check(
        py: Python<'_>,
        names: Vec<String>,
        seeds: Vec<u32>,
        rounds: Option<u32>,
        steps: Option<u64>,
        preemptions: Option<u32>,
    ) -> PyResult<Self> {
        Self::new(py, Spec::Check(check::Spec { names, seeds, rounds, steps, preemptions }))
    }

    /// Generated programs.
    #[staticmethod]
    fn generate(
        py: Python<'_>,
        programs: u64,
        seeds: Vec<u32>,
        effort: u64,
        failures: usize,
    ) -> PyResult<Self> {
        Self::new(py, Spec::Generate(generate::Spec { programs, seeds, effort, failures }))
    }

    /// A trace under several strategies.
    #[staticmethod]
    #[pyo3(signature = (trace, machine, cpus, strategies, flushes, working_set, seed))]
    #[allow(clippy::too_many_arguments, reason = "each is a parameter of a replay")]
    fn replay(
        py: Python<'_>,
        trace: &str,
        machine: Option<&str>,
        cpus: Option<usize>,
        strategies: Vec<String>,
        flushes: Option<String>,
        working_set: Vec<(String, f64)>,
        seed: u64,
    ) -> PyResult<Self> {
        let of = || -> Result<Spec, Refused> {
            let (name, trace) = replay::read(trace)?;
            let machine = machine.map(source::machine).transpose()?;
            let spec =
                replay::Spec { name, machine, cpus, strategies, flushes, working_set, seed, trace };
            Ok(Spec::Replay(spec))
        };
        Self::new(py, of().map_err(raise)?)
    }

    /// The job of these bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Self::new(py, Spec::from_bytes(bytes).map_err(raise)?)
    }

    /// All of the job, with the text of each file that it names.
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn __len__(&self) -> usize {
        self.work.tasks()
    }

    /// What a task is about, in a few words.
    fn label(&self, task: &Bound<'_, PyAny>) -> PyResult<String> {
        Ok(self.work.label(self.within(task)?))
    }

    /// Runs a task.
    fn run_task(&self, py: Python<'_>, task: &Bound<'_, PyAny>) -> PyResult<String> {
        let task = self.within(task)?;
        Ok(py.detach(|| job::result(&*self.work, &self.digest, task)))
    }

    /// Runs all tasks on so many threads (0: one for each processor), and calls `progress` with how many are done.
    fn run(
        &self,
        py: Python<'_>,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<String>> {
        run::run(py, (&*self.work, &self.digest), threads, progress.as_ref())
    }

    /// Makes tables of the results of all tasks, which may come in any order: each has the digest of its job and the number of
    /// its task in it.
    fn gather(&self, py: Python<'_>, results: Vec<String>) -> PyResult<String> {
        py.detach(|| job::gather(&*self.work, &self.digest, &results)).map_err(raise)
    }

    fn __reduce__<'p>(slf: &Bound<'p, Self>) -> PyResult<(Bound<'p, PyAny>, Bound<'p, PyTuple>)> {
        let make = slf.get_type().getattr("from_bytes")?;
        let bytes = pyo3::types::PyBytes::new(slf.py(), &slf.get().bytes);
        Ok((make, PyTuple::new(slf.py(), [bytes])?))
    }
}

impl Job {
    /// The number of a task.
    fn within(&self, task: &Bound<'_, PyAny>) -> PyResult<usize> {
        let tasks = self.work.tasks();
        match task.extract::<usize>() {
            Ok(number) if number < tasks => Ok(number),
            Err(error) if !error.is_instance_of::<PyOverflowError>(task.py()) => Err(error),
            // One below 0 among them.
            _ => Err(raise(Refused(format!("there is no task {task}: the job has {tasks}")))),
        }
    }
}

/// The names of the machines.
#[pyfunction]
fn machines() -> Vec<&'static str> {
    lookaside_simulation::data::machines().collect()
}

/// The names of the strategies.
#[pyfunction]
fn strategies() -> Vec<&'static str> {
    lookaside_simulation::strategy::all().map(|entry| entry.name).collect()
}

/// The names of the workloads, with what each does.
#[pyfunction]
fn workloads() -> Vec<(&'static str, &'static str)> {
    lookaside_simulation::workload::all().map(|entry| (entry.name, entry.about)).collect()
}

/// The names of the protocols that are checked.
#[pyfunction]
fn protocols() -> Vec<&'static str> {
    lookaside_scenarios::scenario::TOPICS.iter().map(|topic| topic.name).collect()
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Job>()?;
    module.add("Refused", module.py().get_type::<exception::Refused>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(machines, module)?)?;
    module.add_function(wrap_pyfunction!(strategies, module)?)?;
    module.add_function(wrap_pyfunction!(workloads, module)?)?;
    module.add_function(wrap_pyfunction!(protocols, module)?)
}
