//! Two processes that wake each other, as over an eventfd, and touch pages in between. Both have
//! theirs at the same addresses: only tags keep them apart.

use super::hunters::Stamp;
use crate::{Program, memory::Area, println, report::Report, system, system::Kind};

/// How many pages are touched, and how often.
const GAMES: [(usize, u32); 3] = [(0, 200), (64, 50), (512, 8)];
const PING: u16 = 4;
const PONG: u16 = 5;

pub(crate) fn main(_: usize) -> u8 {
    let report = Report::start();
    let mut exchanges = 0;
    for (pages, rounds) in GAMES {
        // On one CPU they switch; on two they wake each other across.
        for cpu in [0, 1 % system::cpus()] {
            exchanges += play(pages, rounds, cpu);
        }
    }
    report.end("ping_pong", format_args!("{exchanges} exchanges"));
    0
}

fn play(pages: usize, rounds: u32, cpu: usize) -> u32 {
    system::run_on(cpu);
    let area = Area::map(pages.max(1), Kind::Pages).expect("memory");
    let (ping, pong) = (system::pipe().expect("a pipe"), system::pipe().expect("a pipe"));
    let partner = system::spawn(Program::Pong, ping << 32 | pong).expect("a partner");
    for value in [area.start, pages] {
        system::send(ping, value as u64).expect("the partner listens");
    }
    for round in 1..=rounds {
        touch(area, pages, PING, round);
        system::send(ping, round.into()).expect("the partner listens");
        assert_eq!(system::receive(pong), Ok(round.into()), "the partner counts along");
    }
    for pipe in [ping, pong] {
        system::close(pipe).expect("it is open");
    }
    assert!(system::wait(partner) == Ok(0), "the partner failed");
    area.unmap();
    rounds
}

/// The partner.
pub(crate) fn pong(pipes: usize) -> u8 {
    let (ping, pong) = (pipes >> 32, pipes & 0xffff_ffff);
    system::run_on(0);
    let (Ok(start), Ok(pages)) = (system::receive(ping), system::receive(ping)) else {
        println!("a partner was not told where to play");
        return 1;
    };
    let (start, pages) = (start as usize, pages as usize);
    let area = Area::map_at(start, pages.max(1), Kind::Pages)
        .or_else(|_| Area::map(pages.max(1), Kind::Pages))
        .expect("memory");
    while let Ok(round) = system::receive(ping) {
        touch(area, pages, PONG, round as u32);
        if system::send(pong, round).is_err() {
            break;
        }
    }
    0
}

/// Writes to each page, which must hold what was written in the round before.
fn touch(area: Area, pages: usize, owner: u16, round: u32) {
    for page in 0..pages {
        let word = area.word(page, page % 512);
        let found = Stamp::load(word);
        let right =
            if round == 1 { found.is_zero() } else { found == Stamp::new(round - 1, owner, page) };
        assert!(right, "STALE: in round {round} page {page} of {owner} holds {found:?}");
        Stamp::new(round, owner, page).store(word);
    }
}
