//! Machine: bearer tokens: registered tokens, and signed tokens of ServiceAccounts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, header};
use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::tls13::OkmBlock;
use serde_json::{Value, json};

use super::user::User;

/// The registered tokens and their users.
#[derive(Clone, Default)]
pub struct Tokens {
    users: HashMap<String, TokenUser>,
}

/// The user of a token.
#[derive(Clone)]
struct TokenUser {
    user: Arc<User>,
    /// Whether the token is saved in snapshots.
    kept: bool,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Registers a token for a user. An empty token is ignored. A token that is `kept` is part of
    /// snapshots.
    pub fn add(&mut self, token: String, user: Arc<User>, kept: bool) {
        if !token.is_empty() {
            self.users.insert(token, TokenUser { user, kept });
        }
    }

    /// Returns the user of a token.
    pub fn get(&self, token: &str) -> Option<Arc<User>> {
        self.users.get(token).map(|known| Arc::clone(&known.user))
    }

    /// Returns the tokens that are part of snapshots.
    #[must_use]
    pub fn kept(&self) -> Self {
        let all = self.users.iter().filter(|(_, known)| known.kept);
        Self {
            users: all
                .map(|(token, known)| (token.clone(), known.clone()))
                .collect(),
        }
    }

    /// Serialises users by their tokens, in order, for a snapshot.
    pub fn to_json(&self) -> Value {
        let all = self.users.iter();
        let all: BTreeMap<_, _> = all
            .map(|(token, known)| (token, known.user.info()))
            .collect();
        json!(all)
    }

    /// Parses the output of [`to_json`](Self::to_json) (SRV-SNAP-4).
    ///
    /// # Errors
    /// Fails with the position, from 0, of the first token with an invalid user, and the problem.
    /// The error never contains the token itself.
    pub fn from_json(text: &serde_json::Map<String, Value>) -> Result<Self, (usize, &'static str)> {
        let mut tokens = Self::default();
        for (number, (token, info)) in text.iter().enumerate() {
            let user = User::of_info(info).map_err(|problem| (number, problem))?;
            if token.is_empty() {
                return Err((number, "it is empty"));
            }
            tokens.add(token.clone(), Arc::new(user), true);
        }
        Ok(tokens)
    }
}

/// Returns the bearer token of a request, as `bearertoken.New` does. A header of another scheme
/// counts as no credential.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let mut parts = value.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// The key that signs the tokens of ServiceAccounts. The tokens are JWTs as in a cluster, except
/// that the key is symmetric, because only the server checks them.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Returns the key that these bytes are.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Serialises the key for a snapshot.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Parses the output of [`to_text`](Self::to_text).
    pub fn from_text(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Signs a token with these claims.
    pub fn issue(&self, claims: &Value) -> String {
        let header = json!({ "alg": "HS256", "typ": "JWT" });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&header), part(claims));
        let signature = self.sign(&text);
        format!("{text}.{signature}")
    }

    /// Returns the claims of a token that this key signed.
    pub fn claims(&self, token: &str) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        if self.sign(text) != signature {
            return None;
        }
        let (_, claims) = text.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    fn sign(&self, text: &str) -> String {
        let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
            // The cipher suite has TLS 1.3 in its name. Without it no signature is valid.
            return String::new();
        };
        let key = OkmBlock::new(&self.0);
        let tag = suite.hkdf_provider.hmac_sign(&key, text.as_bytes());
        URL_SAFE_NO_PAD.encode(tag.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_schemes_than_bearer_count_as_no_credential() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(read("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(read("bEARER abc def").as_deref(), Some("abc"));
        for none in ["Basic YTpi", "Bearer", "Bearer  abc", "abc"] {
            assert_eq!(read(none), None, "{none}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    /// AUTH-2: only tokens that the server signed are accepted.
    #[test]
    fn a_token_that_was_changed_or_signed_by_another_key_is_refused() {
        let key = Key::new([1; 32]);
        let token = key.issue(&json!({"sub": "a"}));
        assert_eq!(key.claims(&token).unwrap()["sub"], "a");
        assert_eq!(Key::new([2; 32]).claims(&token), None);
        let (text, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = text.split_once('.').unwrap();
        let forged = URL_SAFE_NO_PAD.encode(json!({"sub": "b"}).to_string());
        assert_eq!(key.claims(&format!("{header}.{forged}.{signature}")), None);
        for odd in ["", ".", "..", "a.b.c", "a.b.", &format!("{text}.")] {
            assert_eq!(key.claims(odd), None, "{odd}");
        }
    }
}
