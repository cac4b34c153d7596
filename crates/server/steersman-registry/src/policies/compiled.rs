//! Machine: caches compiled policies and webhooks until their configurations change.

use std::sync::Arc;

use steersman_schema::resource::StorageKey;
use steersman_store::{Store, Stored};

use crate::webhook::RegisteredWebhook;

use super::mutation::Mutating;
use super::policy::{BoundPolicy, Rules};
use super::validation::Validating;

/// The API group of the configurations; no webhook is called for its objects.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// The policies of a kind that have bindings.
type Policies<R> = Arc<Vec<BoundPolicy<R>>>;

/// The compiled webhooks and policies of the server, each kind in the order of the names of the
/// configurations.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// The edition of `Presence` that the policies were compiled from; 0 before the first
    /// compilation.
    policies: u64,
    validating: Policies<Validating>,
    mutating: Policies<Mutating>,
    /// The edition of `Presence` that the webhooks were compiled from; 0 before the first
    /// compilation.
    hooks: u64,
    validating_hooks: Arc<Vec<RegisteredWebhook>>,
    mutating_hooks: Arc<Vec<RegisteredWebhook>>,
}

impl Compiled {
    /// Returns the ValidatingAdmissionPolicies with bindings, as of this edition (ADM-4).
    pub(crate) fn validating(&mut self, store: &Store, edition: u64) -> Policies<Validating> {
        self.renew_policies(store, edition);
        Arc::clone(&self.validating)
    }

    /// Returns the MutatingAdmissionPolicies with bindings, as of this edition (ADM-4).
    pub(crate) fn mutating(&mut self, store: &Store, edition: u64) -> Policies<Mutating> {
        self.renew_policies(store, edition);
        Arc::clone(&self.mutating)
    }

    /// Returns the webhooks, as of this edition (ADM-4).
    pub(crate) fn hooks(
        &mut self,
        store: &Store,
        edition: u64,
        mutating: bool,
    ) -> Arc<Vec<RegisteredWebhook>> {
        if self.hooks != edition {
            let of = |plural: &str| {
                let all = all(store, plural);
                let hooks = all
                    .iter()
                    .flat_map(|one| RegisteredWebhook::all_of(&one.value));
                Arc::new(hooks.collect())
            };
            self.validating_hooks = of("validatingwebhookconfigurations");
            self.mutating_hooks = of("mutatingwebhookconfigurations");
            self.hooks = edition;
        }
        Arc::clone(if mutating {
            &self.mutating_hooks
        } else {
            &self.validating_hooks
        })
    }

    fn renew_policies(&mut self, store: &Store, edition: u64) {
        if self.policies == edition {
            return;
        }
        self.validating = bound(store);
        self.mutating = bound(store);
        self.policies = edition;
    }
}

/// Compiles the policies of a kind.
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

/// Returns the objects of a kind.
fn all(store: &Store, plural: &str) -> Vec<Arc<Stored>> {
    let storage = StorageKey::new(GROUP, plural);
    store.list(&storage, None).cloned().collect()
}
