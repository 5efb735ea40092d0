//! What serves the requests for a cache line: one after the other.
//!
//! Requests for one line meet where its state is kept: in the home of the line (a slice of the last-level cache with
//! its directory), and for a line of which the cluster has a copy in the cache that the cluster shares. Each request
//! occupies it for [`Price::LineService`](super::Price::LineService). So loads by many CPUs of a line that was
//! written wait for each other, although the line itself travels to all of them at the same time. What the other
//! hardware thread of the core has needs no request.

use super::{model::Distance, price::Ps};

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
            Distance::Cluster | Distance::Socket | Distance::Remote => self.home.next(at),
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
