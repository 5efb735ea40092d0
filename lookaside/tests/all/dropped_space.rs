//! A space that is dropped: its tables go with it where nobody can walk them, and stay where somebody may.

use core::{panic::AssertUnwindSafe, sync::atomic::AtomicU64};
use std::{panic::catch_unwind, rc::Rc};

use lookaside::{
    AddressSpace, Cpu, GlobalAsids, PerCpuAsids, Platform, Tlb,
    arch::Root,
    platform::{CpuId, Targets},
    tags::{GlobalAsidsConfig, Tags},
};
use lookaside_testkit::TestMmu;

/// What a space owns; the test has the other one.
type Tables = Rc<()>;

struct Host(TestMmu<()>);

// SAFETY: one thread is the only CPU.
unsafe impl Platform for Host {
    type Word = AtomicU64;
    type Mmu = TestMmu<()>;
    type IrqsOff = ();
    type Tables = Tables;
    type ResidentWords = [AtomicU64; 1];

    fn root(_: &Tables) -> Root {
        Root::new(4096)
    }

    fn mmu(&self) -> &TestMmu<()> {
        &self.0
    }

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }

    fn send_ipi(&self, _: Targets) {}

    fn relax(&self) {}
}

/// Calls `check` on a machine with each of the two allocators.
macro_rules! on_both {
    ($check:ident) => {
        let config = GlobalAsidsConfig { tags: 8, ..Default::default() };
        let words = Vec::leak((0..64).map(|_| AtomicU64::new(0)).collect());
        $check(GlobalAsids::new(&Host(TestMmu(())), config, words).unwrap());
        $check(PerCpuAsids::<6>::new());
    };
}

fn machine<T: Tags<Host> + 'static>(tags: T) -> Tlb<'static, Host, T> {
    let tlb = Tlb::new(Host(TestMmu(())), tags, Vec::leak(vec![Cpu::new()])).unwrap();
    tlb.online(&(), &()).unwrap();
    tlb
}

#[test]
fn a_space_that_never_ran_or_was_released_drops_its_tables() {
    fn check<T: Tags<Host> + 'static>(tags: T) {
        let (tlb, tables) = (machine(tags), Tables::default());
        drop(AddressSpace::new(&tlb, tables.clone()).unwrap());
        assert_eq!(Rc::strong_count(&tables), 1);
        let mut space = AddressSpace::new(&tlb, tables.clone()).unwrap();
        let this_cpu = tlb.this_cpu(&());
        let _ = (this_cpu.switch(&space), this_cpu.release(&mut space));
        assert_eq!(Rc::strong_count(&tables), 2);
        drop(space);
        assert_eq!(Rc::strong_count(&tables), 1);
        let taken = AddressSpace::new(&tlb, tables.clone()).unwrap().into_tables();
        assert_eq!(Rc::strong_count(&tables), 2, "taken once, dropped never");
        drop(taken);
    }
    on_both!(check);
}

#[test]
fn a_space_that_a_cpu_has_loaded_or_left_leaks_its_tables_and_says_so() {
    fn check<T: Tags<Host> + 'static>(tags: T) {
        let (tlb, tables) = (machine(tags), Tables::default());
        for (number, leave) in [false, true].into_iter().enumerate() {
            let space = AddressSpace::new(&tlb, tables.clone()).unwrap();
            let (this_cpu, id) = (tlb.this_cpu(&()), space.id());
            let _ = this_cpu.switch(&space);
            if leave {
                let _ = this_cpu.park();
            }
            let said = catch_unwind(AssertUnwindSafe(|| drop(space))).unwrap_err();
            let said = said.downcast::<String>().unwrap();
            assert_eq!(*said, format!("address space {id} is dropped and was not released"));
            assert_eq!(Rc::strong_count(&tables), 2 + number);
        }
    }
    on_both!(check);
}
