//! Driver: starts this program as another process, and reads process statistics of the operating system.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::time::ClockId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The result of a benchmark step; an error ends the benchmark.
pub type BenchResult<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A process of this program with a role. A drop kills the process.
pub(crate) struct Actor {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Actor {
    pub(crate) fn start(role: &impl Serialize) -> BenchResult<Self> {
        Self::of(&std::env::current_exe()?, "role", role)
    }

    /// Starts a client of cache measurements, with the system's allocator.
    pub(crate) fn client(role: &impl Serialize) -> BenchResult<Self> {
        Self::of(&client_program()?, "client", role)
    }

    fn of(program: &Path, part: &str, role: &impl Serialize) -> BenchResult<Self> {
        let mut child = Command::new(program)
            .arg(part)
            .arg(serde_json::to_string(role)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().ok_or("no standard input")?;
        let output = child.stdout.take().ok_or("no standard output")?;
        Ok(Self {
            child,
            input,
            lines: BufReader::new(output).lines(),
        })
    }

    /// Reads the next line of its output as JSON.
    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> BenchResult<T> {
        let line = self.lines.next_line().await?;
        let line = line.ok_or("a process of the benchmark ended before its time")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Sends an order as a line of JSON, and reads the response.
    pub(crate) async fn request<T: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
    ) -> BenchResult<T> {
        self.input.write_all(&serde_json::to_vec(order)?).await?;
        self.input.write_all(b"\n").await?;
        self.receive().await
    }

    /// Reads the only line of its output, and waits until the process ends.
    pub(crate) async fn report<T: DeserializeOwned>(mut self) -> BenchResult<T> {
        let report = self.receive().await?;
        self.end().await?;
        Ok(report)
    }

    /// Waits until the process ends.
    pub(crate) async fn end(mut self) -> BenchResult<()> {
        drop(self.input);
        let status = self.child.wait().await?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("a process of the benchmark ended with {status}").into())
        }
    }
}

/// Returns the path of the program with the system's allocator.
pub(crate) fn client_program() -> BenchResult<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.with_file_name(format!("steersman-bench-client{EXE_SUFFIX}"));
    if !program.exists() {
        let program = program.display();
        return Err(format!("{program} is missing: build all of steersman-bench").into());
    }
    Ok(program)
}

/// Measures several times, and prints the number of each run to the terminal.
pub(crate) async fn repeat<T>(
    runs: u32,
    what: impl std::fmt::Display,
    mut measure: impl AsyncFnMut() -> BenchResult<T>,
) -> BenchResult<Vec<T>> {
    let mut measured = Vec::new();
    for run in 1..=runs {
        progress(format_args!("{what}, run {run} of {runs}"));
        measured.push(measure().await?);
    }
    Ok(measured)
}

pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    // Not negative, because it counts from the start of the process.
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the current and the peak resident memory of this process, in bytes.
pub(crate) fn memory() -> BenchResult<(u64, u64)> {
    let read = |field| kilobytes_of("self", "status", field).map(|kilobytes| kilobytes * 1024);
    Ok((read("VmRSS:")?, read("VmHWM:")?))
}

/// Returns a figure of the memory of another process in megabytes, from a file in its folder of `/proc`.
pub(crate) fn megabytes_of(process: u32, file: &str, field: &str) -> BenchResult<f64> {
    let kilobytes = kilobytes_of(&process.to_string(), file, field)?;
    Ok(f64::from(u32::try_from(kilobytes)?) * 1024.0 / 1e6)
}

fn kilobytes_of(process: &str, file: &str, field: &str) -> BenchResult<u64> {
    let path = format!("/proc/{process}/{file}");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number
        .ok_or_else(|| format!("{path} has no {field}"))?
        .parse()?)
}

/// Prints the next step to the terminal; only figures go to standard output.
#[expect(clippy::print_stderr, reason = "long work shows how far it is")]
pub(crate) fn progress(what: impl std::fmt::Display) {
    eprintln!("  {what} …");
}

#[expect(clippy::print_stderr, reason = "long work shows what it found so far")]
pub(crate) fn print_result(what: impl std::fmt::Display) {
    eprintln!("  {what}");
}

/// Prints one line for the process that started this one.
#[expect(clippy::print_stdout, reason = "the other process reads it")]
pub(crate) fn send(answer: &impl Serialize) -> BenchResult<()> {
    println!("{}", serde_json::to_string(answer)?);
    Ok(())
}
