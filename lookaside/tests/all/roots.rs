//! A top table for each CPU: which roots are refused, which one a CPU loads, and which one an NMI finds loaded.

use core::{
    cell::{Cell, RefCell},
    sync::atomic::AtomicU64,
};

use lookaside::{
    AddressSpace, Cpu, Error, GlobalAsids, Platform, Tlb,
    arch::{Held, Properties, Root, Sharing, Tag},
    platform::{CpuId, Targets, Word},
    tags::GlobalAsidsConfig,
};
use lookaside_testkit::{COSTS, Hardware, TestMmu};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// The highest table that fits the root register.
const HIGHEST: u64 = 0xffff_f000;

/// Hardware that records the tables it is told to load.
struct Recording {
    sharing: Sharing,
    user_tables: Cell<bool>,
    loads: RefCell<Vec<u64>>,
}

impl Hardware for Recording {
    fn properties(&self) -> Properties {
        let has_user_tables = self.user_tables.get();
        let plain = Properties::plain(12, &COSTS);
        Properties { sharing: self.sharing, broadcasts: true, has_user_tables, ..plain }
    }

    fn check_root(&self, root: Root) -> Result<(), Error> {
        if root.table > HIGHEST { Err(Error::BadRoot { address: root.table }) } else { Ok(()) }
    }

    fn load(&self, root: Root, _: Tag, _: Held) {
        self.loads.borrow_mut().push(root.table);
    }
}

struct Host(TestMmu<Recording>);

// SAFETY: there is one thread, which is one CPU at a time; nothing is mapped by these roots, and nothing runs there.
unsafe impl Platform for Host {
    type Word = AtomicU64;
    type Mmu = TestMmu<Recording>;
    type IrqsOff = ();
    /// The top table of each CPU.
    type Tables = [u64; 2];
    type ResidentWords = [AtomicU64; 1];

    fn root(tables: &[u64; 2]) -> Root {
        Root::new(tables[0])
    }

    fn root_on(tables: &[u64; 2], cpu: CpuId) -> Root {
        Root::new(tables[cpu.index()])
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &TestMmu<Recording> {
        &self.0
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn send_ipi(&self, _: Targets) {}
}

type Machine = Tlb<'static, Host, GlobalAsids<'static, Host>>;

fn machine(sharing: Sharing) -> Machine {
    let (user_tables, loads) = Default::default();
    let host = Host(TestMmu(Recording { sharing, user_tables, loads }));
    let config = GlobalAsidsConfig { tags: 64, ..GlobalAsidsConfig::default() };
    let words = (0..GlobalAsids::<Host>::words_for(64)).map(|_| AtomicU64::ZERO).collect();
    let tags = GlobalAsids::new(&host, config, Vec::leak(words)).unwrap();
    let tlb = Tlb::new(host, tags, Vec::leak(vec![Cpu::new(), Cpu::new()])).unwrap();
    for cpu in 0..2 {
        CPU.set(cpu);
        tlb.online(&(), &()).unwrap();
    }
    tlb
}

fn space(tlb: &Machine, tables: [u64; 2]) -> Result<AddressSpace<Host>, Error> {
    tlb.space(tables, [AtomicU64::ZERO])
}

#[test]
fn each_cpu_loads_its_own_root() {
    let tlb = machine(Sharing::Private);
    let [a, b] = [[0x1000, 0x2000], [0x3000, 0x4000]].map(|tables| space(&tlb, tables).unwrap());
    assert_eq!((a.root(), a.root_on(CpuId(1))), (Root::new(0x1000), Root::new(0x2000)));
    for cpu in [0, 1] {
        CPU.set(cpu);
        tlb.platform().mmu().0.loads.take();
        // The first switch to a space finds it a tag; the second takes the fast path.
        for next in [&a, &b, &a, &b] {
            let _ = tlb.this_cpu(&()).switch(next);
        }
        let own = [a.root_on(CpuId(cpu)).table, b.root_on(CpuId(cpu)).table];
        assert_eq!(tlb.platform().mmu().0.loads.take(), [own, own].concat(), "CPU {cpu}");
    }
}

#[test]
fn an_nmi_may_touch_user_memory_under_the_root_of_its_cpu() {
    let tlb = machine(Sharing::Private);
    let a = space(&tlb, [0x1000, 0x2000]).unwrap();
    CPU.set(1);
    let _ = tlb.this_cpu(&()).switch(&a);
    assert!(tlb.nmi_uaccess_okay(&a));
}

#[test]
fn the_root_of_every_cpu_is_checked() {
    let tlb = machine(Sharing::Private);
    let address = HIGHEST + 0x1000;
    assert_eq!(space(&tlb, [0x1000, address]).err(), Some(Error::BadRoot { address }));
    assert_eq!(space(&tlb, [address, 0x1000]).err(), Some(Error::BadRoot { address }));
}

#[test]
fn cpus_that_share_translations_have_the_same_root() {
    let tlb = machine(Sharing::Shared);
    assert!(space(&tlb, [0x1000, 0x1000]).is_ok());
    assert!(matches!(space(&tlb, [0x1000, 0x2000]), Err(Error::Unsupported(_))));
}

#[test]
fn user_mode_does_not_run_on_the_kernels_table_where_it_is_to_have_its_own() {
    let tlb = machine(Sharing::Private);
    tlb.platform().mmu().0.user_tables.set(true);
    assert_eq!(space(&tlb, [0x1000; 2]).err(), Some(Error::BadRoot { address: 0x1000 }));
}
