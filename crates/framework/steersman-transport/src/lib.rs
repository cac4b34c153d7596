//! The HTTP connections to one API server: a pool that its clients share, with credentials that are read again.
//!
//! A [`Transport`] is made from a [`kube_client::Config`]; its [`service`](Transport::service) is a [`tower::Service`]
//! at the end of a client's stack, in place of the hyper client of kube-client. It differs from that in what an
//! operator needs that runs for months:
//!
//! - Over HTTP/2 all clients of a runtime share one connection, and a second one is opened only when the server accepts
//!   no more streams. Without HTTP/2 a request has a connection of its own, and idle ones are used again (CONN-1).
//! - A silent connection is pinged. A connection that does not answer is closed with its streams, so that watches
//!   resume after 45 s and not after the time limit of the system (CONN-2).
//! - A request that the server did not execute, because its stream was refused or closed before, is sent again on
//!   another connection (CONN-5).
//! - Tokens and certificates of files are read again when the files change, and credential plugins run again when their
//!   credential expires. After a 401 the credentials are renewed once, and the request is repeated (CONN-4).
//! - HTTP proxies are asked for a tunnel (CONNECT); a server with several addresses is dialled as RFC 8305 describes.
//!
//! ```
//! use steersman_transport::Transport;
//!
//! # fn f() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = kube_client::Config::new("https://192.0.2.1:6443".parse()?);
//! config.accept_invalid_certs = true;
//! let transport = Transport::new(config, "192.0.2.1".into()).with(|options| options.http1_only = true);
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # let _guard = runtime.enter();
//! let service = transport.service()?;
//! # drop(service);
//! # Ok(())
//! # }
//! # f().unwrap();
//! ```
//!
//! # Reading order
//!
//! - `explain` writes errors as texts of one line, and `options` has [`ConnectionOptions`].
//! - `table` is the machine that decides which connection carries a request, and when connections close.
//! - `any_certificate` has [`AnyCertificate`], a verifier that accepts each certificate.
//! - `request_form` writes a request as HTTP/1.1 needs it, and decides whether a server processed the request of a
//!   failed stream.
//! - `plugin` prepares the input of a credential plugin, and `credentials` reads the credentials of files again when
//!   the files change.
//! - `tunnel` asks a proxy for a tunnel, and `dial` opens TCP, the tunnel and TLS.
//! - `signing` signs requests with a credential outside of files, such as the token of a plugin.
//! - `handshake` sets up HTTP/2 with windows and pings; `body` is the body of a response, which holds its stream until
//!   it ends or is dropped.
//! - `pool` sends each request on the connection that the table chooses.
//! - `access` adds the credentials to requests; `transport` has the handle, [`Transport`].

mod explain;
mod any_certificate;
mod options;
mod table;
mod request_form;
mod plugin;
mod credentials;
mod tunnel;
mod dial;
mod signing;
mod handshake;
mod body;
mod pool;
mod access;
mod transport;

pub use access::Sending;
pub use any_certificate::AnyCertificate;
pub use body::PooledBody;
pub use explain::{chain, explain_client, explain_kubeconfig};
pub use options::ConnectionOptions;
pub use plugin::settle as settle_plugin;
pub use transport::Transport;
pub use tunnel::{NO_PROXY_ADDRESS, check_proxy};
