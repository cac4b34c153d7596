//! Machine: registered bearer tokens, and the bearer token of a request.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::{HeaderMap, header};
use serde_json::{Value, json};

use super::user::User;

/// The registered tokens and their users.
#[derive(Clone, Default, derive_more::Debug)]
pub struct Tokens {
    /// By token, the user, and whether the token is saved in snapshots.
    #[debug(skip)]
    users: HashMap<String, (Arc<User>, bool)>,
}

impl Tokens {
    /// Registers a token for a user, and ignores an empty token. Snapshots include a token that is `kept`.
    pub fn add(&mut self, token: String, user: Arc<User>, kept: bool) {
        if !token.is_empty() {
            self.users.insert(token, (user, kept));
        }
    }

    /// Returns the user of a registered token.
    pub fn get(&self, token: &str) -> Option<Arc<User>> {
        self.users.get(token).map(|(user, _)| Arc::clone(user))
    }

    /// Returns the registered tokens that snapshots include.
    #[must_use]
    pub fn kept(&self) -> Self {
        let mut kept = self.clone();
        kept.users.retain(|_, (_, is_kept)| *is_kept);
        kept
    }

    /// Returns the tokens as JSON for a snapshot: the user of each token, sorted by token.
    pub fn to_json(&self) -> Value {
        let all = self.users.iter();
        json!(
            all.map(|(token, (user, _))| (token, &**user))
                .collect::<BTreeMap<_, _>>()
        )
    }

    /// Parses the output of [`to_json`](Self::to_json) (SRV-SNAP-4).
    ///
    /// # Errors
    /// Fails with the position (from 0) and the problem of the first token with an invalid user. The error never
    /// contains the token.
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

/// Returns the bearer token of a request, as `bearertoken.New` does; `None` for a header of another scheme.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let mut parts = value.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
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
}
