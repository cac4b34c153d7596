//! Words: the errors of setting up a server; refusals of requests are [`Status`]es.
//!
//! [`Status`]: crate::status::Status

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use steersman_auth::OptionError;

/// An error of serving over HTTPS, or of writing the kubeconfig.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot listen on this address.
    #[error("cannot listen on {address}; choose another address, or port 0 for any free port")]
    Listen {
        /// The address as the caller passed it.
        address: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// Other machines can reach the address, and the server does not authenticate.
    #[error(
        "{address} is not a loopback address: the embedded server does not authenticate, so to let \
         other machines connect use `serve_others`, or --insecure-let-others-in"
    )]
    NotLoopback {
        /// The resolved address.
        address: SocketAddr,
    },
    /// Other machines can reach the address of the server's page, which has neither users nor passwords.
    #[error(
        "{address} is not a loopback address, and the server's page listens on loopback only: to look from another \
         machine, forward the port, for instance with ssh -L"
    )]
    PageNotLoopback {
        /// The resolved address.
        address: SocketAddr,
    },
    /// The certificates of the listener could not be generated or loaded.
    #[error("cannot make the server's certificates")]
    Certificates {
        /// The error of the cryptography library.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An option of the server cannot be used, for instance a key that is no PEM.
    #[error("the server cannot listen with its options")]
    Option {
        /// The name of the option, and why the server cannot use it.
        source: OptionError,
    },
    /// The kubeconfig could not be written, or the file at its path must not be overwritten.
    #[error("cannot write the kubeconfig to {}", path.display())]
    WriteKubeconfig {
        /// The path of the kubeconfig.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns whether the error is about the address, so that another address or port may help.
    pub fn is_address(&self) -> bool {
        matches!(
            self,
            Self::Listen { .. } | Self::NotLoopback { .. } | Self::PageNotLoopback { .. }
        )
    }
}
