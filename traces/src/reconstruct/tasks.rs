//! Threads, the processes that they belong to, and the spaces that they use.

use std::collections::{BTreeSet, HashMap};

use crate::{
    Call, NameId, Pages, Trace,
    reconstruct::{
        frames::{Frames, NO_FRAME},
        linux::{Gathers, Other, Written},
        memory::Memory,
    },
};

/// With how many others a space is believed to share a page of which nothing is known.
const KIN: usize = 8;

/// A thread.
#[derive(Debug)]
pub(super) struct Task {
    /// Its process, by place in [`Tasks::processes`].
    pub(super) process: usize,
    /// Its space, by place in [`Tasks::spaces`]; none for the kernel's own, and for what ends.
    pub(super) space: Option<u32>,
    /// The system call that it is in.
    pub(super) call: Option<Open>,
    /// The page and the time of the fault that it took last, if nothing else happened since.
    pub(super) fault: Option<(u64, u64)>,
    /// Whether that fault brought a page, which flushes nothing.
    pub(super) brings: bool,
    /// The function of its program that called the kernel, where known; and whether nothing was done by it yet.
    pub(super) caller: Option<NameId>,
    pub(super) called: bool,
    /// Whether it told others of a flush, and did not yet do it itself.
    pub(super) told: bool,
    /// Whether it is between its turn to another program and the event that says so.
    pub(super) executing: bool,
    /// Whether it ends.
    pub(super) ending: bool,
    /// The space that it was the last to use, and whose pages it has not freed yet.
    pub(super) frees: Option<Frees>,
}

/// A space whose pages are being freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frees {
    pub(super) space: u32,
    /// How many flushes are still to come before the one with which its page tables go.
    pub(super) before: u32,
    /// Whether others were told of one of its flushes.
    pub(super) told: bool,
}

/// A system call that did not return yet.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) call: Call,
    pub(super) arguments: [u64; 5],
    /// What it writes back.
    pub(super) written: Written,
    /// Whether it waits for others to end theirs.
    pub(super) waits: bool,
    /// Where and when it went about its work: when it began, or when its thread slept last and came back.
    pub(super) began: (u16, u64),
    /// Whether its thread sleeps, or came back from that only now.
    pub(super) slept: bool,
    /// When its thread lost the CPU since, though it could have gone on.
    pub(super) stopped: Option<u64>,
    /// The recorded flushes in it: by CPU and place among its steps, with what the kernel said.
    pub(super) flushes: Vec<(u16, usize, Pages)>,
    /// Where and when the kernel said that it flushes, where flushes follow from calls.
    pub(super) times: Vec<(u16, u64)>,
    /// Whether others gathered at the latest of them.
    pub(super) crowded: bool,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) name: NameId,
    /// Its first thread, whose name is its own.
    pub(super) leader: u32,
}

/// A space.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) name: Option<NameId>,
    /// The spaces with which it shares numbers of pages, by place in the list of them.
    pub(super) family: u32,
    pub(super) memory: Memory,
    /// How many threads use it, and how many did at most.
    pub(super) users: u32,
    pub(super) most: u32,
    /// Whether a thread ran in it of which everything was recorded.
    pub(super) recorded: bool,
    /// As [`Space::older`](super::Space::older).
    pub(super) older: bool,
    /// Whether the kernel was seen to take pages of it away by itself.
    pub(super) paged_out: bool,
    /// Whether it was since a call last flushed for that.
    pub(super) batched: bool,
    /// The CPUs that may hold translations of it: that ran it since page tables of it were last freed.
    pub(super) cpus: BTreeSet<u16>,
    /// How many threads are in calls that gather pages: alone, beside others.
    pub(super) gathering: [u32; 2],
}

impl State {
    /// A thread begins or ends a call that gathers pages.
    pub(super) fn gather(&mut self, how: Gathers, begins: bool) {
        let count = match how {
            Gathers::No => return,
            Gathers::Alone => &mut self.gathering[0],
            Gathers::Beside => &mut self.gathering[1],
        };
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
    }

