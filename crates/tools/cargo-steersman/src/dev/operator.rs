//! Driver: the process of the operator.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use steersman_cli::Description;
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
    /// The end of the operator's standard input. When this process ends, however it ends, the operator stops.
    _session: Option<ChildStdin>,
    name: String,
    probes: SocketAddr,
    pub(crate) endpoint: Option<OperatorEndpoint>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OperatorStart<'a> {
    pub(crate) program: &'a Path,
    /// The kubeconfig; `None` for that of the environment.
    pub(crate) kubeconfig: Option<&'a Path>,
    /// The context of the kubeconfig; `None` for its current one.
    pub(crate) context: Option<&'a str>,
    pub(crate) installs: bool,
    /// The port of the webhooks; `None` for no webhooks.
    pub(crate) webhook_port: Option<u16>,
    /// The file for the token of the diagnostics; `None` for no diagnostics.
    pub(crate) token_file: Option<&'a Path>,
    pub(crate) more: &'a [String],
}

const GRACE: Duration = Duration::from_secs(10);
const PROBE: Duration = Duration::from_secs(2);

impl RunningOperator {
    /// Starts a program, with its probes, diagnostics and webhooks on free ports.
    pub(crate) fn start(
        start: OperatorStart<'_>,
        description: &Description,
        output: &SessionOutput,
    ) -> Result<Self, Error> {
        let probes = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let mut command = Command::new(start.program);
        command.arg(format!("--health-probe-bind-address={probes}"));
        command.args(start.installs.then_some("--install"));
        if let Some(kubeconfig) = start.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        if let Some(context) = start.context {
            command.arg("--context").arg(context);
        }
        if let Some(port) = start.webhook_port {
            command.arg(format!("--webhook-bind-address=127.0.0.1:{port}"));
        }
        let endpoint = match start.token_file {
            Some(file) => Some(OperatorEndpoint::choose(file, &mut command)?),
            None => None,
        };
        command
            .args(start.more)
            .env("CARGO_STEERSMAN_STOP_WITH_INPUT", "1")
            .stdin(Stdio::piped())
            .stdout(output.stdio())
            .stderr(output.stdio())
            .kill_on_drop(true);
        // The ctrl-c of a terminal reaches a whole group; this program stops the operator itself, in order.
        #[cfg(unix)]
        command.process_group(0);
        let program = start.program.display().to_string();
        let mut child = command.spawn().map_err(Error::start(program))?;
        output.follow(&mut child, ViewEvent::LogLine);
        // Taken, because a wait for the child closes what it still has.
        let session = child.stdin.take();
        Ok(Self {
            child,
            _session: session,
            name: description.name.clone(),
            probes,
            endpoint,
        })
    }

    /// Waits until the operator ends. Cancel safe.
    pub(crate) async fn ended(&mut self) -> Error {
        let status = self.child.wait().await;
        Error::Ended {
            program: self.name.clone(),
            status: status.map_or_else(|error| error.to_string(), |status| status.to_string()),
        }
    }

    /// Returns whether the operator says that it is ready. Cancel safe.
    pub(crate) async fn is_ready(&self) -> bool {
        let answer = timeout(PROBE, get(self.probes, "/readyz", "")).await;
        answer.is_ok_and(|answer| answer.is_ok_and(|text| text.starts_with("HTTP/1.1 200")))
    }

    /// Returns what `/readyz` says is missing. Cancel safe.
    pub(crate) async fn missing(&self) -> String {
        let answer = timeout(PROBE, get(self.probes, "/readyz?verbose", "")).await;
        let answer = answer.ok().and_then(Result::ok).unwrap_or_default();
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let failed: Vec<&str> = body
            .lines()
            .filter(|line| line.starts_with("[-]"))
            .collect();
        match failed.is_empty() {
            true => "its probes do not answer".to_owned(),
            false => failed.join("; "),
        }
    }

    /// Stops the operator; after a while, by force.
    pub(crate) async fn stop(mut self) {
        #[cfg(unix)]
        if let Some(pid) = self
            .child
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()))
        {
            // The process may have ended in the meantime.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        #[cfg(not(unix))]
        let _ = self.child.start_kill();
        if timeout(GRACE, self.child.wait()).await.is_err() {
            // An error means that the process has ended, or that it cannot be killed.
            let _ = self.child.kill().await;
        }
    }
}
