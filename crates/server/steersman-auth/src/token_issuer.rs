//! Machine: signs and verifies tokens of ServiceAccounts, and publishes the issuer's metadata (OpenID Connect).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::key_pem;
use super::public_key::VerifyingKey;
use super::signing_key::SigningKey;
use crate::option_error::OptionError;

/// The issuer of tokens, unless an option names another issuer.
const ISSUER: &str = "https://kubernetes.default.svc";
/// The issuer in the tokens of Secrets, which kube-controller-manager signs with a key of the server.
pub const SECRET_ISSUER: &str = "kubernetes/serviceaccount";
/// Maximum number of tokens with claims that are remembered after a verification.
const VERIFIED: usize = 1024;
const KEY_SET_PATH: &str = "/openid/v1/jwks";

/// The options of the tokens of ServiceAccounts, named after the flags of kube-apiserver.
#[derive(Clone, Default, derive_more::Debug)]
pub struct TokenOptions {
    /// The issuers (`--service-account-issuer`). The first issues new tokens, and tokens of all of them are accepted.
    /// Empty means `https://kubernetes.default.svc`.
    pub issuers: Vec<String>,
    /// The audiences of the server (`--api-audiences`). Empty means the issuers.
    pub audiences: Vec<String>,
    /// The URL of the key set in the metadata (`--service-account-jwks-uri`). Default: a URL of the server's listener.
    pub jwks_uri: Option<String>,
    /// The private key that signs tokens, in PEM (`--service-account-signing-key-file`). Default: a key that is derived
    /// from the seed.
    // The keys may be private.
    #[debug(skip)]
    pub signing_key: Option<String>,
    /// Further keys of accepted tokens, in PEM (`--service-account-key-file`).
    #[debug(skip)]
    pub keys: Vec<String>,
    /// Whether tokens that a kubelet projects into Pods last only as long as requested
    /// (`--service-account-extend-token-expiration=false`), and not a year.
    #[debug(skip)]
    pub has_exact_expiration: bool,
}

impl TokenOptions {
    /// Checks that a text can be the value of [`signing_key`](Self::signing_key).
    ///
    /// # Errors
    /// Fails with a description of the problem, which never contains a key.
    pub fn check_signing_key(pem: &str) -> Result<(), String> {
        key_pem::signing_key(pem).map(drop)
    }

    /// Checks that a text can be an item of [`keys`](Self::keys).
    ///
    /// # Errors
    /// Fails with a description of the problem, which never contains a key.
    pub fn check_keys(pem: &str) -> Result<(), String> {
        key_pem::verifying_keys(pem).map(drop)
    }
}

/// The secret from which the server derives its own signing key, an Ed25519 key. The same secret signs the same tokens.
#[derive(Clone, derive_more::Debug)]
#[debug("TokenSecret")]
pub struct TokenSecret([u8; 32]);

