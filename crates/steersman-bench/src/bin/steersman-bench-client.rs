//! Driver: the benchmarks' clients, with the system's allocator.

use std::process::ExitCode;

fn main() -> ExitCode {
    steersman_bench::run()
}
