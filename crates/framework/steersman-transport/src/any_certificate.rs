//! Words: a verifier that accepts every server certificate.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, SignatureScheme};

/// A verifier that accepts every server certificate and signature, for `insecure-skip-tls-verify`.
///
/// The equivalent verifier of kube-client logs a warning per connection.
#[derive(Debug)]
pub struct AnyCertificate(CryptoProvider);

impl AnyCertificate {
    /// Returns a builder of TLS client settings that accepts every server certificate.
    ///
    /// # Errors
    ///
    /// The error of rustls if ring supports no version of TLS.
    pub fn client_config() -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.dangerous();
        Ok(builder.with_custom_certificate_verifier(Arc::new(Self::default())))
    }
}

impl Default for AnyCertificate {
    fn default() -> Self {
        Self(ring::default_provider())
    }
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
