//! Machine: checks ServiceAccount tokens that kube-controller-manager stores in Secrets, and records their last use
//! (upstream: `pkg/serviceaccount/legacy.go`).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use steersman_auth::{SERVICE_ACCOUNT_PREFIX, User};
use steersman_store::Stored;

use super::bearer::{INVALIDATED, ValidToken};
use crate::objects::field_owners::SERVER;
use crate::requests::metadata;
use crate::requests::options::Subresource;
use crate::state::registry::Registry;
use crate::values::text;

/// The label that makes the token of a Secret invalid. kube-controller-manager sets it for unused tokens.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// The label of a Secret with the day on which its token was last used. kube-controller-manager reads it to find unused
/// tokens.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

impl Registry {
    /// Checks a token from a Secret: the Secret must exist and still have this token, and the ServiceAccount must exist
    /// (AUTH-2). Such a token does not expire.
    pub(super) fn judge_secret_token(
        &self,
        claims: &Value,
        token: &str,
        wanted: &[String],
        now: Timestamp,
    ) -> Result<ValidToken, String> {
        let audiences = self.audiences_of(claims, wanted)?;
        let subject = wanted_text(claims, "sub", "sub")?;
        let claim = |name: &str, title: &str| {
            let name = format!("kubernetes.io/serviceaccount/{name}");
            wanted_text(claims, &name, title)
        };
        let namespace = claim("namespace", "namespace")?;
        let secret = claim("secret.name", "secretName")?;
        let name = claim("service-account.name", "serviceAccountName")?;
        let uid = claim("service-account.uid", "serviceAccountUID")?;
        if subject.strip_prefix(SERVICE_ACCOUNT_PREFIX) != Some(&format!("{namespace}:{name}")) {
            return Err("sub claim is invalid".to_owned());
        }
        let stored = self.object(("", "secrets"), namespace, secret);
        let stored = stored.filter(|stored| !stored.is_terminating());
        let stored = stored.ok_or_else(|| INVALIDATED.to_owned())?;
        let held = STANDARD.decode(text(&stored.look()["data"]["token"]));
        if held.as_deref().ok() != Some(token.as_bytes()) {
            return Err("service account token does not match server's copy".to_owned());
        }
        let invalid_since = stored.label(INVALID_SINCE);
        if invalid_since.is_some_and(|since| !since.is_empty()) {
            self.note_secret_use(stored, now);
            return Err(format!(
                "the token in secret {namespace}/{secret} for service account {namespace}/{name} has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
            ));
        }
        let account = self.object(("", "serviceaccounts"), namespace, name);
        let account = account.ok_or_else(|| format!("serviceaccounts \"{name}\" not found"))?;
        if account.is_terminating() {
            return Err(format!(
                "service account {namespace}/{name} has been deleted"
            ));
        }
        let own = account.meta("uid");
        if own != uid {
            return Err(format!(
                "service account UID ({own}) does not match claim ({uid})"
            ));
        }
        self.note_secret_use(stored, now);
        let user = Arc::new(User::service_account(namespace, name).uid(uid));
        Ok(ValidToken { user, audiences })
    }

    /// Returns whether [`mark_used_secrets`](Self::mark_used_secrets) has to write the labels of used Secrets.
    pub fn has_used_secrets(&self) -> bool {
        !self.used_secrets.borrow().is_empty()
    }

    /// Writes the day of `now` into the last-used label of each Secret with a token that was used since the last call
    /// (upstream: `patchSecretWithLastUsedDate`). No webhook is called.
    pub fn mark_used_secrets(&mut self, now: Timestamp) {
        self.now = now;
        let used = std::mem::take(self.used_secrets.get_mut());
        let resource = self.resource("", "v1", "secrets");
        let Some(resource) = resource.filter(|_| !used.is_empty()) else {
            return;
        };
        for (namespace, name) in used {
            let found = self.store.get(&resource.storage, &namespace, &name);
            let Some(stored) = found.cloned() else {
                continue;
            };
            let mut secret = stored.look().into_owned();
            let labels = metadata::map_in(metadata::of(&mut secret), "labels");
            labels.insert(LAST_USED.to_owned(), day(now).into());
            let face = (&*resource, Subresource::Main);
            let draft = self.server_write(face, SERVER, (&stored, secret));
            self.put(&resource.storage, &namespace, &name, draft);
        }
    }

    /// Records a Secret with a used token for [`mark_used_secrets`](Self::mark_used_secrets), unless its last-used
    /// label has this day already, or the next day, which another server with a faster clock may have written.
    fn note_secret_use(&self, secret: &Stored, now: Timestamp) {
        let tomorrow = now.saturating_add(SignedDuration::from_hours(24));
        let days = [day(now), day(tomorrow.unwrap_or(now))];
        let last = secret.label(LAST_USED).unwrap_or_default();
        if !days.iter().any(|day| day == last) {
            let address = (Arc::clone(&secret.namespace), Arc::clone(&secret.name));
            self.used_secrets.borrow_mut().insert(address);
        }
    }
}

/// Returns the day of a time in UTC, as in labels of Secrets: `2024-03-10`.
fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

fn wanted_text<'a>(claims: &'a Value, name: &str, title: &str) -> Result<&'a str, String> {
    match text(&claims[name]) {
        "" => Err(format!("{title} claim is missing")),
        text => Ok(text),
    }
}
