//! Driver: this program as another process, and what the operating system says of a process.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// What goes wrong in a benchmark is told and ends it.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The clock ticks per second in which Linux counts the time of processes (`USER_HZ`).
const TICKS: f64 = 100.0;

/// The program with the system's allocator.
const CLIENT: &str = "steersman-bench-client";

/// A process of this program with a role. It is killed when this is dropped.
pub(crate) struct Actor {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Actor {
    /// Starts one with the arguments of its role.
    pub(crate) fn start(arguments: &[&str]) -> Outcome<Self> {
        Self::of(&std::env::current_exe()?, "role", arguments)
    }

    /// Starts a client of the cache's measurements, which has the system's allocator.
    pub(crate) fn client(arguments: &[&str]) -> Outcome<Self> {
        let own = std::env::current_exe()?;
        let program = own.with_file_name(format!("{CLIENT}{}", std::env::consts::EXE_SUFFIX));
        if !program.exists() {
            let program = program.display();
            return Err(format!("{program} is missing: build all of steersman-bench").into());
        }
        Self::of(&program, "client", arguments)
    }

    fn of(program: &Path, part: &str, arguments: &[&str]) -> Outcome<Self> {
        let mut child = Command::new(program)
            .arg(part)
            .args(arguments)
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

    /// The next line that it prints, read as JSON.
    pub(crate) async fn hear<T: DeserializeOwned>(&mut self) -> Outcome<T> {
        let line = self.lines.next_line().await?;
        let line = line.ok_or("a process of the benchmark ended before its time")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Says a line, and reads the answer.
    pub(crate) async fn ask<T: DeserializeOwned>(&mut self, line: &str) -> Outcome<T> {
        self.input.write_all(line.as_bytes()).await?;
        self.input.write_all(b"\n").await?;
        self.hear().await
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> Outcome<()> {
        drop(self.input);
        let status = self.child.wait().await?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("a process of the benchmark ended with {status}").into())
        }
    }
}

/// The processor time that this process has used.
pub(crate) fn cpu_time() -> Outcome<Duration> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may contain anything; the fields are counted from behind it.
    let (_, fields) = text
        .rsplit_once(") ")
        .ok_or("/proc/self/stat is no stat file")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = 0.0;
    for _ in 0..2 {
        ticks += fields.next().unwrap_or_default().parse::<f64>()?;
    }
    Ok(Duration::from_secs_f64(ticks / TICKS))
}

/// The resident memory of this process now, and at its highest, in bytes.
pub(crate) fn memory() -> Outcome<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/status")?;
    let read = |name: &str| -> Outcome<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        let kilobytes: u64 = number
            .ok_or("/proc/self/status is no status file")?
            .parse()?;
        Ok(kilobytes * 1024)
    };
    Ok((read("VmRSS:")?, read("VmHWM:")?))
}
