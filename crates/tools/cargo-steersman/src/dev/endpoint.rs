//! Driver: reads the diagnostics of the operator's process over HTTP.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::path::Path;

use tokio::process::Command;

use super::clock::now;
use super::loopback::{free_port, get};
use super::view::snapshot::OperatorSnapshot;
use crate::error::Error;
use crate::files::write_private;

#[derive(Clone, Debug)]
pub(crate) struct OperatorEndpoint {
    address: SocketAddr,
    token: String,
}

impl OperatorEndpoint {
    /// Makes a new token, and adds flags to `command` so that the operator serves its diagnostics and its debug page with it.
    pub(crate) fn choose(file: &Path, command: &mut Command) -> Result<Self, Error> {
        let token = new_token();
        write_private(file, &token)?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        command
            .arg(format!("--metrics-bind-address={address}"))
            .arg("--metrics-secure=false")
            .arg("--metrics-token-path")
            .arg(file)
            .arg("--debug-page");
        Ok(Self { address, token })
    }

    /// Returns the address of the operator's debug page, which signs a browser in.
    pub(crate) fn page(&self) -> String {
        let Self { address, token } = self;
        format!("http://{address}/debug/sign-in?token={token}")
    }

    /// Returns the current diagnostics of the operator; `None` if the operator does not respond. Cancel safe.
    pub(crate) async fn snapshot(&self) -> Option<OperatorSnapshot> {
        let diagnostics = self.get("/debug/steersman").await?;
        let diagnostics = serde_json::from_str(&diagnostics).ok()?;
        let metrics = self.get("/metrics").await?;
        Some(OperatorSnapshot::read(&diagnostics, &metrics, now()))
    }

    async fn get(&self, path: &str) -> Option<String> {
        let header = format!("Authorization: Bearer {}\r\n", self.token);
        let (is_good, body) = get(self.address, path, &header).await?;
        is_good.then_some(body)
    }
}

/// Returns a random token. The randomness is that of the hashers of the standard library, which have random keys.
fn new_token() -> String {
    let word = |_| RandomState::new().hash_one("cargo steersman dev");
    let words = (0..4).map(word).map(|word| format!("{word:016x}"));
    words.collect()
}
