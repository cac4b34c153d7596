//! Driver: the benchmarks, with the allocator of the program `steersman-apiserver`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    steersman_bench::run()
}
