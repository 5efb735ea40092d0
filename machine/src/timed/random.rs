//! Pseudo-random numbers: SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom
//! number generators", OOPSLA 2014).

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

const fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The state that a CPU begins with.
pub(crate) const fn start(seed: u64, cpu: u64) -> u64 {
    mix(seed.wrapping_add(STEP)) ^ mix(cpu.wrapping_add(1).wrapping_mul(STEP))
}

/// The next number.
pub(crate) const fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    mix(*state)
}
