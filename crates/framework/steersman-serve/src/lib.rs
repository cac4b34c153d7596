//! HTTP and HTTPS servers of an operator: health probes, metrics, and other routes.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, StatusCode};
//! use steersman_serve::{ListenAddress, Route, Routes, Server, ServerOptions, text_response};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), steersman_serve::Error> {
//! let mut routes = Routes::new();
//! let hello = |_: Request<Bytes>| async { text_response(StatusCode::OK, "hello") };
//! routes.add(Route::get("/hello", hello))?;
//!
//! let address = ListenAddress::from("127.0.0.1:0");
//! let server = Server::bind("greetings", &address, ServerOptions::new()).await?;
//! println!("listening on {}", server.local_address());
//! let stop = CancellationToken::new();
//! let running = tokio::spawn(server.run(routes, stop.clone()));
//! stop.cancel();
//! running.await.expect("the server does not panic");
//! # Ok(())
//! # }
//! ```
//!
//! A [`Server`] listens on one address and serves [`Routes`]. Its [`Limits`] bound what a client can cost, and a stop
//! waits for the requests in progress. [`TlsOptions`] reads the certificate again before each handshake.
//! [`ReviewedAccess`] lets in clients that the api-server knows and permits. The manager makes the servers of health
//! probes and metrics with this crate; a program without a manager can do the same.
//!
//! # Reading order
//!
//! - [`error`] has [`Error`], [`limits`] [`Limits`], and [`address`] [`ListenAddress`].
//! - `connection_phase` decides how long a connection may wait, and which one makes room for another.
//! - [`probe`] has the responses of health endpoints.
//! - `certificate` turns PEM texts into TLS settings.
//! - [`certificate_metrics`] has [`CertificateMetrics`], and [`shared_certificate`] has [`SharedCertificate`].
//! - `review_cache` keeps the answers of reviews.
//! - [`routes`] has [`Routes`], [`Handler`] and [`AccessControl`].
//! - [`streamed`] has [`stream_response`], and [`sign_in`] has [`SignIn`], for pages that are read in a browser.
//! - [`metrics_page`] has [`MetricsPage`].
//! - [`tls`] has [`TlsOptions`]: the certificate, read again before each handshake.
//! - [`access`] has [`ReviewedAccess`], by reviews of the API server, and [`token_file`] has [`TokenFile`], by the
//!   token of a file.
//! - `dial` has [`dial_tls`].
//! - `tracked_connection` reports what happens on a connection to its phase.
//! - `respond` answers one request, and `connection` serves one connection until the deadline of its phase.
//! - [`server`] has [`Server`], which listens, admits connections and stops.

pub mod error;
pub mod limits;
pub mod address;
mod connection_phase;
pub mod probe;
mod certificate;
pub mod certificate_metrics;
pub mod shared_certificate;
mod review_cache;
pub mod routes;
pub mod streamed;
pub mod sign_in;
pub mod metrics_page;
pub mod tls;
pub mod access;
pub mod token_file;
mod dial;
mod tracked_connection;
mod respond;
mod connection;
pub mod server;

pub use access::ReviewedAccess;
pub use address::ListenAddress;
pub use certificate_metrics::CertificateMetrics;
pub use dial::dial_tls;
pub use error::{BoxError, Error};
pub use limits::Limits;
pub use metrics_page::MetricsPage;
pub use probe::{CheckResult, ProbeQuery, ProbeResponse};
pub use routes::{AccessControl, Handler, Route, Routes, json_response, response, text_response};
pub use server::{Server, ServerOptions};
pub use shared_certificate::SharedCertificate;
pub use sign_in::{SignIn, SignInProblem};
pub use steersman_certificates::{CertificateState, CertificateTimes};
pub use streamed::stream_response;
pub use tls::TlsOptions;
pub use token_file::TokenFile;
