//! Room: the HTTP connections ("links") to one server: how they open, which one carries a request, and when they end.

mod options;
mod table;
mod form;
mod credentials;
mod tunnel;
mod dial;
mod signing;
mod handshake;
mod body;
mod pool;
mod access;
mod network;

pub(crate) use network::Network;
pub(crate) use options::ConnectionOptions;
