//! The holders of each cache line.
//!
//! For every line of the arena: which CPUs have a copy, and when the move that is under way ends. A load of a
//! line that the CPU lacks costs the distance to the nearest CPU that has a copy; a write costs the
//! distance to the farthest, and takes all copies away. Writes of one line come one after the other, and
//! wait for the first load after the write before: the writer's cache hands the line out meanwhile.
//! Further loads overlap as far as [`Agents`] let them. The first CPU to touch a line has it for nothing.

use super::{
    agents::{Agents, Turns},
    model::Distance,
    places::Places,
    price::Ps,
};

/// Up to this many CPUs are kept in a list, more in a set of bits.
const FEW: usize = 6;
const NOBODY: u16 = u16::MAX;

/// A bit for each CPU.
type Bits = Box<[u64]>;

/// The CPUs that have a copy of a line.
#[derive(Clone, Debug)]
enum Holders {
    Few([u16; FEW], u8),
    Many(Bits),
}

impl Holders {
    const NONE: Self = Self::Few([0; FEW], 0);

    fn contains(&self, cpu: u16) -> bool {
        match self {
            Self::Few(list, count) => list[..usize::from(*count)].contains(&cpu),
            Self::Many(bits) => bits[usize::from(cpu) / 64] & 1 << (cpu % 64) != 0,
        }
    }

    fn add(&mut self, cpu: u16, cpus: usize, spare: &mut Option<Bits>) {
        match self {
            Self::Few(list, count) if usize::from(*count) < FEW => {
                list[usize::from(*count)] = cpu;
                *count += 1;
            }
            Self::Few(list, _) => {
                let new = || vec![0; cpus.div_ceil(64)].into_boxed_slice();
                let mut bits = spare.take().unwrap_or_else(new);
                for &cpu in list.iter().chain([&cpu]) {
                    bits[usize::from(cpu) / 64] |= 1 << (cpu % 64);
                }
                *self = Self::Many(bits);
            }
            Self::Many(bits) => bits[usize::from(cpu) / 64] |= 1 << (cpu % 64),
        }
    }

    /// How far it is from `cpu`, which has no copy, to the nearest CPU that has one.
    fn nearest(&self, places: &Places, cpu: u16) -> Distance {
        match self {
            Self::Few(list, count) => {
                let distance = |&other: &u16| places.distance(cpu, other);
                list[..usize::from(*count)].iter().map(distance).min().unwrap_or(Distance::Same)
            }
            Self::Many(bits) => places.nearest(cpu, |from, to| any(bits, from, to)),
        }
    }

    /// Keeps `cpu` alone, and calls `gone` with each of the others.
    fn replace(&mut self, cpu: u16, spare: &mut Option<Bits>, mut gone: impl FnMut(u16)) {
        match core::mem::replace(self, Self::Few([cpu, 0, 0, 0, 0, 0], 1)) {
            Self::Few(list, count) => {
                list[..usize::from(count)]
                    .iter()
                    .filter(|&&other| other != cpu)
                    .for_each(|&c| gone(c));
            }
            Self::Many(mut bits) => {
                for (i, word) in bits.iter_mut().enumerate() {
                    let mut word = core::mem::take(word);
                    while word != 0 {
                        let other = (i * 64) as u16 + word.trailing_zeros() as u16;
                        word &= word - 1;
                        if other != cpu {
                            gone(other);
                        }
                    }
                }
                *spare = Some(bits);
            }
        }
    }
}

/// Whether one of the bits `from..to` is set; those beyond the end are not.
fn any(bits: &[u64], from: u32, to: u32) -> bool {
    let to = to.min(bits.len() as u32 * 64);
    let mut from = from;
    while from < to {
        let end = to.min((from / 64 + 1) * 64);
        let mask = u64::MAX >> (64 - (end - from)) << (from % 64);
        if bits[from as usize / 64] & mask != 0 {
            return true;
        }
        from = end;
    }
    false
}

