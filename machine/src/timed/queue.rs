//! The CPU that acts next: a tournament of all CPUs for the earliest time.

use super::price::Ps;

/// No time at all: the CPU waits for another one.
pub(crate) const NEVER: u64 = u64::MAX;
const CPU_BITS: u32 = 12;

/// A moment of one CPU. Keys are compared as numbers: by time, then by CPU, so that their order is
/// total and the same in every run.
#[inline]
pub(crate) const fn key(time: Ps, cpu: usize) -> u64 {
    time << CPU_BITS | cpu as u64
}

#[inline]
pub(crate) const fn time_of(key: u64) -> Ps {
    key >> CPU_BITS
}

#[inline]
pub(crate) const fn cpu_of(key: u64) -> usize {
    (key & ((1 << CPU_BITS) - 1)) as usize
}

/// The latest time that a key can have, 4503 seconds.
pub(crate) const LAST: Ps = (1 << (64 - CPU_BITS)) - 3;

/// The next moment of every CPU, and the earliest of them.
pub(crate) struct Queue {
    /// A binary tree; each node is the smaller of its two. The leaves are the CPUs.
    tree: Vec<u64>,
    leaves: usize,
}

impl Queue {
    pub(crate) fn new(cpus: usize) -> Self {
        let leaves = cpus.next_power_of_two().max(2);
        Self { tree: vec![NEVER; 2 * leaves], leaves }
    }

    #[inline]
    pub(crate) fn min(&self) -> u64 {
        self.tree[1]
    }

    #[inline]
    pub(crate) fn get(&self, cpu: usize) -> u64 {
        self.tree[self.leaves + cpu]
    }

    #[inline]
    pub(crate) fn set(&mut self, cpu: usize, key: u64) {
        let mut node = self.leaves + cpu;
        self.tree[node] = key;
        while node > 1 {
            let least = self.tree[node].min(self.tree[node ^ 1]);
            node /= 2;
            if self.tree[node] == least {
                return;
            }
            self.tree[node] = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_the_lower_number_at_one_time() {
        let mut queue = Queue::new(3);
        assert_eq!(queue.min(), NEVER);
        for cpu in 0..3 {
            queue.set(cpu, key(7, cpu));
        }
        assert_eq!(cpu_of(queue.min()), 0);
        queue.set(2, key(6, 2));
        assert_eq!((time_of(queue.min()), cpu_of(queue.min())), (6, 2));
        queue.set(2, NEVER);
        queue.set(0, NEVER);
        assert_eq!(cpu_of(queue.min()), 1);
    }
}
