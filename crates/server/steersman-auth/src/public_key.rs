//! Machine: public keys that verify the signatures of tokens, and the form of these keys in a JSON Web Key Set.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use rustls::pki_types::{AlgorithmIdentifier, alg_id};
use rustls::sign::public_key_to_spki;
use serde_json::{Value, json};
use x509_parser::oid_registry::OID_EC_P256;
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo, X509Certificate};
use x509_parser::public_key::{PublicKey, RSAPublicKey};

/// The supported sizes of RSA keys, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// The size of an uncompressed point on the curve P-256, in bytes.
const EC_POINT: usize = 65;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureAlgorithm {
    /// RSA with PKCS#1 padding and SHA-256.
    Rs256,
    /// ECDSA on the curve P-256 with SHA-256.
    Es256,
    EdDsa,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VerifyingKey {
    algorithm: SignatureAlgorithm,
    /// The key in the encoding of its algorithm: PKCS#1, an uncompressed point, or 32 bytes.
    bytes: Vec<u8>,
    id: String,
}

impl SignatureAlgorithm {
    fn identifier(self) -> AlgorithmIdentifier {
        match self {
            Self::Rs256 => alg_id::RSA_ENCRYPTION,
            Self::Es256 => alg_id::ECDSA_P256,
            Self::EdDsa => alg_id::ED25519,
        }
    }

    /// Returns the name of the algorithm in the header of a token (`alg`).
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

impl VerifyingKey {
    pub(super) fn new(algorithm: SignatureAlgorithm, bytes: &[u8]) -> Self {
        let info = public_key_to_spki(&algorithm.identifier(), bytes);
        let hash = digest::digest(&digest::SHA256, info.as_ref());
        Self {
            algorithm,
            bytes: bytes.to_vec(),
            id: URL_SAFE_NO_PAD.encode(hash),
        }
    }

    pub(super) fn of_certificate(der: &[u8]) -> Result<Self, String> {
        let parsed = X509Certificate::from_der(der);
        let (_, certificate) = parsed.map_err(|_| "the certificate is malformed".to_owned())?;
        Self::of_info(certificate.public_key())
    }

    /// Parses a key from the DER of a SubjectPublicKeyInfo (`PUBLIC KEY` in PEM).
    pub(super) fn of_der(der: &[u8]) -> Result<Self, String> {
        let parsed = SubjectPublicKeyInfo::from_der(der);
        let (_, info) = parsed.map_err(|_| "the public key is malformed".to_owned())?;
        Self::of_info(&info)
    }

    fn of_info(info: &SubjectPublicKeyInfo<'_>) -> Result<Self, String> {
        let bytes: &[u8] = &info.subject_public_key.data;
        match info.parsed() {
            Ok(PublicKey::RSA(key)) => {
                // The size of an RSA key is that of its modulus, without leading zeros.
                let bits = significant(key.modulus).len() * 8;
                if !RSA_BITS.contains(&bits) {
                    let (least, most) = (RSA_BITS.start(), RSA_BITS.end());
                    return Err(format!(
                        "the RSA key has {bits} bits; keys of {least} to {most} bits can be used"
                    ));
                }
                Ok(Self::new(SignatureAlgorithm::Rs256, bytes))
            }
            Ok(PublicKey::EC(_)) => {
                let curve = info.algorithm.parameters.as_ref();
                let curve = curve.and_then(|curve| curve.as_oid().ok());
                if curve != Some(OID_EC_P256) {
                    return Err(
                        "the EC key is on another curve than P-256, the only one that can be used"
                            .to_owned(),
                    );
                }
                if bytes.len() != EC_POINT || bytes.first() != Some(&4) {
                    return Err(
                        "the EC key is no uncompressed point; write it uncompressed".to_owned()
                    );
                }
                Ok(Self::new(SignatureAlgorithm::Es256, bytes))
            }
            _ => Err("the key is neither an RSA key nor an EC key on P-256".to_owned()),
        }
    }

    /// Returns the id of the key (`kid`), as in kube-apiserver: the SHA-256 of the public key's DER, in base64url.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }

    pub(super) fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        let algorithm: &'static dyn VerificationAlgorithm = match self.algorithm {
            SignatureAlgorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            SignatureAlgorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
            SignatureAlgorithm::EdDsa => &ED25519,
        };
        let key = UnparsedPublicKey::new(algorithm, &self.bytes);
        key.verify(text.as_bytes(), signature).is_ok()
    }

    /// Returns the key as a member of a JSON Web Key Set (RFC 7517, RFC 8037).
    pub(super) fn to_json(&self) -> Value {
        let mut key = json!({ "use": "sig", "kid": self.id, "alg": self.algorithm.name() });
        let text = |bytes: &[u8]| Value::String(URL_SAFE_NO_PAD.encode(bytes));
        let mut set = |name: &str, value: Value| key[name] = value;
        match self.algorithm {
            SignatureAlgorithm::Rs256 => {
                set("kty", json!("RSA"));
                if let Ok((_, numbers)) = RSAPublicKey::from_der(&self.bytes) {
                    set("n", text(significant(numbers.modulus)));
                    set("e", text(significant(numbers.exponent)));
                }
            }
            SignatureAlgorithm::Es256 => {
                set("kty", json!("EC"));
                set("crv", json!("P-256"));
                // The first byte is the mark of an uncompressed point; the two coordinates follow.
                for (name, half) in ["x", "y"].into_iter().zip(self.bytes[1..].chunks(32)) {
                    set(name, text(half));
                }
            }
            SignatureAlgorithm::EdDsa => {
                set("kty", json!("OKP"));
                set("crv", json!("Ed25519"));
                set("x", text(&self.bytes));
            }
        }
        key
    }
}

/// Encodes an element of DER: the tag, the length of the content, and the content.
pub(super) fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = significant(&length);
    let mut element = vec![tag];
    match length {
        [] => element.push(0),
        [short] if *short < 0x80 => element.push(*short),
        // The length of the content, which follows its own size, has at most eight bytes.
        long => {
            element.push(0x80 | u8::try_from(long.len()).unwrap_or_default());
            element.extend(long);
        }
    }
    element.extend(content);
    element
}

/// Returns the bytes of a number without its leading zeros.
fn significant(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}
