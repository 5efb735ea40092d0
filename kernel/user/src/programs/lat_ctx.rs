//! The context switch benchmark's shape: twenty processes in a ring, and a token that goes around.

use crate::{Program, println, report::Report, system};

const PROCESSES: usize = 20;
const LAPS: usize = 100;

pub(crate) fn main(_: usize) -> u8 {
    let report = Report::start();
    // Pipe i leads to process i. This one is process 0.
    let pipes: [_; PROCESSES] = core::array::from_fn(|_| system::pipe().expect("a pipe"));
    let nodes: [_; PROCESSES - 1] = core::array::from_fn(|i| {
        let (from, to) = (pipes[i + 1], pipes[(i + 2) % PROCESSES]);
        system::spawn(Program::Node, from << 32 | to).expect("a node")
    });
    let mut token = 0;
    for _ in 0..LAPS {
        system::send(pipes[1], token + 1).expect("the ring is open");
        let back = system::receive(pipes[0]).expect("the ring is open");
        assert!(back == token + PROCESSES as u64, "the token was {token} and came back as {back}");
        token = back;
    }
    for pipe in pipes {
        system::close(pipe).expect("it is open");
    }
    for node in nodes {
        assert!(system::wait(node) == Ok(0), "a node failed");
    }
    report.end("lat_ctx", format_args!("{token} passes"));
    0
}

/// Passes the token on, until the ring is closed.
pub(crate) fn node(pipes: usize) -> u8 {
    let (from, to) = (pipes >> 32, pipes & 0xffff_ffff);
    while let Ok(token) = system::receive(from) {
        if let Err(error) = system::send(to, token + 1) {
            println!("a node could not pass {token} on: {error:?}");
            return 1;
        }
    }
    0
}
