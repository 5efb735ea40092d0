//! Who has which cache line.
//!
//! For every line of the arena: who wrote it last, who has a copy, and when the move that is under
//! way ends. A load of a line that the CPU lacks costs the distance to whoever wrote it; a write
//! costs the distance to the farthest CPU that has a copy, and takes all copies away. Writes of one
//! line come one after the other, and wait for the first load after the write before: the cache of who
//! wrote hands the line out meanwhile. Further loads overlap. The first CPU to touch a line has it for
//! nothing.

use super::{
    model::{Distance, Topology},
    price::Ps,
};

/// Up to this many CPUs are kept in a list, more in a set of bits.
const FEW: usize = 6;
const NOBODY: u16 = u16::MAX;

/// The CPUs that have a copy of a line.
#[derive(Clone, Debug)]
enum Holders {
    Few([u16; FEW], u8),
    Many(Box<[u64]>),
}

impl Holders {
    const NONE: Self = Self::Few([0; FEW], 0);

    fn contains(&self, cpu: u16) -> bool {
        match self {
            Self::Few(list, count) => list[..usize::from(*count)].contains(&cpu),
            Self::Many(bits) => bits[usize::from(cpu) / 64] & 1 << (cpu % 64) != 0,
        }
    }

    fn add(&mut self, cpu: u16, cpus: usize) {
        match self {
            Self::Few(list, count) if usize::from(*count) < FEW => {
                list[usize::from(*count)] = cpu;
                *count += 1;
            }
            Self::Few(list, _) => {
                let mut bits = vec![0; cpus.div_ceil(64)].into_boxed_slice();
                for &cpu in list.iter().chain([&cpu]) {
                    bits[usize::from(cpu) / 64] |= 1 << (cpu % 64);
                }
                *self = Self::Many(bits);
            }
            Self::Many(bits) => bits[usize::from(cpu) / 64] |= 1 << (cpu % 64),
        }
    }

    /// Keeps `cpu` alone, and calls `gone` with each of the others.
    fn replace(&mut self, cpu: u16, mut gone: impl FnMut(u16)) {
        match core::mem::replace(self, Self::Few([cpu, 0, 0, 0, 0, 0], 1)) {
            Self::Few(list, count) => {
                list[..usize::from(count)]
                    .iter()
                    .filter(|&&other| other != cpu)
                    .for_each(|&c| gone(c));
            }
            Self::Many(bits) => {
                for (i, &word) in bits.iter().enumerate() {
                    let mut word = word;
                    while word != 0 {
                        let other = (i * 64) as u16 + word.trailing_zeros() as u16;
                        word &= word - 1;
                        if other != cpu {
                            gone(other);
                        }
                    }
                }
            }
        }
    }
}

/// One cache line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    writer: u16,
    holders: Holders,
    /// When the last write that had to move the line is over.
    busy: Ps,
    /// When the first load after it is over, for which the writer's cache hands the line out. Further
    /// loads do not wait for that, but writes do.
    handed: Ps,
    /// How often it has moved.
    pub(crate) moves: u64,
    /// How long CPUs have waited for it, while it moved or others moved it.
    pub(crate) spent: Ps,
}

/// What it takes to get a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    /// When the line is free to move.
    pub(crate) begins: Ps,
    /// From where it comes, or from where the farthest copy is taken away.
    pub(crate) distance: Distance,
}

impl Line {
    pub(crate) const NEW: Self =
        Self { writer: NOBODY, holders: Holders::NONE, busy: 0, handed: 0, moves: 0, spent: 0 };

    /// What a load by `cpu` takes; `None` if it has the line.
    #[inline]
    pub(crate) fn read(
        &mut self,
        topology: &Topology,
        cpus: usize,
        cpu: u16,
        now: Ps,
    ) -> Option<Move> {
        if self.holders.contains(cpu) {
            return None;
        }
        let first = matches!(self.holders, Holders::Few(_, 0));
        self.holders.add(cpu, cpus);
        if first {
            self.writer = cpu;
            return None;
        }
        let distance = topology.distance(cpu.into(), self.writer.into());
        Some(Move { begins: now.max(self.busy), distance })
    }

    /// What a write by `cpu` takes; `None` if it has the line alone. Calls `gone` with each CPU that
    /// loses its copy.
    #[inline]
    pub(crate) fn write(
        &mut self,
        topology: &Topology,
        cpu: u16,
        now: Ps,
        mut gone: impl FnMut(u16),
    ) -> Option<Move> {
        if let Holders::Few(list, count @ (0 | 1)) = &mut self.holders
            && (*count == 0 || list[0] == cpu)
        {
            *count = 1;
            list[0] = cpu;
            self.writer = cpu;
            return None;
        }
        let mut distance = Distance::Same;
        self.holders.replace(cpu, |other| {
            distance = distance.max(topology.distance(cpu.into(), other.into()));
            gone(other);
        });
        self.writer = cpu;
        Some(Move { begins: now.max(self.busy).max(self.handed), distance })
    }

    /// Who wrote it last.
    pub(crate) const fn writer(&self) -> u16 {
        self.writer
    }

    /// Whether only whoever wrote it last has it.
    pub(crate) const fn is_dirty(&self) -> bool {
        matches!(self.holders, Holders::Few(_, 1))
    }

    /// Notes when the first load after a write is over.
    pub(crate) fn handed_at(&mut self, time: Ps) {
        self.handed = time;
    }

    /// When the writes under way are over.
    pub(crate) const fn free(&self) -> Ps {
        self.busy
    }

    /// Notes when the write that moves the line is over.
    pub(crate) fn busy_until(&mut self, time: Ps) {
        self.busy = time;
    }

    /// Whether `cpu` has a copy.
    pub(crate) fn is_held_by(&self, cpu: u16) -> bool {
        self.holders.contains(cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAT: Topology = Topology::flat(128);

    #[test]
    fn who_has_a_line_pays_nothing() {
        let mut line = Line::NEW;
        assert_eq!(line.write(&FLAT, 3, 0, |_| unreachable!()), None);
        assert_eq!(line.read(&FLAT, 128, 3, 0), None);
        let far = Move { begins: 5, distance: Distance::Cluster };
        assert_eq!(line.read(&FLAT, 128, 4, 5), Some(far));
        assert_eq!(line.read(&FLAT, 128, 4, 6), None);
        let mut gone = Vec::new();
        assert!(line.write(&FLAT, 3, 7, |cpu| gone.push(cpu)).is_some());
        assert_eq!(gone, [4]);
        line.busy_until(50);
        assert_eq!(line.read(&FLAT, 128, 4, 8).unwrap().begins, 50);
    }

    #[test]
    fn a_line_that_many_have_is_taken_from_all() {
        let mut line = Line::NEW;
        for cpu in 0..100 {
            let _ = line.read(&FLAT, 128, cpu, 0);
        }
        let mut gone = Vec::new();
        assert!(line.write(&FLAT, 50, 0, |cpu| gone.push(cpu)).is_some());
        assert_eq!(gone.len(), 99);
        assert!(line.is_held_by(50) && !line.is_held_by(51));
    }
}
