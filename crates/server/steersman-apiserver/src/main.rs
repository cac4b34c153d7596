//! `steersman-apiserver`, the embedded API server as a program, for users of other languages. Called `kube-apiserver`,
//! `etcd` or `kubectl`, it takes the place of that program, with its flags.

mod program;

use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;

use clap::Parser as _;
use program::{CalledAs, Outcome, ProgramProblem, ServerFlags};
use tokio::runtime::{Builder, Runtime};

/// JSON trees are many small allocations: with mimalloc the program uses a quarter less processor time than with the
/// system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(
    clippy::print_stderr,
    reason = "a command line tool reports on the terminal"
)]
fn main() -> ExitCode {
    let (called, arguments) = CalledAs::of(std::env::args_os());
    match act(called, arguments) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("{}: {}", called.name(), program::chain(&problem));
            match called {
                // An exploration that finds something ends with 1.
                CalledAs::Explore => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn act(called: CalledAs, arguments: Vec<OsString>) -> Outcome<ExitCode> {
    match called {
        CalledAs::Kubectl => return program::run_kubectl(arguments.into_iter()),
        // The program called `etcd` waits for requests most of the time, so one thread is enough.
        CalledAs::Etcd => wait(
            Builder::new_current_thread(),
            program::run_etcd(arguments.into_iter()),
        )?,
        CalledAs::KubeApiserver => wait(
            Builder::new_multi_thread(),
            program::run_kube_apiserver(arguments.into_iter()),
        )?,
        CalledAs::Explore => return explore(arguments),
        CalledAs::Own => wait(
            Builder::new_multi_thread(),
            program::run(ServerFlags::parse_from(arguments)),
        )?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(unix)]
fn explore(arguments: Vec<OsString>) -> Outcome<ExitCode> {
    let explored = program::run_explore(program::ExploreFlags::parse_from(arguments));
    let is_clean = wait(Builder::new_multi_thread(), explored)?;
    Ok(if is_clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(not(unix))]
fn explore(_: Vec<OsString>) -> Outcome<ExitCode> {
    Err(ProgramProblem::NotHere)
}

fn wait<T>(mut builder: Builder, program: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = builder.enable_all().build();
    let runtime: Runtime = runtime.map_err(|source| ProgramProblem::Runtime { source })?;
    let outcome = runtime.block_on(program);
    // All state that must be kept is saved by now, so the program ends without waiting for other threads or tasks.
    runtime.shutdown_background();
    outcome
}
