//! What a machine charges for.

/// A time, or a length of time, in picoseconds.
pub type Ps = u64;

super::keyed::keyed! {
    /// One thing that takes time. Every picosecond that a simulated CPU spends in hardware is one of
    /// these, or a wait for another CPU.
    Price
    /// A load or a store of a word whose cache line this CPU has.
    Hit = "hit",
    /// An atomic read-modify-write of a word whose cache line this CPU has alone.
    Atomic = "atomic",
    /// A full fence, when there is nothing to wait for.
    Fence = "fence",
    /// A cache line that another hardware thread of the core has.
    LineThread = "line_thread",
    /// A cache line that another core of the cluster has.
    LineCluster = "line_cluster",
    /// A cache line that another cluster of the socket has.
    LineSocket = "line_socket",
    /// A cache line that another socket has.
    LineRemote = "line_remote",
    /// What each link between sockets after the first adds to the way of a cache line or an interrupt.
    Hop = "hop",
    /// What each nanosecond of a CPU's own instructions takes in addition while another hardware thread of
    /// its core executes instructions too.
    Sibling = "sibling",
    /// How long one request for a cache line occupies what serves the requests for it: one at a time.
    LineService = "line_service",
    /// A translation that the first level of the TLB lacks and the second has.
    SecondLevel = "second_level",
    /// A walk whose upper levels are cached.
    Walk = "walk",
    /// What a walk takes in addition whose upper levels are not cached.
    WalkUpper = "walk_upper",
    /// A write of the root register that keeps what is held.
    Root = "root",
    /// A write of the root register that removes what is held under its tag (x86).
    RootFlush = "root_flush",
    /// An invalidation by address, on this CPU.
    FlushPage = "flush_page",
    /// An invalidation by address of a tag that the root register does not name (x86).
    FlushOtherPage = "flush_other_page",
    /// An invalidation of one tag, on this CPU.
    FlushTag = "flush_tag",
    /// An invalidation of every tag, on this CPU.
    FlushAll = "flush_all",
    /// An invalidation of everything, global entries too, on this CPU.
    FlushGlobal = "flush_global",
    /// A barrier that has nothing to wait for.
    Barrier = "barrier",
    /// To issue an invalidation that is broadcast.
    BroadcastIssue = "broadcast_issue",
    /// How long one broadcast invalidation occupies the interconnect of one node.
    FabricOperation = "fabric_operation",
    /// How long the wait for broadcasts occupies the interconnect of one node: one at a time.
    FabricSync = "fabric_sync",
    /// How long a broadcast takes to complete when there is no other.
    FabricLatency = "fabric_latency",
    /// What each node beyond the first adds to the occupation by one wait.
    FabricRemote = "fabric_remote",
    /// What a broadcast takes from each CPU that receives it.
    FabricVictim = "fabric_victim",
    /// To send an interrupt to one CPU, or to one group.
    InterruptSend = "interrupt_send",
    /// From the sender to the CPU, within a socket.
    InterruptDeliver = "interrupt_deliver",
    /// From the sender to the CPU, across sockets.
    InterruptDeliverRemote = "interrupt_deliver_remote",
    /// From the arrival of an interrupt to the first instruction of its handler.
    InterruptEntry = "interrupt_entry",
    /// From the last instruction of a handler to the program.
    InterruptExit = "interrupt_exit",
    /// A call of the firmware (RISC-V).
    Firmware = "firmware",
}

/// A price for each [`Price`], where one is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    known: [Option<Ps>; Price::ALL.len()],
}

impl Default for Prices {
    fn default() -> Self {
        Self { known: [None; Price::ALL.len()] }
    }
}

impl Prices {
    /// No prices: everything is for nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more price, in picoseconds.
    #[must_use]
    pub fn with(mut self, price: Price, value: Ps) -> Self {
        self.set(price, value);
        self
    }

    /// Sets a price, in picoseconds.
    pub fn set(&mut self, price: Price, value: Ps) {
        self.known[price as usize] = Some(value);
    }

    /// A price in picoseconds, if it is known.
    #[must_use]
    pub fn get(&self, price: Price) -> Option<Ps> {
        self.known[price as usize]
    }

    /// What to charge: nothing for what has no known price. The code that sets a machine up knows that
    /// such a thing is then part of something else that was measured with it, or of nothing.
    #[must_use]
    #[inline]
    pub fn charge(&self, price: Price) -> Ps {
        self.known[price as usize].unwrap_or(0)
    }
}
