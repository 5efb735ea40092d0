//! What the kernel recorded beside what the model counts.
