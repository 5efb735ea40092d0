//! What a machine is like: how many CPUs, how far apart, with which TLBs, and at which prices.

use super::{
    hops::Hops,
    price::{Price, Prices, Ps},
};

/// The most CPUs that a timed machine can have.
pub const MAX_CPUS: usize = 4096;

/// A machine as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The distances between CPUs.
    pub topology: Topology,
    /// The TLB of each CPU.
    pub tlb: TlbShape,
    /// What things cost.
    pub prices: Prices,
    /// How many broadcast invalidations a CPU may have under way before it waits for the first.
    pub fabric_window: usize,
    /// How many consecutive CPUs one write of the interrupt controller reaches.
    pub interrupt_group: u32,
}

/// How CPUs hang together. The CPUs are numbered as Linux numbers them on x86: all first hardware
/// threads, core by core, then all second ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Hardware threads of a core.
    pub threads: u32,
    /// Cores that share a cache before the socket's.
    pub cores_per_cluster: u32,
    /// Clusters of a socket.
    pub clusters: u32,
    /// Sockets.
    pub sockets: u32,
    /// How far sockets are from each other.
    pub hops: Hops,
    /// Nodes that broadcast invalidations have to reach.
    pub nodes: u32,
}

/// How far one CPU is from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The same CPU.
    Same,
    /// The same core.
    Core,
    /// The same cluster.
    Cluster,
    /// The same socket.
    Socket,
    /// Another socket, over so many links.
    Remote(u8),
}

impl Distance {
    /// What a cache line takes that is so far away, in picoseconds.
    #[must_use]
    #[inline]
    pub fn line(self, prices: &Prices) -> Ps {
        prices.charge(match self {
            Self::Same => Price::Hit,
            Self::Core => Price::LineThread,
            Self::Cluster => Price::LineCluster,
            Self::Socket => Price::LineSocket,
            Self::Remote(_) => Price::LineRemote,
        }) + self.hops(prices)
    }

    /// What the links after the first take on the way there, in picoseconds.
    #[must_use]
    #[inline]
    pub fn hops(self, prices: &Prices) -> Ps {
        match self {
            Self::Remote(hops @ 2..) => Ps::from(hops - 1) * prices.charge(Price::Hop),
            _ => 0,
        }
    }
}

impl Topology {
    /// One socket with one cluster of single-threaded cores.
    #[must_use]
    pub const fn flat(cores: u32) -> Self {
        Self {
            threads: 1,
            cores_per_cluster: cores,
            clusters: 1,
            sockets: 1,
            hops: Hops::ONE,
            nodes: 1,
        }
    }

    /// How many CPUs there are.
    #[must_use]
    pub const fn cpus(&self) -> usize {
        (self.threads * self.cores()) as usize
    }

    /// How many cores there are.
    #[must_use]
    pub const fn cores(&self) -> u32 {
        self.cores_per_cluster * self.clusters * self.sockets
    }

    /// How far two CPUs are from each other.
    #[must_use]
    #[inline]
    pub fn distance(&self, a: u32, b: u32) -> Distance {
        if a == b {
            return Distance::Same;
        }
        let (a, b) = (a % self.cores(), b % self.cores());
        if a == b {
            return Distance::Core;
        }
        let (a, b) = (a / self.cores_per_cluster, b / self.cores_per_cluster);
        let [from, to] = [a, b].map(|cluster| (cluster / self.clusters) as u16);
        if a == b {
            Distance::Cluster
        } else if from == to {
            Distance::Socket
        } else {
            Distance::Remote(self.hops.between(from, to))
        }
    }
}

/// The sizes of one CPU's TLB, in entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbShape {
    /// The first level.
    pub first: CacheShape,
    /// The second level, which has what the first has.
    pub second: Option<CacheShape>,
    /// Cached upper levels of walks: entries, each for one table of last-level entries.
    pub walk_cache: u32,
    /// Whether a contiguous block takes one entry.
    pub blocks: bool,
    /// Whether an invalidation by address removes everything: on Intel CPUs it does in a guest whose
    /// large pages the host has in small ones, as any entry may be a part of the page.
    pub fractured: bool,
}

/// Entries and ways of a cache of translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Entries.
    pub entries: u32,
    /// Ways; as many as entries if it is fully associative.
    pub ways: u32,
}

impl CacheShape {
    /// A fully associative one.
    #[must_use]
    pub const fn full(entries: u32) -> Self {
        Self { entries, ways: entries }
    }
}

/// What is wrong with a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadModel {
    /// The part that is wrong, as machine files name it.
    pub part: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl core::fmt::Display for BadModel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "`{}` {}", self.part, self.why)
    }
}

impl core::error::Error for BadModel {}

impl Model {
    /// Looks for sizes that no machine can have.
    ///
    /// # Errors
    ///
    /// The first part that is wrong.
    pub fn check(&self) -> Result<(), BadModel> {
        let wrong = |part, why: &str| Err(BadModel { part, why: why.to_owned() });
        let t = &self.topology;
        for (part, count) in [
            ("threads", t.threads),
            ("cores_per_cluster", t.cores_per_cluster),
            ("clusters", t.clusters),
            ("sockets", t.sockets),
            ("nodes", t.nodes),
            ("interrupt_group", self.interrupt_group),
        ] {
            if count == 0 {
                return wrong(part, "is zero");
            }
        }
        let cpus = [t.threads, t.cores_per_cluster, t.clusters, t.sockets]
            .iter()
            .try_fold(1_u32, |product, &count| product.checked_mul(count));
        if cpus.is_none_or(|cpus| cpus as usize > MAX_CPUS) {
            return wrong("cores_per_cluster", &format!("makes more than {MAX_CPUS} CPUs"));
        }
        if t.hops.sockets().is_some_and(|sockets| sockets != t.sockets) {
            return wrong("hops", &format!("has not a row for each of {} sockets", t.sockets));
        }
        if self.fabric_window == 0 {
            return wrong("fabric_window", "is zero");
        }
        let second = self.tlb.second.as_ref();
        for (part, shape) in [("first", Some(&self.tlb.first)), ("second", second)] {
            let Some(&CacheShape { entries, ways }) = shape else { continue };
            if entries == 0 || ways == 0 {
                return wrong(part, "has no entries or no ways");
            }
            if entries % ways != 0 {
                return wrong(part, "has a number of entries that its ways do not divide");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_follow_the_numbering() {
        let (sockets, hops) = (2, Hops::ONE);
        let two =
            Topology { threads: 2, cores_per_cluster: 2, clusters: 2, sockets, hops, nodes: 2 };
        assert_eq!(two.cpus(), 16);
        assert_eq!(two.distance(3, 3), Distance::Same);
        assert_eq!(two.distance(3, 11), Distance::Core);
        assert_eq!(two.distance(2, 3), Distance::Cluster);
        assert_eq!(two.distance(1, 2), Distance::Socket);
        assert_eq!(two.distance(3, 4), Distance::Remote(1));
        assert_eq!(two.distance(11, 4), Distance::Remote(1));
    }
}
