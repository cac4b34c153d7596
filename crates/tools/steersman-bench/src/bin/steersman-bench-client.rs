//! Driver: the clients of the benchmarks, with the system's allocator.

use std::process::ExitCode;

fn main() -> ExitCode {
    steersman_bench::run()
}
