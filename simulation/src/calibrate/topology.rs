//! Which CPUs there are, and how they lie to each other: what `/sys/devices/system/cpu` says.

use std::{collections::BTreeSet, fs, path::Path};

use serde::{Deserialize, Serialize};

/// How far two CPUs are apart, as [`lookaside_machine::timed::Topology`] knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Apart {
    /// Threads of one core.
    Thread,
    /// Cores that share the last level of the cache.
    Cluster,
    /// Parts of one socket.
    Socket,
    /// Sockets.
    Remote,
}

impl Apart {
    /// All, the nearest first.
    pub const ALL: [Self; 4] = [Self::Thread, Self::Cluster, Self::Socket, Self::Remote];

    /// The price of a line that comes from there.
    #[must_use]
    pub const fn price(self) -> &'static str {
        match self {
            Self::Thread => "line_thread",
            Self::Cluster => "line_cluster",
            Self::Socket => "line_socket",
            Self::Remote => "line_remote",
        }
    }
}

/// One CPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    socket: u64,
    /// The first CPU of those that share its last level of the cache.
    cluster: usize,
    /// The first CPU of its core.
    core: usize,
}

/// The CPUs of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpus(Vec<Cpu>);

/// The numbers of a list such as `0-3,8`.
fn list(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            // A list of a kernel is short; one that is not is none.
            numbers.extend((first..=last).take(4096));
        }
    }
    numbers
}

impl Cpus {
    /// Those that are online, as a folder like `/sys/devices/system/cpu` describes them.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let text = |path: &str| {
            let path = folder.join(path);
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let mut cpus = Vec::new();
        for number in list(&text("online")?) {
            let topology = |name: &str| text(&format!("cpu{number}/topology/{name}"));
            let core = list(&topology("thread_siblings_list")?);
            let socket = topology("physical_package_id")?.trim().parse::<i64>().unwrap_or(0);
            let socket = u64::try_from(socket).unwrap_or(0);
            let mut cluster = (0, number);
            for index in 0..8 {
                let Ok(level) = text(&format!("cpu{number}/cache/index{index}/level")) else {
                    break;
                };
                let shared = text(&format!("cpu{number}/cache/index{index}/shared_cpu_list"))?;
                let level = level.trim().parse::<u32>().unwrap_or(0);
                if level > cluster.0 && level > 1 {
                    cluster = (level, list(&shared).first().copied().unwrap_or(number));
                }
            }
            // Without caches in the description, a socket is a cluster.
            let cluster = match cluster {
                (0, _) => socket as usize,
                (_, first) => first,
            };
            let core = core.first().copied().unwrap_or(number);
            cpus.push(Cpu { number, socket, cluster, core });
        }
        if cpus.is_empty() { Err("no CPU is online".to_owned()) } else { Ok(Self(cpus)) }
    }

    /// Their numbers.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|cpu| cpu.number)
    }

    /// How far two are apart.
    fn apart(a: &Cpu, b: &Cpu) -> Apart {
        if a.socket != b.socket {
            Apart::Remote
        } else if a.cluster != b.cluster {
            Apart::Socket
        } else if a.core != b.core {
            Apart::Cluster
        } else {
            Apart::Thread
        }
    }

    /// Up to `most` pairs of these CPUs for each distance, which begin at different CPUs.
    #[must_use]
    pub fn pairs(&self, allowed: &[usize], most: usize) -> Vec<(Apart, [usize; 2])> {
        let cpus: Vec<&Cpu> = self.0.iter().filter(|cpu| allowed.contains(&cpu.number)).collect();
        let mut pairs = Vec::new();
        for apart in Apart::ALL {
            let mut begun = BTreeSet::new();
            for (i, a) in cpus.iter().enumerate() {
                let b = cpus[i + 1..].iter().find(|b| Self::apart(a, b) == apart);
                if let Some(b) = b.filter(|_| begun.len() < most) {
                    begun.insert(a.number);
                    pairs.push((apart, [a.number, b.number]));
                }
            }
        }
        pairs
    }

    /// The shape: threads of a core, cores of a cluster, clusters of a socket, sockets.
    ///
    /// # Errors
    ///
    /// If they are not the same everywhere, as the model has it.
    pub fn shape(&self) -> Result<[usize; 4], String> {
        let distinct = |key: &dyn Fn(&Cpu) -> (u64, usize, usize)| {
            self.0.iter().map(key).collect::<BTreeSet<_>>().len()
        };
        let cores = distinct(&|cpu| (cpu.socket, cpu.cluster, cpu.core));
        let clusters = distinct(&|cpu| (cpu.socket, cpu.cluster, 0));
        let sockets = distinct(&|cpu| (cpu.socket, 0, 0));
        let shape = [self.0.len() / cores, cores / clusters, clusters / sockets, sockets];
        if shape.iter().product::<usize>() == self.0.len() {
            return Ok(shape);
        }
        Err(format!(
            "{} CPUs in {cores} cores, {clusters} clusters and {sockets} sockets are not the same \
             everywhere",
            self.0.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that describes CPUs: core, cluster and socket of each.
    fn folder(cpus: &[(usize, usize, usize)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: String, text: String| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("online".to_owned(), format!("0-{}\n", cpus.len() - 1));
        for (number, &(core, cluster, socket)) in cpus.iter().enumerate() {
            let same = |is: &dyn Fn(&(usize, usize, usize)) -> bool| {
                let all = (0..cpus.len()).filter(|&i| is(&cpus[i])).map(|i| i.to_string());
                all.collect::<Vec<_>>().join(",")
            };
            let at = format!("cpu{number}");
            write(format!("{at}/topology/thread_siblings_list"), same(&|cpu| cpu.0 == core));
            write(format!("{at}/topology/physical_package_id"), format!("{socket}\n"));
            write(format!("{at}/cache/index0/level"), "1\n".to_owned());
            write(format!("{at}/cache/index0/shared_cpu_list"), number.to_string());
            write(format!("{at}/cache/index1/level"), "3\n".to_owned());
            write(format!("{at}/cache/index1/shared_cpu_list"), same(&|cpu| cpu.1 == cluster));
        }
        folder
    }

    #[test]
    fn a_machine_is_as_regular_as_the_model_needs_it_or_refused() {
        // Two sockets of two clusters of two cores of two threads; threads are numbered as on Intel.
        let cpu = |i: usize| (i % 8, i % 8 / 2, i % 8 / 4);
        let cpus = Cpus::read(folder(&(0..16).map(cpu).collect::<Vec<_>>()).path()).unwrap();
        assert_eq!(cpus.shape(), Ok([2, 2, 2, 2]));
        let all: Vec<usize> = cpus.numbers().collect();
        let pairs = cpus.pairs(&all, 1);
        assert_eq!(
            pairs,
            [
                (Apart::Thread, [0, 8]),
                (Apart::Cluster, [0, 1]),
                (Apart::Socket, [0, 2]),
                (Apart::Remote, [0, 4])
            ]
        );
        // Those that a program may not use are in no pair.
        assert_eq!(cpus.pairs(&[0, 9], 4), [(Apart::Cluster, [0, 9])]);
        let odd = Cpus::read(folder(&[(0, 0, 0), (1, 0, 0), (2, 1, 0)]).path()).unwrap();
        assert!(odd.shape().unwrap_err().contains("not the same everywhere"));
        assert!(Cpus::read(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn lists_of_the_kernel_are_ranges_and_numbers() {
        assert_eq!(list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert!(list("\n").is_empty());
        assert_eq!(list("0-18446744073709551615").len(), 4096);
    }
}
