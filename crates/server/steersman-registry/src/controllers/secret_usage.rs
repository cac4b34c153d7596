//! Machine: writes the day of the last use into the Secrets that hold tokens of ServiceAccounts.
//!
//! Kubernetes source: `patchSecretWithLastUsedDate` of `pkg/serviceaccount/legacy.go`.

use jiff::Timestamp;
use serde_json::Value;

use super::standard_objects::SERVER;
use crate::requests::metadata;
use crate::requests::options::Subresource;
use crate::state::registry::Registry;
use crate::subresources::secret_token::{LAST_USED, day};

impl Registry {
    /// Returns whether [`mark_used_secrets`](Self::mark_used_secrets) has work.
    #[must_use]
    pub fn has_used_secrets(&self) -> bool {
        !self.used_secrets.borrow().is_empty()
    }

    /// Writes the day into the Secrets with tokens that were used since the last call. Like writes of the
    /// garbage collector it passes no webhooks.
    pub fn mark_used_secrets(&mut self, now: Timestamp) {
        self.now = now;
        let used = std::mem::take(self.used_secrets.get_mut());
        let Some(resource) = self
            .resource("", "v1", "secrets")
            .filter(|_| !used.is_empty())
        else {
            return;
        };
        for (namespace, name) in used {
            let found = self.store.get(&resource.storage, &namespace, &name);
            let Some(stored) = found.cloned() else {
                continue;
            };
            let mut secret = stored.look().into_owned();
            let labels = metadata::of(&mut secret)
                .entry("labels")
                .or_insert_with(Value::default);
            metadata::members(labels).insert(LAST_USED.to_owned(), day(now).into());
            let face = (&*resource, Subresource::Main);
            let draft = self.server_write(face, SERVER, (&stored, secret));
            self.put(&resource.storage, &namespace, &name, draft);
        }
    }
}
