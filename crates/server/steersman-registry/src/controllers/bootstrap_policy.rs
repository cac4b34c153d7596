//! Machine: creates missing objects when a server starts: the ServiceAccounts and ConfigMaps of namespaces, and with
//! RBAC the default roles and bindings.

use jiff::Timestamp;
use steersman_auth::{
    Authorization, BootstrapObject, Reconciliation, bootstrap_objects, reconcile,
};
use steersman_schema::resource::StorageKey;

use crate::objects::field_owners::SERVER;
use crate::requests::options::Subresource;
use crate::state::registry::Registry;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Registry {
    /// Creates the missing ServiceAccounts and ConfigMaps of all namespaces and, with RBAC, the missing default roles
    /// and bindings. Existing default roles and bindings get missing rules and subjects back, unless their annotation
    /// `rbac.authorization.kubernetes.io/autoupdate` is `false`. Call this at the start of a server.
    pub fn bootstrap(&mut self, now: Timestamp) {
        self.now = now;
        self.note_lacks();
        self.settle();
        if self.options.authorization != Authorization::Rbac {
            return;
        }
        for object in bootstrap_objects() {
            self.ensure_policy(object);
            // Keeps the stored objects as bytes only, because most of these roles are never read.
            self.store.fold_all();
        }
        self.settle();
        self.aggregate_roles();
        self.store.fold_all();
    }

    /// Creates a default role or binding, or adds missing rules and subjects to it, without webhooks and policies.
    fn ensure_policy(&mut self, object: BootstrapObject) {
        let (namespace, name) = (object.namespace, object.name.as_str());
        let storage = StorageKey::new(GROUP, object.plural);
        if let Some(stored) = self.store.get(&storage, namespace, name).cloned() {
            match reconcile(&stored.look(), &object.value) {
                Reconciliation::Keep => return,
                Reconciliation::Update(new) => {
                    let Some(resource) = self.resource(GROUP, "v1", object.plural) else {
                        return;
                    };
                    let face = (&*resource, Subresource::Main);
                    let draft = self.server_write(face, SERVER, (&stored, new));
                    self.put(&storage, namespace, name, draft);
                    return;
                }
                Reconciliation::Replace => {
                    self.remove(&storage, &stored);
                }
            }
        }
        let kind = (GROUP, object.plural);
        self.plant(kind, SERVER, (namespace, object.value));
    }
}
