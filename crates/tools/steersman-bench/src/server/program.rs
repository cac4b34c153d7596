//! Driver: measures the program `steersman-apiserver`: its start, its memory, and many servers at once.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::process::{BenchResult, megabytes_of};
use crate::report::{Figure, Spread};
use crate::wire::ServerAddress;

/// A server in a process of its own. A drop kills the process.
pub(super) struct ProgramServer {
    child: Child,
    place: ServerAddress,
    /// Holds the kubeconfig, and the data directory if there is one.
    folder: TempDir,
    /// The time from the start of the process to the response of `/readyz`, in milliseconds.
    ready_ms: f64,
}

impl ProgramServer {
    pub(super) async fn start(program: &Path) -> BenchResult<Self> {
        Self::start_with(program, |_| Vec::new()).await
    }

    /// Starts a server with the flags that `flags` returns for its folder, and waits until it is ready.
    pub(super) async fn start_with(
        program: &Path,
        flags: impl Fn(&Path) -> Vec<OsString>,
    ) -> BenchResult<Self> {
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let began = Instant::now();
        let mut child = Command::new(program)
            .arg("--port=0")
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(flags(folder.path()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let output = child.stdout.take().ok_or("no standard output")?;
        // The program prints its address as soon as it listens.
        let line = BufReader::new(output).lines().next_line().await?;
        let line = line.ok_or("the program ended before it listened")?;
        let (_, address) = line.rsplit_once("https://").ok_or("no address")?;
        let mut server = Self {
            child,
            place: ServerAddress {
                address: address.to_owned(),
                ca_pem: authority(&fs::read_to_string(kubeconfig)?)?,
            },
            folder,
            ready_ms: 0.0,
        };
        server.place.check("/readyz").await?;
        server.ready_ms = began.elapsed().as_secs_f64() * 1e3;
        Ok(server)
    }

    /// Returns the resident memory of the process, in megabytes.
    pub(super) fn resident(&self) -> BenchResult<f64> {
        self.memory("status", "VmRSS:")
    }

    /// Returns the file with the credentials of its administrator.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns a figure of the process in megabytes, from a file of `/proc`.
    fn memory(&self, file: &str, field: &str) -> BenchResult<f64> {
        megabytes_of(self.child.id().ok_or("a server has ended")?, file, field)
    }
}

/// Returns the certificate of the authority in a kubeconfig that the program wrote.
fn authority(kubeconfig: &str) -> BenchResult<String> {
    let (_, rest) = kubeconfig
        .split_once("certificate-authority-data: ")
        .ok_or("the kubeconfig has no authority")?;
    let encoded = rest.lines().next().unwrap_or_default();
    Ok(String::from_utf8(STANDARD.decode(encoded)?)?)
}

/// Measures starts one after the other, and the memory of a server that was asked only whether it is ready.
pub(super) async fn start(program: &Path, runs: u32) -> BenchResult<Vec<Figure>> {
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let server = ProgramServer::start(program).await?;
        times.push(server.ready_ms);
        memory.push(server.resident()?);
    }
    let time = "time from the start of the program to the response of /readyz over HTTPS";
    let idle = "resident memory of the program after it answered /readyz";
    Ok(vec![
        Figure::new("server/program/ready", time, "ms", Spread::of(times)).at_most(10.0),
        Figure::new("server/program/idle", idle, "MB", Spread::of(memory)).at_most(15.0),
    ])
}

/// Measures the memory of many servers at once, each of which answers while all of them run.
pub(super) async fn many(program: &Path, servers: u32) -> BenchResult<Vec<Figure>> {
    let mut running = Vec::new();
    for _ in 0..servers {
        running.push(ProgramServer::start(program).await?);
    }
    let mut total = 0.0;
    for server in &running {
        server.place.check("/readyz").await?;
        // Counts a page that several processes share once.
        total += server.memory("smaps_rollup", "Pss:")?;
    }
    let what = format!("memory of {servers} programs that run at once");
    let figure = Figure::new("server/program/many", what, "MB", Spread::one(total));
    Ok(vec![figure.at_most(20.0 * f64::from(servers))])
}
