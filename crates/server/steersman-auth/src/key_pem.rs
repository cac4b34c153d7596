//! Machine: parses keys for the tokens of ServiceAccounts from PEM, as `k8s.io/client-go/util/keyutil` does.

use rustls::pki_types::pem::{PemObject as _, SectionKind};

use super::public_key::VerifyingKey;
use super::signing_key::SigningKey;

/// A section of a PEM text: its label, and its content in DER.
type PemSection = (SectionKind, Vec<u8>);

/// Parses the first private key of a PEM text. The error never contains a key.
pub(super) fn signing_key(pem: &str) -> Result<SigningKey, String> {
    let mut sections = sections(pem)?.into_iter();
    let private = sections.find_map(|(kind, der)| private_key(kind, &der));
    private.unwrap_or_else(|| {
        let why = "the PEM text has no private key; give a section PRIVATE KEY, RSA PRIVATE KEY \
                   or EC PRIVATE KEY";
        Err(why.to_owned())
    })
}

/// Parses the public keys, certificates and private keys of a PEM text into public keys. No error contains a key.
pub(super) fn verifying_keys(pem: &str) -> Result<Vec<VerifyingKey>, String> {
    let mut keys = Vec::new();
    for (number, (kind, der)) in sections(pem)?.into_iter().enumerate() {
        let key = match kind {
            SectionKind::PublicKey => VerifyingKey::of_der(&der),
            SectionKind::Certificate => VerifyingKey::of_certificate(&der),
            _ => match private_key(kind, &der) {
                Some(key) => key.map(|key| key.public().clone()),
                None => continue,
            },
        };
        keys.push(key.map_err(|why| format!("section {number} (from 0): {why}"))?);
    }
    if keys.is_empty() {
        let why = "the PEM text has no key; give public keys, certificates or private keys";
        return Err(why.to_owned());
    }
    Ok(keys)
}

/// Parses the private key in a section of a PEM text; `None` for a section without a private key.
fn private_key(kind: SectionKind, der: &[u8]) -> Option<Result<SigningKey, String>> {
    match kind {
        SectionKind::PrivateKey => Some(SigningKey::of_pkcs8(der)),
        SectionKind::RsaPrivateKey => Some(SigningKey::of_pkcs1(der)),
        SectionKind::EcPrivateKey => Some(SigningKey::of_sec1(der)),
        _ => None,
    }
}

fn sections(pem: &str) -> Result<Vec<PemSection>, String> {
    let all = PemSection::pem_slice_iter(pem.as_bytes());
    let all: Result<Vec<_>, _> = all.collect();
    // The parser's own message may quote the text, and so the key.
    all.map_err(|_| "the text is malformed PEM".to_owned())
}

#[cfg(test)]
mod tests;