impl TokenSecret {
    /// Creates the secret with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the secret as text, for a snapshot.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Parses the output of [`to_text`](Self::to_text); `None` for another text.
    pub fn from_text(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

/// The reason why a token is not one of this issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeignToken {
    /// The token is no JWT, or names none of the issuers.
    Unknown,
    /// The token names an issuer, but its signature is invalid. Holds the message of kube-apiserver.
    Signature(&'static str),
}

/// The issuer of the tokens of ServiceAccounts.
#[derive(Debug, Clone)]
pub struct TokenIssuer {
    issuers: Vec<String>,
    audiences: Vec<String>,
    jwks_uri: Option<String>,
    has_exact_expiration: bool,
    secret: TokenSecret,
    given: Option<Arc<SigningKey>>,
    /// The key that is derived from the secret, which signs tokens if no key is configured.
    derived: Result<Arc<SigningKey>, String>,
    /// The configured keys that verify tokens, without the signing key.
    keys: Vec<VerifyingKey>,
    /// The error of an invalid option, with which no token is issued.
    problem: Option<OptionError>,
    /// The claims of tokens with a verified signature. They are remembered because a client sends the same token with
    /// each request, and a verification takes longer than most requests.
    verified: RefCell<HashMap<String, Value>>,
}

/// The parts of a JWT, decoded.
struct SignedToken<'a> {
    header: Value,
    claims: Value,
    /// The text that the signature covers: the encoded header and claims.
    text: &'a str,
    signature: Vec<u8>,
}

impl<'a> SignedToken<'a> {
    fn parse(token: &'a str) -> Option<Self> {
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let parse = |part: &str| serde_json::from_slice(&decode(part)?).ok();
        Some(Self {
            header: parse(header)?,
            claims: parse(claims)?,
            text,
            signature: decode(signature)?,
        })
    }
}

impl TokenIssuer {
    /// Creates an issuer. If an option is invalid, [`problem`](Self::problem) returns its error, and nothing is signed.
    pub fn new(options: &TokenOptions, secret: TokenSecret) -> Self {
        let or_default = |list: &[String], default: &[String]| {
            let list = if list.is_empty() { default } else { list };
            list.to_vec()
        };
        let issuers = or_default(&options.issuers, &[ISSUER.to_owned()]);
        let mut issuer = Self {
            audiences: or_default(&options.audiences, &issuers),
            issuers,
            jwks_uri: options.jwks_uri.clone(),
            has_exact_expiration: options.has_exact_expiration,
            given: None,
            derived: SigningKey::of_seed(&secret.0).map(Arc::new),
            secret,
            keys: Vec::new(),
            problem: None,
            verified: RefCell::default(),
        };
        issuer.problem = issuer.read(options).err();
        issuer
    }

    fn read(&mut self, options: &TokenOptions) -> Result<(), OptionError> {
        for (option, values) in [
            ("service_account_issuer", &self.issuers),
            ("api_audiences", &self.audiences),
        ] {
            if values.iter().any(String::is_empty) {
                return Err(OptionError::new(option, "a value is empty"));
            }
        }
        if let Some(pem) = &options.signing_key {
            let key = key_pem::signing_key(pem);
            let key = key.map_err(|why| OptionError::new("service_account_signing_key", why))?;
            self.given = Some(Arc::new(key));
        }
        for pem in &options.keys {
            let keys = key_pem::verifying_keys(pem);
            let keys = keys.map_err(|why| OptionError::new("service_account_keys", why))?;
            for key in keys {
                if !self.keys.contains(&key) {
                    self.keys.push(key);
                }
            }
        }
        Ok(())
    }

    /// Returns the error of an invalid option.
    pub fn problem(&self) -> Option<&OptionError> {
        self.problem.as_ref()
    }

    /// Returns the secret of the server's own signing key, for a snapshot.
    pub fn secret(&self) -> &TokenSecret {
        &self.secret
    }

    /// Replaces the secret of the server's own signing key, by that of a snapshot. A configured signing key stays.
    pub fn set_secret(&mut self, secret: TokenSecret) {
        self.derived = SigningKey::of_seed(&secret.0).map(Arc::new);
        self.secret = secret;
        self.verified.take();
    }

    /// Returns the name of the issuer of new tokens.
    pub fn name(&self) -> &str {
        self.issuers.first().map_or(ISSUER, String::as_str)
    }

    /// Returns the audiences of the server.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Returns whether a token for a Pod lasts only as long as requested.
    pub fn has_exact_expiration(&self) -> bool {
        self.has_exact_expiration
    }