/// One cache line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    writer: u16,
    holders: Holders,
    /// A set of no CPUs, so that a line that many read does not need memory each time.
    spare: Option<Bits>,
    /// When the last write that had to move the line is over.
    busy: Ps,
    /// When the first load after it is over, for which the writer's cache hands the line out. Further
    /// loads do not wait for that, but writes do.
    handed: Ps,
    /// When all copies of it have arrived that are on their way: none can be handed on before.
    pub(crate) copied: Ps,
    /// What serves the requests for it, one after the other.
    pub(crate) agents: Agents,
    /// Which socket has had it, while several want it.
    turns: Turns,
    /// Whether the last write of it that moved it was a store, after which the CPU has not waited for it.
    stored: bool,
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
    pub(crate) const NEW: Self = Self {
        writer: NOBODY,
        holders: Holders::NONE,
        spare: None,
        busy: 0,
        handed: 0,
        copied: 0,
        agents: Agents::NEW,
        turns: Turns::NEW,
        stored: false,
        moves: 0,
        spent: 0,
    };

    /// What a load by `cpu` takes; `None` if it has the line.
    #[inline]
    pub(crate) fn read(&mut self, places: &Places, cpus: usize, cpu: u16, now: Ps) -> Option<Move> {
        if self.holders.contains(cpu) {
            return None;
        }
        let first = matches!(self.holders, Holders::Few(_, 0));
        let distance = self.holders.nearest(places, cpu);
        self.holders.add(cpu, cpus, &mut self.spare);
        if first {
            self.writer = cpu;
        }
        (!first).then(|| Move { begins: now.max(self.busy), distance })
    }

    /// What a write by `cpu` takes; `None` if it has the line alone. Calls `gone` with each CPU that
    /// loses its copy.
    #[inline]
    pub(crate) fn write(
        &mut self,
        places: &Places,
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
        let is_dirty = self.is_dirty();
        self.holders.replace(cpu, &mut self.spare, |other| {
            distance = distance.max(places.distance(cpu, other));
            gone(other);
        });
        self.writer = cpu;
        self.copied = 0;
        let asked = now.max(self.busy).max(self.handed);
        let begins = self.agents.next_write(distance, asked);
        if !matches!(distance, Distance::Remote(_)) {
            self.turns.comes_near(places, cpu);
        } else if !self.turns.comes_far(places, cpu, begins > now) && is_dirty {
            distance = places.within_socket();
        }
        Some(Move { begins, distance })
    }

    /// A write by `cpu` before those that wait for the line can have it, of whom the last is noted as its only holder:
    /// copies that others have come after its write, so that none of them sleeps yet until the line is written. Whether that
    /// can be: not where that last one has stored and gone on, as it may have read what it now would have to read again,
    /// nor where it is `cpu`.
    pub(crate) fn write_before(&mut self, cpu: u16) -> bool {
        if self.stored || self.writer == cpu {
            return false;
        }
        self.holders.replace(self.writer, &mut self.spare, |_| ());
        true
    }

    /// Notes whether the write under way is a store.
    pub(crate) fn note_store(&mut self, is_store: bool) {
        self.stored = is_store;
    }

    /// The CPU that wrote it last.
    pub(crate) const fn writer(&self) -> u16 {
        self.writer
    }

    /// Whether only the CPU that wrote it last has it.
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
    use super::{super::model::Topology, *};

    fn flat() -> Places {
        Places::new(Topology::flat(128))
    }

    #[test]
    fn accessing_a_line_already_held_costs_nothing() {
        let (mut line, flat) = (Line::NEW, flat());
        assert_eq!(line.write(&flat, 3, 0, |_| unreachable!()), None);
        assert_eq!(line.read(&flat, 128, 3, 0), None);
        let far = Move { begins: 5, distance: Distance::Cluster };
        assert_eq!(line.read(&flat, 128, 4, 5), Some(far));
        assert_eq!(line.read(&flat, 128, 4, 6), None);
        let mut gone = Vec::new();
        assert!(line.write(&flat, 3, 7, |cpu| gone.push(cpu)).is_some());
        assert_eq!(gone, [4]);
        line.busy_until(50);
        assert_eq!(line.read(&flat, 128, 4, 8).unwrap().begins, 50);
    }

    #[test]
    fn a_line_comes_from_the_nearest_copy() {
        // Two sockets with two clusters of four cores.
        let t = Topology {
            threads: 2,
            cores_per_cluster: 4,
            clusters: 2,
            sockets: 2,
            hops: crate::timed::Hops::ONE,
            nodes: 1,
        };
        let cpus = t.cpus();
        let (mut line, t) = (Line::NEW, Places::new(t));
        let read = |line: &mut Line, cpu| line.read(&t, cpus, cpu, 0).map(|moves| moves.distance);
        assert_eq!(read(&mut line, 0), None);
        assert_eq!(read(&mut line, 8), Some(Distance::Remote(1)));
        assert_eq!(read(&mut line, 12), Some(Distance::Socket));
        assert_eq!(read(&mut line, 13), Some(Distance::Cluster));
        assert_eq!(read(&mut line, 13 + 16), Some(Distance::Core));
        assert_eq!(read(&mut line, 4), Some(Distance::Socket));
        // From here on the holders are a set of bits.
        assert_eq!(read(&mut line, 5), Some(Distance::Cluster));
        assert_eq!(read(&mut line, 5 + 16), Some(Distance::Core));
        assert_eq!(read(&mut line, 9), Some(Distance::Cluster));
        let moves = line.write(&t, 0, 0, |_| ()).unwrap();
        assert_eq!(moves.distance, Distance::Remote(1));
    }

    #[test]
    fn a_line_that_many_have_is_taken_from_all() {
        let (mut line, flat) = (Line::NEW, flat());
        for cpu in 0..100 {
            let _ = line.read(&flat, 128, cpu, 0);
        }
        let mut gone = Vec::new();
        assert!(line.write(&flat, 50, 0, |cpu| gone.push(cpu)).is_some());
        assert_eq!(gone.len(), 99);
        assert!(line.is_held_by(50) && !line.is_held_by(51));
    }
}
