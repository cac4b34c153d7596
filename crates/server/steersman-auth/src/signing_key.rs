//! Machine: private keys that sign tokens of ServiceAccounts.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};

use super::public_key::{SignatureAlgorithm, VerifyingKey, der};

/// The DER of a PKCS#8 key's version and of the algorithm of EC keys on the curve P-256.
const EC_ALGORITHM: [u8; 24] = [
    0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
    0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
];

/// The DER of the object identifier of RSA.
const RSA_OID: [u8; 11] = [
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01,
];

#[derive(derive_more::Debug)]
pub(super) struct SigningKey {
    #[debug(skip)]
    pair: SigningPair,
    public: VerifyingKey,
}

enum SigningPair {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// Returns the Ed25519 key of a seed; any 32 bytes are valid.
    pub(super) fn of_seed(seed: &[u8; 32]) -> Result<Self, String> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|why| why.to_string())?;
        let public = VerifyingKey::new(SignatureAlgorithm::EdDsa, pair.public_key().as_ref());
        let pair = SigningPair::Ed25519(pair);
        Ok(Self { pair, public })
    }

    /// Parses the DER of a PKCS#1 RSA key (`RSA PRIVATE KEY` in PEM).
    pub(super) fn of_pkcs1(der: &[u8]) -> Result<Self, String> {
        Self::of_rsa(RsaKeyPair::from_der(der))
    }

    /// Parses the DER of a SEC1 EC key (`EC PRIVATE KEY` in PEM).
    pub(super) fn of_sec1(sec1: &[u8]) -> Result<Self, String> {
        let key = der(0x04, sec1);
        Self::of_ec(&der(0x30, &[&EC_ALGORITHM, key.as_slice()].concat()))
    }

    /// Parses the DER of a PKCS#8 key of any algorithm (`PRIVATE KEY` in PEM).
    pub(super) fn of_pkcs8(der: &[u8]) -> Result<Self, String> {
        // The identifier of the algorithm is near the start, after the lengths and the version.
        let mut starts = der.windows(RSA_OID.len()).take(16);
        if starts.any(|start| start == RSA_OID) {
            Self::of_rsa(RsaKeyPair::from_pkcs8(der))
        } else {
            Self::of_ec(der)
        }
    }

    fn of_rsa(found: Result<RsaKeyPair, ring::error::KeyRejected>) -> Result<Self, String> {
        let pair = found.map_err(|why| {
            format!("the RSA key is refused ({why}); keys of 2048 to 4096 bits can sign")
        })?;
        let public = VerifyingKey::new(SignatureAlgorithm::Rs256, pair.public().as_ref());
        let pair = SigningPair::Rsa(Box::new(pair));
        Ok(Self { pair, public })
    }

    fn of_ec(pkcs8: &[u8]) -> Result<Self, String> {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let found = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &SystemRandom::new());
        let pair = found.map_err(|why| {
            format!(
                "the key is refused ({why}); RSA keys and EC keys on P-256 with their public half \
                 can sign"
            )
        })?;
        let public = VerifyingKey::new(SignatureAlgorithm::Es256, pair.public_key().as_ref());
        let pair = SigningPair::Ec(pair);
        Ok(Self { pair, public })
    }

    pub(super) fn public(&self) -> &VerifyingKey {
        &self.public
    }

    /// Signs a token with these claims. Fails without random numbers of the system.
    pub(super) fn issue(&self, claims: &Value) -> Result<String, String> {
        let header = json!({ "alg": self.public.algorithm().name(), "kid": self.public.id() });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&header), part(claims));
        let signature = self.sign(text.as_bytes());
        let signature = signature.map_err(|_| "the key cannot sign".to_owned())?;
        let signature = URL_SAFE_NO_PAD.encode(signature);
        Ok(format!("{text}.{signature}"))
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, ring::error::Unspecified> {
        let random = SystemRandom::new();
        match &self.pair {
            SigningPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature)?;
                Ok(signature)
            }
            SigningPair::Ec(pair) => Ok(pair.sign(&random, text)?.as_ref().to_vec()),
            SigningPair::Ed25519(pair) => Ok(pair.sign(text).as_ref().to_vec()),
        }
    }
}
