//! What serves the requests for a cache line: one after the other.
//!
//! Requests for one line meet where its state is kept: in the home of the line (a slice of the last-level cache with
//! its directory), and for a line of which the cluster has a copy in the cache that the cluster shares. Each request
//! occupies it for [`Price::LineService`](super::Price::LineService). So loads by many CPUs of a line that was
//! written wait for each other, although the line itself travels to all of them at the same time. What the other
//! hardware thread of the core has needs no request.

use super::{model::Distance, places::Places, price::Ps};

/// What serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// The line is in the core.
    Nobody,
    /// The cache of the cluster with that number.
    Cluster(u16),
    /// The home of the line.
    Home,
}

/// When one agent serves the requests so far that come without a gap.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    since: Ps,
    until: Ps,
}

impl Busy {
    /// When it can serve a request that comes at `at`. Loads that are under way together were asked for before the
    /// program comes to them, maybe before others that are served by now.
    const fn next(self, at: Ps) -> Ps {
        if at < self.since || at > self.until { at } else { self.until }
    }

    fn serve(&mut self, begins: Ps, time: Ps) {
        if begins > self.until {
            self.since = begins;
        }
        self.until = self.until.max(begins + time);
    }
}

/// When the agents of one line serve the requests so far.
#[derive(Clone, Debug)]
pub(crate) struct Agents {
    home: Busy,
    /// By cluster; empty until one has had a request.
    clusters: Vec<Busy>,
}

impl Agents {
    pub(crate) const NEW: Self = Self { home: Busy { since: 0, until: 0 }, clusters: Vec::new() };

    /// When an agent can serve a request that comes at `at`.
    #[inline]
    pub(crate) fn next(&self, agent: Agent, at: Ps) -> Ps {
        match agent {
            Agent::Nobody => at,
            Agent::Cluster(number) => {
                self.clusters.get(usize::from(number)).map_or(at, |busy| busy.next(at))
            }
            Agent::Home => self.home.next(at),
        }
    }

    /// When a write can be served that comes at `at`, and whose farthest copy is so far away: the home has all
    /// requests before it behind it.
    #[inline]
    pub(crate) const fn next_write(&self, distance: Distance, at: Ps) -> Ps {
        match distance {
            Distance::Same | Distance::Core => at,
            Distance::Cluster | Distance::Socket | Distance::Remote(_) => self.home.next(at),
        }
    }

    /// Notes that an agent serves a request for so long, on a machine where so many clusters have one.
    #[inline]
    pub(crate) fn serve(&mut self, agent: Agent, begins: Ps, time: Ps, clusters: usize) {
        match agent {
            Agent::Nobody => {}
            Agent::Cluster(number) => {
                if self.clusters.is_empty() {
                    self.clusters.resize(clusters, Busy::default());
                }
                self.clusters[usize::from(number)].serve(begins, time);
            }
            Agent::Home => self.home.serve(begins, time),
        }
    }
}

/// Which socket writes next a line for which CPUs of several sockets wait.
///
/// While a line is with a socket, requests from there are served in the order in which they come, and the one from
/// another socket is one more behind those that wait already; a CPU that asks again comes behind that. So a contended
/// line goes to each waiting CPU of a socket once, and then to another socket. CPUs are still served here in the order
/// in which they ask, so what this gives is only who pays for the way between sockets: the first of its socket's turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// By socket; empty until it has come from another socket.
    of_socket: Vec<Turn>,
    /// By CPU: the turn of its socket in which it was last.
    of_cpu: Vec<u32>,
    /// How many turns all sockets have had.
    all: u32,
}

/// The latest turn of a socket.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    number: u32,
    /// How many turns other sockets had had when it began.
    others: u32,
}

impl Turns {
    pub(crate) const NEW: Self = Self { of_socket: Vec::new(), of_cpu: Vec::new(), all: 0 };

    /// A write by a CPU for which the line comes from another socket; `waits` for others that move the line. Whether it
    /// begins a turn of its socket.
    pub(crate) fn comes_far(&mut self, places: &Places, cpu: u16, waits: bool) -> bool {
        if self.of_socket.is_empty() {
            self.of_socket = vec![Turn::default(); places.sockets()];
            self.of_cpu = vec![0; places.cpus()];
        }
        let socket = usize::from(places.socket(cpu));
        let turn = self.of_socket[socket];
        // Another socket cannot have begun two while those wait who are in this one.
        let is_over = self.all - turn.number >= turn.others + places.sockets() as u32;
        let begins = !waits || is_over || self.of_cpu[usize::from(cpu)] == turn.number;
        self.join(socket, cpu, begins);
        begins
    }

    /// A write by a CPU for which the line comes from its own socket.
    #[inline]
    pub(crate) fn comes_near(&mut self, places: &Places, cpu: u16) {
        if let Some(&mine) = self.of_cpu.get(usize::from(cpu)) {
            let socket = usize::from(places.socket(cpu));
            // It asks again, and nobody of another socket waits.
            self.join(socket, cpu, mine == self.of_socket[socket].number);
        }
    }

    fn join(&mut self, socket: usize, cpu: u16, begins: bool) {
        let turn = &mut self.of_socket[socket];
        if begins {
            *turn = Turn { number: turn.number + 1, others: self.all - turn.number };
            self.all += 1;
        }
        self.of_cpu[usize::from(cpu)] = turn.number;
    }
}
