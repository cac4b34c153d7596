//! Machine: whether there is anything at all that requests have to be held against.

use steersman_schema::resource::StorageKey;

use crate::store::Store;

/// The kinds whose objects say something about requests for others, by the names of their storages.
const WEBHOOKS: [&str; 2] = [
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
];
const JUDGES: [&str; 2] = [
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
];
const CHANGERS: [&str; 2] = [
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
];
const QUOTAS: [&str; 1] = ["resourcequotas."];

/// What stands in the store that requests are held against. Every request asks, and most servers
/// have none of it, so it is known without a look into the store.
///
/// It is looked at anew with every write to one of those kinds (ADM-3).
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a kind of rule of its own"
)]
pub(super) struct Standing {
    /// Whether there is a configuration of webhooks.
    pub(super) webhooks: bool,
    /// Whether there is a quota in any namespace.
    pub(super) quotas: bool,
    /// How often configurations of webhooks were written: what was compiled before is old.
    pub(super) webhooks_edition: u64,
    /// Whether there is a binding of a policy that judges.
    pub(super) judges: bool,
    /// Whether there is a binding of a policy that changes objects.
    pub(super) changers: bool,
    /// How often policies or their bindings were written: what was compiled before is old.
    pub(super) policies_edition: u64,
}

impl Standing {
    /// Takes notice of a write to a storage.
    pub(super) fn notice(&mut self, store: &Store, storage: &StorageKey) {
        let any = |names: &[&str]| {
            let mut all = names.iter().map(|name| StorageKey::parse(name));
            all.any(|storage| store.list(&storage, None).next().is_some())
        };
        let name = storage.as_str();
        if WEBHOOKS.contains(&name) {
            self.webhooks = any(&WEBHOOKS);
            self.webhooks_edition += 1;
        } else if JUDGES.contains(&name) {
            self.judges = any(&JUDGES[1..]);
            self.policies_edition += 1;
        } else if CHANGERS.contains(&name) {
            self.changers = any(&CHANGERS[1..]);
            self.policies_edition += 1;
        } else if QUOTAS.contains(&name) {
            self.quotas = any(&QUOTAS);
        }
    }
}
