//! Words: what can go wrong while a server is set up; refusals of requests are [`Status`]es.
//!
//! [`Status`]: crate::status::Status

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server could not be reached over HTTPS, or its kubeconfig not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No listener on this address.
    #[error("cannot listen on {address}; choose another address, or port 0 for any free port")]
    Listen {
        /// The address as it was given.
        address: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// The address can be reached from other machines, and the server checks nobody's identity.
    #[error(
        "{address} is not a loopback address: the embedded server authenticates nobody, so others are \
         let in by `serve_others`, or --insecure-let-others-in, alone"
    )]
    NotLoopback {
        /// The address that was resolved.
        address: SocketAddr,
    },
    /// The certificates could not be made.
    #[error("cannot make the server's certificates")]
    Certificates {
        /// What the cryptography says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kubeconfig could not be written.
    #[error("cannot write the kubeconfig to {}", path.display())]
    WriteKubeconfig {
        /// Where to.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

impl Error {
    /// Whether the address was the problem.
    #[must_use]
    pub fn is_address(&self) -> bool {
        matches!(self, Self::Listen { .. } | Self::NotLoopback { .. })
    }
}