    fn signing_key(&self) -> Result<&SigningKey, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.to_string());
        }
        match &self.given {
            Some(given) => Ok(given),
            None => self.derived.as_deref().map_err(Clone::clone),
        }
    }

    /// Returns the keys that verify tokens, the key of new tokens first.
    fn verifying_keys(&self) -> impl Iterator<Item = &VerifyingKey> {
        let own = self.signing_key().map(SigningKey::public).ok();
        let others = self.keys.iter().filter(move |key| Some(*key) != own);
        own.into_iter().chain(others)
    }

    /// Signs a token with these claims.
    ///
    /// # Errors
    /// Fails with the problem if no key can sign.
    pub fn issue(&self, claims: &Value) -> Result<String, String> {
        self.signing_key()?.issue(claims)
    }

    /// Returns the claims of a token that one of the keys signed and one of the issuers issued, or
    /// kube-controller-manager for a Secret (AUTH-8).
    ///
    /// # Errors
    /// Fails with the reason why the token is not accepted.
    pub fn claims(&self, token: &str) -> Result<Value, ForeignToken> {
        let mut verified = self.verified.borrow_mut();
        if let Some(claims) = verified.get(token) {
            return Ok(claims.clone());
        }
        let claims = self.verify(token)?;
        if verified.len() >= VERIFIED {
            verified.clear();
        }
        verified.insert(token.to_owned(), claims.clone());
        Ok(claims)
    }

    fn verify(&self, token: &str) -> Result<Value, ForeignToken> {
        let token = SignedToken::parse(token).ok_or(ForeignToken::Unknown)?;
        let SignedToken { header, claims, .. } = &token;
        let issuer = claims["iss"].as_str().unwrap_or_default();
        if issuer != SECRET_ISSUER && !self.issuers.iter().any(|own| own == issuer) {
            return Err(ForeignToken::Unknown);
        }
        let id = header["kid"].as_str().unwrap_or_default();
        let candidates = self.verifying_keys();
        let candidates = candidates.filter(|key| id.is_empty() || key.id() == id);
        let mut candidates = candidates.peekable();
        if candidates.peek().is_none() {
            let why = "invalid signature, no keys found";
            return Err(ForeignToken::Signature(why));
        }
        // The key determines the algorithm, and the header of the token must name that algorithm.
        let algorithm = header["alg"].as_str().unwrap_or_default();
        let mut candidates = candidates.filter(|key| key.algorithm().name() == algorithm);
        if candidates.any(|key| key.verifies(token.text, &token.signature)) {
            return Ok(token.claims);
        }
        let why = "go-jose/go-jose: error in cryptographic primitive";
        Err(ForeignToken::Signature(why))
    }

    /// Returns the JSON Web Key Set with the keys that verify tokens (AUTH-9).
    pub fn key_set(&self) -> Value {
        let keys: Vec<Value> = self.verifying_keys().map(VerifyingKey::to_json).collect();
        json!({ "keys": keys })
    }

    /// Returns whether the issuer has metadata: only if its name is an `https` URL without query and fragment.
    pub fn has_metadata(&self) -> bool {
        let host = self.name().strip_prefix("https://");
        let is_url = host.is_some_and(|host| !host.is_empty() && !host.contains(['?', '#']));
        let jwks_uri = self.jwks_uri.as_deref();
        let is_reachable = jwks_uri.is_none_or(|url| url.starts_with("https://"));
        is_url && is_reachable && self.problem.is_none()
    }

    /// Returns the metadata of the issuer, with a URL of the key set below `base` (such as `https://127.0.0.1:6443`),
    /// or without `base` below the URL of the issuer.
    pub fn metadata(&self, base: Option<&str>) -> Option<Value> {
        if !self.has_metadata() {
            return None;
        }
        let issuer = self.name();
        let jwks_uri = self.jwks_uri.clone().unwrap_or_else(|| {
            let base = base.unwrap_or(issuer).trim_end_matches('/');
            format!("{base}{KEY_SET_PATH}")
        });
        let algorithms = self.verifying_keys().map(|key| key.algorithm().name());
        let mut algorithms: Vec<&str> = algorithms.collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        Some(json!({
            "issuer": issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        }))
    }
}

#[cfg(test)]
mod tests;
