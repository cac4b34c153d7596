//! Driver: the process of the operator.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use steersman_cli::Description;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::error::Error;

/// A running operator. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct RunningOperator {
    child: Child,
    name: String,
    probes: SocketAddr,
}

/// How long an operator may take to stop.
const GRACE: Duration = Duration::from_secs(10);
/// How long a probe may take.
const PROBE: Duration = Duration::from_secs(2);

impl RunningOperator {
    /// Starts a program, with its probes and webhooks on free ports.
    pub(crate) fn start(
        program: &Path,
        description: &Description,
        kubeconfig: &Path,
        webhook_port: Option<u16>,
        more: &[String],
    ) -> Result<Self, Error> {
        let probes = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let mut command = Command::new(program);
        command
            .arg("--install")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg(format!("--health-probe-bind-address={probes}"));
        if let Some(port) = webhook_port {
            command.arg(format!("--webhook-bind-address=127.0.0.1:{port}"));
        }
        command.args(more).stdin(Stdio::null()).kill_on_drop(true);
        // The ctrl-c of a terminal reaches a whole group; this program stops the operator itself, in order.
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn().map_err(|source| Error::Start {
            program: program.display().to_string(),
            source,
        })?;
        Ok(Self {
            child,
            name: description.name.clone(),
            probes,
        })
    }

    /// Waits until the operator ends. Cancel safe.
    pub(crate) async fn ended(&mut self) -> Error {
        let status = self.child.wait().await;
        Error::Ended {
            program: self.name.clone(),
            status: status.map_or_else(
                |error| error.to_string(),
                |status: ExitStatus| status.to_string(),
            ),
        }
    }

    /// Returns whether the operator says that it is ready. Cancel safe.
    pub(crate) async fn is_ready(&self) -> bool {
        let answer = timeout(PROBE, get(self.probes, "/readyz")).await;
        answer.is_ok_and(|answer| answer.is_ok_and(|text| text.starts_with("HTTP/1.1 200")))
    }

    /// Returns what `/readyz` says is missing. Cancel safe.
    pub(crate) async fn missing(&self) -> String {
        let answer = timeout(PROBE, get(self.probes, "/readyz?verbose")).await;
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
            // It has ended, or there is nothing to be done about it.
            let _ = self.child.kill().await;
        }
    }
}

/// Returns a port that is free at the moment.
pub(crate) fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = listener.map_err(Error::file("127.0.0.1:0", "opened"))?;
    Ok(address.port())
}

/// Sends a request without a library: the answer of a probe is short.
async fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
