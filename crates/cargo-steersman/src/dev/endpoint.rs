//! Driver: the diagnostics of the operator's process.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::clock::now;
use super::loopback::{free_port, get};
use super::view::snapshot::Snapshot;
use crate::error::Error;

/// The diagnostics and the metrics of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    token: String,
}

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(2);

impl Endpoint {
    /// Lets the operator of a command serve its diagnostics to the holder of a new token.
    pub(crate) fn choose(file: &Path, command: &mut Command) -> Result<Self, Error> {
        let token = new_token();
        write_private(file, &token)?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        command
            .arg(format!("--metrics-bind-address={address}"))
            .arg("--metrics-secure=false")
            .arg("--metrics-token-path")
            .arg(file);
        Ok(Self { address, token })
    }

    /// Returns what the operator says about itself; `None` if it does not answer. Cancel safe.
    pub(crate) async fn snapshot(&self) -> Option<Snapshot> {
        let diagnostics = self.get("/debug/steersman").await?;
        let diagnostics = serde_json::from_str(&diagnostics).ok()?;
        let metrics = self.get("/metrics").await?;
        Some(Snapshot::read(&diagnostics, &metrics, now()))
    }

    async fn get(&self, path: &str) -> Option<String> {
        let header = format!("Authorization: Bearer {}\r\n", self.token);
        let answer = timeout(ANSWER, get(self.address, path, &header)).await;
        let answer = answer.ok()?.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
    }
}

/// Makes a token that cannot be guessed: each hasher of the standard library has random keys.
fn new_token() -> String {
    let word = |_| RandomState::new().hash_one("cargo steersman dev");
    let words = (0..4).map(word).map(|word| format!("{word:016x}"));
    words.collect()
}

/// Writes a file that only this user can read.
fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    let failed = || Error::file(path, "written");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::file(folder, "made"))?;
    }
    let mut file = options.open(path).map_err(failed())?;
    file.write_all(text.as_bytes()).map_err(failed())
}
