//! Driver: runs one program in its own process group, and ends the group for certain.

use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::assert::FOREVER;
use crate::error::Error;

/// The interval between checks of a program's readiness or end.
const INTERVAL: Duration = Duration::from_millis(50);
/// The number of lines of a program's log in an error message.
const TAIL: usize = 20;

/// A running program. Dropping it kills the program and its child processes (ENV-1).
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    guard: Guard,
    log: PathBuf,
}

impl Process {
    /// Starts a program in its own process group; its output goes to `log`, or with `attach` to the output of this
    /// process.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        log: &Path,
        attach: bool,
    ) -> Result<Self, Error> {
        if !program.exists() {
            let path = program.to_owned();
            return Err(Error::NoBinary { path });
        }
        let failed = |source| Error::Spawn {
            path: program.to_owned(),
            source,
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        if !attach {
            let file = File::create(log).map_err(failed)?;
            command
                .stdout(file.try_clone().map_err(failed)?)
                .stderr(file);
        }
        own_group(&mut command);
        let mut child = command.spawn().map_err(failed)?;
        let guard = match Guard::of(&child) {
            Ok(guard) => guard,
            Err(source) => {
                kill_group(&mut child);
                return Err(failed(source));
            }
        };
        let name = program.file_name().unwrap_or(program.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            child,
            guard,
            log: log.to_owned(),
        })
    }

    /// Waits until `check` returns `Ok`; its `Err` describes the observed state.
    ///
    /// Cancel safe: the program continues.
    pub(crate) async fn ready<F: Future<Output = Result<(), String>>>(
        &mut self,
        within: Duration,
        mut check: impl FnMut() -> F,
    ) -> Result<(), Error> {
        // Limits the timeout to thirty years, which the clock can represent.
        let deadline = Instant::now() + within.min(FOREVER);
        let mut seen = "none".to_owned();
        loop {
            if let Some(status) = self.ended() {
                return Err(Error::Exited {
                    name: self.name.clone(),
                    status: status.to_string(),
                    log: self.tail(),
                });
            }
            match tokio::time::timeout_at(deadline, check()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(answer)) => seen = answer,
                Err(_) => {}
            }
            if Instant::now() >= deadline {
                return Err(Error::NotReady {
                    name: self.name.clone(),
                    after: within,
                    seen,
                    log: self.tail(),
                });
            }
            sleep(INTERVAL).await;
        }
    }

    /// Terminates the program, and kills its process group after `grace`. Returns whether the program ended by itself.
    ///
    /// Cancel safe: dropping the future kills the program.
    pub(crate) async fn stop(mut self, grace: Duration) -> bool {
        terminate_group(&mut self.child);
        let deadline = Instant::now() + grace;
        while Instant::now() < deadline {
            if self.ended().is_some() {
                return true;
            }
            sleep(INTERVAL).await;
        }
        false
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        if lines.is_empty() {
            return "it logged nothing".to_owned();
        }
        let last = lines[lines.len().saturating_sub(TAIL)..].join("\n    ");
        format!("its log ends with:\n    {last}")
    }
}

impl Drop for Process {
    /// ENV-1: also after a panic of the test, and including the program's child processes.
    fn drop(&mut self) {
        kill_group(&mut self.child);
        // A killed process ends at once, so this wait is short; without it a zombie would remain, and its files could
        // not be removed yet.
        let _ = self.child.wait();
        self.guard.dismiss();
    }
}

/// Kills the program if this process ends without running destructors: by ctrl-c, which does not
/// reach the program's own process group, by a signal, or by an abort.
///
/// The guard is a shell that waits for the end of a pipe. Only this process holds the other end of the pipe.
#[derive(Debug)]
struct Guard(Option<Child>);

#[cfg(unix)]
#[expect(
    clippy::needless_pass_by_ref_mut,
    reason = "where there are no groups the functions take one"
)]
mod groups {
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::{Child, Command, Guard, Stdio};

    pub(super) fn own_group(command: &mut Command) {
        command.process_group(0);
    }

    pub(super) fn terminate_group(child: &mut Child) {
        signal(child, Signal::TERM);
    }

    pub(super) fn kill_group(child: &mut Child) {
        signal(child, Signal::KILL);
    }

    /// The child leads its group, so the group has the child's id. A missing group is no error.
    fn signal(child: &Child, signal: Signal) {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
    }

    impl Guard {
        pub(super) fn of(child: &Child) -> std::io::Result<Self> {
            let mut shell = Command::new("/bin/sh");
            shell
                .args([
                    "-c",
                    "read -r _; kill -KILL \"-$0\"",
                    &child.id().to_string(),
                ])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            own_group(&mut shell);
            Ok(Self(Some(shell.spawn()?)))
        }
    }
}

#[cfg(not(unix))]
mod groups {
    use super::{Child, Command, Guard};

    pub(super) fn own_group(_: &mut Command) {}

    pub(super) fn terminate_group(child: &mut Child) {
        kill_group(child);
    }

    pub(super) fn kill_group(child: &mut Child) {
        let _ = child.kill();
    }

    impl Guard {
        pub(super) fn of(_: &Child) -> std::io::Result<Self> {
            Ok(Self(None))
        }
    }
}

use groups::{kill_group, own_group, terminate_group};

impl Guard {
    /// Ends the guard before its pipe closes, when another process may have the same id.
    fn dismiss(&mut self) {
        if let Some(mut shell) = self.0.take() {
            let _ = shell.kill();
            let _ = shell.wait();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.dismiss();
    }
}

#[cfg(test)]
mod tests;
