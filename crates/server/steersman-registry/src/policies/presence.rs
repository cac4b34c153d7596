//! Machine: knows without reading the store whether any webhooks, admission policies or quotas exist.

use steersman_schema::resource::StorageKey;
use steersman_store::Store;

/// The storages (`<plural>.<group>`) of webhook configurations.
const WEBHOOKS: [&str; 2] = [
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
];
const VALIDATING: [&str; 2] = [
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
];
const MUTATING: [&str; 2] = [
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
];
const QUOTAS: [&str; 1] = ["resourcequotas."];

/// Whether webhooks, admission policies and quotas exist. Every write has to know, and most servers have no such
/// objects, so these flags spare reads of the store.
///
/// Each write of a webhook configuration, policy, binding or quota updates the flags (ADM-3: never outdated).
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Presence {
    pub(crate) webhooks: bool,
    pub(crate) quotas: bool,
    /// The number of writes and deletions of webhook configurations; webhooks compiled at a smaller number are stale.
    pub(crate) webhooks_edition: u64,
    /// Whether any binding of a validating policy exists; a policy without bindings does nothing.
    pub(crate) validating_policies: bool,
    /// Whether any binding of a mutating policy exists; a policy without bindings does nothing.
    pub(crate) mutating_policies: bool,
    /// The number of writes and deletions of policies and bindings; policies compiled at a smaller number are outdated.
    pub(crate) policies_edition: u64,
}

impl Presence {
    pub(crate) fn notice(&mut self, store: &Store, storage: &StorageKey) {
        let any = |names: &[&str]| {
            let mut all = names.iter().map(|name| StorageKey::parse(name));
            all.any(|storage| store.list(&storage, None).next().is_some())
        };
        let name = storage.as_str();
        if WEBHOOKS.contains(&name) {
            self.webhooks = any(&WEBHOOKS);
            self.webhooks_edition += 1;
        } else if VALIDATING.contains(&name) {
            self.validating_policies = any(&VALIDATING[1..]);
            self.policies_edition += 1;
        } else if MUTATING.contains(&name) {
            self.mutating_policies = any(&MUTATING[1..]);
            self.policies_edition += 1;
        } else if QUOTAS.contains(&name) {
            self.quotas = any(&QUOTAS);
        }
    }
}
