//! Where each CPU is: distances without divisions.

use super::{
    agents::Agent,
    model::{Distance, Topology},
};

/// The places of all CPUs of a machine.
#[derive(Debug)]
pub(crate) struct Places {
    topology: Topology,
    /// The core, the cluster and the socket of each CPU.
    all: Vec<[u16; 3]>,
}

impl Places {
    pub(crate) fn new(topology: Topology) -> Self {
        let place = |cpu: usize| {
            let core = cpu as u32 % topology.cores();
            let cluster = core / topology.cores_per_cluster;
            [core, cluster, cluster / topology.clusters].map(|number| number as u16)
        };
        Self { topology, all: (0..topology.cpus()).map(place).collect() }
    }

    /// How far two CPUs are from each other, as [`Topology::distance`] says.
    #[inline]
    pub(crate) fn distance(&self, a: u16, b: u16) -> Distance {
        if a == b {
            return Distance::Same;
        }
        let ([core, cluster, socket], other) = (self.all[usize::from(a)], self.all[usize::from(b)]);
        if core == other[0] {
            Distance::Core
        } else if cluster == other[1] {
            Distance::Cluster
        } else if socket == other[2] {
            Distance::Socket
        } else {
            Distance::Remote(self.topology.hops.between(socket, other[2]))
        }
    }

    /// The number of the socket of a CPU.
    #[inline]
    pub(crate) fn socket(&self, cpu: u16) -> u16 {
        self.all[usize::from(cpu)][2]
    }

    /// How far a CPU is from another of its socket that could be anywhere in it.
    pub(crate) const fn within_socket(&self) -> Distance {
        if self.topology.clusters > 1 { Distance::Socket } else { Distance::Cluster }
    }

    /// How many sockets there are.
    pub(crate) const fn sockets(&self) -> usize {
        self.topology.sockets as usize
    }

    /// How many CPUs there are.
    pub(crate) const fn cpus(&self) -> usize {
        self.all.len()
    }

    /// What serves the request of a CPU for a line that is so far away; none where no other core is concerned.
    #[inline]
    pub(crate) fn agent(&self, cpu: u16, distance: Distance) -> Agent {
        match distance {
            Distance::Same | Distance::Core => Agent::Nobody,
            Distance::Cluster if self.agents() > 0 => Agent::Cluster(self.all[usize::from(cpu)][1]),
            Distance::Cluster | Distance::Socket | Distance::Remote(_) => Agent::Home,
        }
    }

    /// How many clusters have an agent of their own: none where there is one cluster, whose agent is the home.
    #[inline]
    pub(crate) const fn agents(&self) -> usize {
        let clusters = (self.topology.clusters * self.topology.sockets) as usize;
        if clusters > 1 { clusters } else { 0 }
    }

    /// How far it is from a CPU to the nearest one of a set that does not contain it. `any` says
    /// whether one of a range of CPUs is in the set.
    pub(crate) fn nearest(&self, cpu: u16, any: impl Fn(u32, u32) -> bool) -> Distance {
        let Topology { threads, cores_per_cluster, clusters, .. } = self.topology;
        let near = |number: u16, size: u32| {
            let mut first = u32::from(number) * size;
            (0..threads).any(|_| {
                let found = any(first, first + size);
                first += self.topology.cores();
                found
            })
        };
        let [core, cluster, socket] = self.all[usize::from(cpu)];
        if threads > 1 && near(core, 1) {
            Distance::Core
        } else if near(cluster, cores_per_cluster) {
            Distance::Cluster
        } else if clusters > 1 && near(socket, cores_per_cluster * clusters) {
            Distance::Socket
        } else {
            let in_socket =
                |&other: &u16| other != socket && near(other, cores_per_cluster * clusters);
            let hops = |other: u16| self.topology.hops.between(socket, other);
            let others = || 0..self.topology.sockets as u16;
            let hops = match self.topology.hops.sockets() {
                None => Some(1),
                Some(_) => others().filter(in_socket).map(hops).min(),
            };
            Distance::Remote(hops.unwrap_or(1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_say_what_the_topology_says() {
        let hops = "0 1 2; 1 0 1; 2 1 0".parse().unwrap();
        let (cores_per_cluster, clusters, sockets) = (3, 2, 3);
        let t = Topology { threads: 2, cores_per_cluster, clusters, sockets, hops, nodes: 1 };
        let places = Places::new(t);
        assert_eq!(t.distance(0, 12), Distance::Remote(2));
        // The nearest of two sockets is a link away.
        assert_eq!(
            places.nearest(0, |from, to| (from..to).any(|cpu| [6, 12].contains(&cpu))),
            Distance::Remote(1)
        );
        for (a, b) in (0..36).flat_map(|a| (0..36).map(move |b| (a, b))) {
            assert_eq!(places.distance(a, b), t.distance(a.into(), b.into()));
            if a != b {
                let any = |from, to| (from..to).contains(&b.into());
                assert_eq!(places.nearest(a, any), t.distance(a.into(), b.into()));
            }
        }
    }
}
