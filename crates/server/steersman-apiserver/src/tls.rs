//! Room: TLS: the certificate of the listener, and the certificates that other parties present.
//!
//! Invariants:
//!
//! - A client certificate that is not accepted does not end the handshake. A request with such a certificate and
//!   without an accepted token is answered 401 (AUTH-10).

mod chain;
mod client_certificates;
mod identity;

pub(crate) use chain::{KeyPurpose, Pool, parse};
pub(crate) use client_certificates::ClientAuthorities;
pub(crate) use identity::{Pem, TlsIdentity};
