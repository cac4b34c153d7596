//! `cargo steersman`: makes operators, runs them while they are written, and generates their manifests.

fn main() {}
