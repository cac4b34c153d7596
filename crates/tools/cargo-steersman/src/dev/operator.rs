//! Driver: starts, probes and stops the process of the operator.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::endpoint::OperatorEndpoint;
use super::loopback::{free_port, get};
use super::output::SessionOutput;
use super::view::model::ViewEvent;
use crate::error::Error;

/// A running operator. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct RunningOperator {
    child: Child,
    /// The operator's standard input. The operator stops when the pipe closes, even if this process is killed.
    _session: Option<ChildStdin>,
    name: String,
    probes: SocketAddr,
}

/// How long the operator may take to stop before it is killed.
const GRACE: Duration = Duration::from_secs(10);

impl RunningOperator {
    /// Starts the operator with probes on a free port, and with diagnostics if there is an endpoint for them. `more` are
    /// the flags for the operator on the command line.
    pub(crate) fn start(
        mut command: Command,
        endpoint: Option<&OperatorEndpoint>,
        more: &[String],
        name: &str,
        output: &SessionOutput,
    ) -> Result<Self, Error> {
        let probes = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        command.arg(format!("--health-probe-bind-address={probes}"));
        if let Some(endpoint) = endpoint {
            endpoint.add_flags(&mut command);
        }
        command
            .args(more)
            .env("CARGO_STEERSMAN_STOP_WITH_INPUT", "1")
            .stdin(Stdio::piped())
            .stdout(output.stdio())
            .stderr(output.stdio())
            .kill_on_drop(true);
        // In a process group of its own, the operator gets no ctrl-c of the terminal: this program stops it in order.
        #[cfg(unix)]
        command.process_group(0);
        let program = Path::new(command.as_std().get_program())
            .display()
            .to_string();
        let mut child = command.spawn().map_err(Error::start(program))?;
        output.follow(&mut child, ViewEvent::LogLine);
        // The pipe is taken, because `Child::wait` closes the standard input that the child still owns.
        let session = child.stdin.take();
        Ok(Self {
            child,
            _session: session,
            name: name.to_owned(),
            probes,
        })
    }

    /// Waits until the process of the operator ends, and returns the error for that. Cancel safe.
    pub(crate) async fn ended(&mut self) -> Error {
        let status = self.child.wait().await;
        Error::Ended {
            program: self.name.clone(),
            status: status.map_or_else(|error| error.to_string(), |status| status.to_string()),
        }
    }

    /// Returns whether `/readyz` of the operator reports success. Cancel safe.
    pub(crate) async fn is_ready(&self) -> bool {
        let answer = get(self.probes, "/readyz").await;
        answer.is_some_and(|(is_good, _)| is_good)
    }

    /// Returns the failed checks that `/readyz` reports. Cancel safe.
    pub(crate) async fn missing(&self) -> String {
        let answer = get(self.probes, "/readyz?verbose").await;
        let (_, body) = answer.unwrap_or_default();
        let failed = body.lines().filter(|line| line.starts_with("[-]"));
        let failed: Vec<&str> = failed.collect();
        match failed.is_empty() {
            true => "its probes do not answer".to_owned(),
            false => failed.join("; "),
        }
    }

    /// Stops the operator with SIGTERM, and kills it if it does not end in time.
    pub(crate) async fn stop(mut self) {
        #[cfg(unix)]
        if let Some(id) = self.child.id()
            && let Some(pid) = rustix::process::Pid::from_raw(id.cast_signed())
        {
            // The signal fails if the process has ended.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        #[cfg(not(unix))]
        let _ = self.child.start_kill();
        if timeout(GRACE, self.child.wait()).await.is_err() {
            // `kill` fails if the process has ended or cannot be killed.
            let _ = self.child.kill().await;
        }
    }
}
