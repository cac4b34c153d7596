//! Driver: finds out whether a server on this machine answers, by a handshake.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::certificate_times::CertificateTimes;

/// Accepts every certificate: the check is whether the server answers, not whether its certificate is trusted.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

/// Connects to the server that listens on an address, and ends a TLS handshake with it. The certificate need not be
/// trusted, but must be valid at the time `wall`. For an address that stands for all addresses of the machine, the loopback address is used.
///
/// # Errors
///
/// The problem: no server listens; the handshake fails, for example because the server has no certificate yet; the
/// certificate has expired, or is not valid yet.
///
/// # Cancel safety
///
/// Cancel safe: dropping the future closes the connection.
pub async fn dial_tls(address: SocketAddr, wall: Timestamp) -> Result<(), String> {
    let target = reachable(address);
    let stream = TcpStream::connect(target)
        .await
        .map_err(|error| format!("{target} cannot be reached: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::IpAddress(target.ip().into());
    let connected = connector.connect(name, stream).await;
    let stream =
        connected.map_err(|error| format!("the TLS handshake with {target} fails: {error}"))?;
    // SERVE-7
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

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
