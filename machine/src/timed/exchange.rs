//! Compare-exchanges of a line that many CPUs want.
//!
//! One that fails has brought the line. The next request for it has to reach this CPU first, and an atomic within that time,
//! such as a second attempt, finds the line here, although by the order of requests it is another CPU's already. So a loop of
//! compare-exchanges succeeds at its second attempt, and N CPUs take moves in proportion to N.

use super::machine::Machine;

impl Machine {
    /// Whether the CPU that runs still has a line that came for a compare-exchange which failed. Others may wait for it
    /// and be noted as its holders by now: the line is with this CPU until the request of the next has come half of
    /// the way between the two.
    #[inline]
    pub(super) fn has_arrived(&self, line: usize) -> bool {
        let cpu = &self.cpus[self.running];
        cpu.arrived.failed && cpu.arrived.line == line && cpu.now <= cpu.arrived.until
    }

    /// Whether an atomic of the CPU that runs finds the line here, though others wait for it, and comes before theirs.
    #[inline]
    pub(super) fn comes_before(&mut self, line: usize) -> bool {
        let here = self.has_arrived(line) && self.lines[line].write_before(self.running as u16);
        self.cpu().arrived.failed = false;
        here
    }

    /// Notes that a compare-exchange by the CPU that runs has failed, which has brought the line.
    pub(crate) fn note_failure(&mut self, line: usize) {
        let arrived = &mut self.cpu().arrived;
        arrived.failed = arrived.line == line;
    }
}
