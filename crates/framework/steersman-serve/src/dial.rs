//! Driver: checks by a TLS handshake whether a server on this machine works.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::ServerName;
use steersman_api::AnyCertificate;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use steersman_certificates::CertificateTimes;

/// Completes a TLS handshake with the server at an address. The certificate need not be trusted, but must be valid at
/// the time `wall`. An address that stands for all addresses of the machine is replaced by the loopback address.
///
/// # Errors
///
/// The problem: no server listens; the handshake fails, for example because the server has no certificate; or the
/// certificate is not valid at that time.
///
/// # Cancel safety
///
/// Cancel safe: dropping the future closes the connection.
pub async fn dial_tls(address: SocketAddr, wall: Timestamp) -> Result<(), String> {
    let target = reachable(address);
    let stream = TcpStream::connect(target)
        .await
        .map_err(|error| format!("{target} cannot be reached: {error}"))?;
    // Any certificate is accepted, because only the handshake is checked.
    let config = AnyCertificate::client_config().map_err(|error| error.to_string())?;
    let config = config.with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::IpAddress(target.ip().into());
    let connected = connector.connect(name, stream).await;
    let stream =
        connected.map_err(|error| format!("the TLS handshake with {target} fails: {error}"))?;
    // SERVE-7: checks the validity of the certificate.
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    match CertificateTimes::of_chain(chain).map(|times| times.state(wall)) {
        Some(state) if state.is_refused() => Err(state.to_string()),
        _ => Ok(()),
    }
}

fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
