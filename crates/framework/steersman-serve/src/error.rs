//! Words: the errors of servers and routes. Each error names the server, the file or the path.

use std::error::Error as StdError;
use std::path::PathBuf;

use thiserror::Error as ThisError;

/// The reason why a server could not be made.
///
/// `Display` prints one level; [`source`](StdError::source) has the causes.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A text is not an address to listen on.
    #[error(
        "{text:?} is no address to listen on: write host:port, :port for all addresses, or 0 for no server"
    )]
    Address {
        /// The refused text.
        text: String,
    },
    /// The operating system refuses the address, for example because another program uses it.
    #[error(
        "the server {server:?} cannot listen on {address}: stop the program that uses the address, or choose another one"
    )]
    Listen {
        /// The name of the server.
        server: String,
        /// The address, as it was given.
        address: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// A limit is zero, which would refuse every request.
    #[error("the limit {limit} is zero: give it a positive value, or leave the default")]
    ZeroLimit {
        /// The method that sets the limit.
        limit: &'static str,
    },
    /// A certificate file cannot be read.
    #[error("the file {} cannot be read", path.display())]
    CertificateFile {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The certificate or its key is not valid.
    #[error("the certificate of {place} cannot be used: {problem}")]
    Certificate {
        /// The files with the certificate, or the origin of a certificate without files.
        place: String,
        /// The reason why the certificate or its key is not valid.
        problem: String,
    },
    /// Two routes of a server contradict each other.
    #[error("the routes of the server cannot work: {problem}")]
    Routes {
        /// The contradiction.
        problem: String,
    },
    /// A path does not begin with a slash.
    #[error("the path {path:?} does not begin with a slash")]
    Path {
        /// The refused path.
        path: String,
    },
    /// Two routes have the same path.
    #[error("the path {path:?} has a handler already: choose another path for one of the two")]
    DuplicatePath {
        /// The path of both routes.
        path: String,
    },
    /// The metrics of certificates are registered already.
    #[error("the metrics of the server cannot be registered: give each process one registry")]
    Metrics(#[source] prometheus::Error),
}

/// The error that a check or handler of the program returns.
pub type BoxError = Box<dyn StdError + Send + Sync>;