    /// Whether a thread that ends such a call meets another in the middle of one.
    pub(super) fn crowded(&self, how: Gathers) -> bool {
        match how {
            Gathers::No => false,
            Gathers::Alone => self.gathering[1] > 0,
            Gathers::Beside => self.gathering[0] > 0 || self.gathering[1] > 1,
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub(super) tasks: HashMap<u32, Task>,
    pub(super) processes: Vec<Process>,
    pub(super) spaces: Vec<State>,
    /// The spaces of each family that did not end.
    pub(super) families: Vec<Vec<u32>>,
    pub(super) frames: Frames,
}

impl Tasks {
    /// Whether threads of several processes use a space, as after `vfork`: then its descriptors are not those of all of them.
    pub(super) fn is_borrowed(&self, space: u32) -> bool {
        let mut users = self.tasks.values().filter(|task| task.space == Some(space));
        let first = users.next().map(|task| task.process);
        users.any(|task| Some(task.process) != first)
    }

    /// Those that were there when the trace began.
    pub(super) fn first(trace: &Trace) -> Self {
        let mut tasks = Self::default();
        let mut processes: HashMap<u32, usize> = HashMap::new();
        for task in trace.tasks.iter().filter(|task| task.id != 0) {
            let process = *processes.entry(task.process).or_insert_with(|| {
                let name = task.name;
                tasks.processes.push(Process { name, leader: task.process });
                tasks.processes.len() - 1
            });
            if task.id == task.process {
                tasks.processes[process].name = task.name;
            }
        }
        let mut spaces: HashMap<usize, u32> = HashMap::new();
        for task in trace.tasks.iter().filter(|task| task.id != 0) {
            let process = processes[&task.process];
            let space = (!task.kernel).then(|| {
                *spaces.entry(process).or_insert_with(|| {
                    let name = tasks.processes[process].name;
                    tasks.older_space(name)
                })
            });
            tasks.add(task.id, process, space);
        }
        tasks
    }

    /// A thread comes to be. Nobody has its number.
    pub(super) fn add(&mut self, id: u32, process: usize, space: Option<u32>) {
        self.enter(space);
        let (call, fault, told) = (None, None, false);
        let task = Task {
            process,
            space,
            call,
            fault,
            brings: false,
            told,
            executing: false,
            ending: false,
            frees: None,
            caller: None,
            called: false,
        };
        self.tasks.insert(id, task);
    }

    /// A thread that nobody introduced, in a process and, if it is a program, a space of its own.
    pub(super) fn stranger(&mut self, id: u32, name: NameId, program: bool) {
        self.processes.push(Process { name, leader: id });
        let space = program.then(|| self.older_space(name));
        self.add(id, self.processes.len() - 1, space);
    }

    /// A space that nobody saw begin.
    fn older_space(&mut self, name: NameId) -> u32 {
        let space = self.family_and_space(name, Memory::default());
        self.spaces[space as usize].older = true;
        space
    }

    /// A space in a new family.
    pub(super) fn family_and_space(&mut self, name: NameId, memory: Memory) -> u32 {
        self.families.push(Vec::new());
        self.space(name, (self.families.len() - 1) as u32, memory)
    }

    /// A space.
    pub(super) fn space(&mut self, name: NameId, family: u32, memory: Memory) -> u32 {
        self.spaces.push(State { name: Some(name), family, memory, ..State::default() });
        let space = (self.spaces.len() - 1) as u32;
        self.families[family as usize].push(space);
        space
    }

    /// The page of that space was there before anything was known of it. If it may be the same page
    /// in spaces that forks made, they share it.
    pub(super) fn find_shared(&mut self, space: u32, page: u64) {
        let Self { spaces, families, frames, .. } = self;
        if !spaces[space as usize].memory.may_share(page) {
            return;
        }
        let family = &families[spaces[space as usize].family as usize];
        let mut frame = NO_FRAME;
        let kin = family.iter().filter(|kin| **kin != space).rev().take(KIN);
        for &kin in kin {
            let memory = &mut spaces[kin as usize].memory;
            if memory.may_share(page) {
                frame = frames.share(frame);
                memory.share(page, frame);
            }
        }
        if frame != NO_FRAME {
            spaces[space as usize].memory.share(page, frame);
        }
    }

    /// What a call of that space, on that CPU, writes back.
    pub(super) fn write_back(
        &mut self,
        space: u32,
        cpu: u16,
        call: Call,
        arguments: &[u64; 5],
    ) -> Written {
        let Self { spaces, families, .. } = self;
        let state = &mut spaces[space as usize];
        let mut written = state.memory.write_back(call, arguments);
        let family = &families[state.family as usize];
        for &kin in family.iter().filter(|kin| **kin != space).rev().take(KIN) {
            let State { memory, cpus, .. } = &mut spaces[kin as usize];
            let said = cpus.iter().any(|&other| other != cpu);
            written.add(Other { space: kin, said }, memory);
        }
        written
    }

    /// One more thread uses a space.
    pub(super) fn enter(&mut self, space: Option<u32>) {
        if let Some(space) = space {
            let state = &mut self.spaces[space as usize];
            state.users += 1;
            state.most = state.most.max(state.users);
        }
    }

    /// One thread less uses a space. Says whether it was the last.
    pub(super) fn leave(&mut self, space: Option<u32>) -> bool {
        let Some(space) = space else { return false };
        let users = &mut self.spaces[space as usize].users;
        *users = users.saturating_sub(1);
        *users == 0
    }

    /// The pages of a space that nobody uses are freed. Until then others share them.
    pub(super) fn free(&mut self, space: u32) {
        let state = &mut self.spaces[space as usize];
        state.memory.end(&mut self.frames);
        self.families[state.family as usize].retain(|kin| *kin != space);
    }

    /// The name of the process of a thread.
    pub(super) fn name(&self, task: u32) -> Option<NameId> {
        Some(self.processes[self.tasks.get(&task)?.process].name)
    }
}
