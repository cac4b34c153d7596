//! Machine: caches the compiled admission policies and webhooks, and compiles them again after a change.

use std::sync::Arc;

use steersman_schema::resource::StorageKey;
use steersman_store::{Store, Stored};

use crate::webhook::RegisteredWebhook;

use super::mutation::Mutating;
use super::policy::{BoundPolicy, Rules};
use super::presence::Presence;
use super::validation::Validating;

/// The API group of admission policies and webhook configurations.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// The compiled validating policies, or the compiled mutating policies, that have at least one binding.
type Policies<R> = Arc<Vec<BoundPolicy<R>>>;

/// The compiled webhooks and policies of the server, sorted by the names of the policies and webhook configurations.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// The `policies_edition` and `webhooks_edition` of [`Presence`] at the last compilation; 0 before the first.
    policies_edition: u64,
    webhooks_edition: u64,
    pub(crate) validating: Policies<Validating>,
    pub(crate) mutating: Policies<Mutating>,
    pub(crate) validating_hooks: Arc<Vec<RegisteredWebhook>>,
    pub(crate) mutating_hooks: Arc<Vec<RegisteredWebhook>>,
}

impl Compiled {
    /// Returns the compiled policies and webhooks. Compiles them again if a policy or webhook has changed since the
    /// last call (ADM-4: a write is never judged by an outdated policy).
    pub(crate) fn renewed(&mut self, store: &Store, presence: &Presence) -> &Self {
        if self.policies_edition != presence.policies_edition {
            self.validating = bound(store);
            self.mutating = bound(store);
            self.policies_edition = presence.policies_edition;
        }
        if self.webhooks_edition != presence.webhooks_edition {
            let of = |plural: &str| {
                let all = all(store, plural).into_iter();
                let hooks = all.flat_map(|one| RegisteredWebhook::all_of(&one.value));
                Arc::new(hooks.collect())
            };
            self.validating_hooks = of("validatingwebhookconfigurations");
            self.mutating_hooks = of("mutatingwebhookconfigurations");
            self.webhooks_edition = presence.webhooks_edition;
        }
        self
    }
}

fn bound<R: Rules>(store: &Store) -> Policies<R> {
    let (policies, bindings) = R::PLURALS;
    let bindings = all(store, bindings);
    let policies = all(store, policies);
    let policies = policies
        .iter()
        .map(|one| BoundPolicy::compile(&one.value, bindings.iter().map(|one| &*one.value)));
    let bound = policies.filter(|one: &BoundPolicy<R>| !one.policy.bindings.is_empty());
    Arc::new(bound.collect())
}

fn all(store: &Store, plural: &str) -> Vec<Arc<Stored>> {
    let storage = StorageKey::new(GROUP, plural);
    store.list(&storage, None).cloned().collect()
}
