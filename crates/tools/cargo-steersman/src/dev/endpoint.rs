//! Handle: where the operator of a session serves its debug page.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::process::Command;

use super::loopback::free_port;
use crate::dev::page_source::PageSource;
use crate::error::Error;
use crate::files::write_private;

/// Where the operator of a session serves its diagnostics and its debug page: at the same address and with the same token
/// after each restart, so that an open page finds the operator again. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("OperatorEndpoint({address})")]
pub(crate) struct OperatorEndpoint {
    address: SocketAddr,
    token: String,
    token_file: PathBuf,
}

impl OperatorEndpoint {
    /// Chooses a free port, and writes a new token to the file.
    pub(crate) fn choose(token_file: PathBuf) -> Result<Self, Error> {
        let token = new_token();
        write_private(&token_file, &token)?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        Ok(Self {
            address,
            token,
            token_file,
        })
    }

    /// Adds the flags with which an operator serves its diagnostics and its debug page here.
    pub(crate) fn add_flags(&self, command: &mut Command) {
        command
            .arg(format!("--metrics-bind-address={}", self.address))
            .arg("--metrics-secure=false")
            .arg("--metrics-token-path")
            .arg(&self.token_file)
            .arg("--debug-page");
    }

    /// Removes the file of the token.
    pub(crate) fn remove_token(&self) {
        // An error means that the file does not exist.
        let _ = std::fs::remove_file(&self.token_file);
    }

    /// Returns the address of the operator's debug page, which signs a browser in.
    pub(crate) fn page(&self) -> String {
        let Self { address, token, .. } = self;
        format!("http://{address}/debug/sign-in?token={token}")
    }

    /// Returns the debug page.
    pub(crate) fn source(&self) -> Result<PageSource, Error> {
        PageSource::at(&format!("http://{}", self.address), Some(&self.token))
    }
}

/// Returns a random token. The randomness is that of the hashers of the standard library, which have random keys.
fn new_token() -> String {
    let word = |_| RandomState::new().hash_one("cargo steersman dev");
    let words = (0..4).map(word).map(|word| format!("{word:016x}"));
    words.collect()
}
