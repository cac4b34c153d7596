//! Words: the resources that the simulator reads and writes, and the user for each controller's writes.

use std::sync::Arc;

use steersman_auth::User;
use steersman_registry::Registry;
use steersman_schema::resource::Resource;

use super::facts::{KINDS, SimulatedKind};

/// The resources that the simulator handles. They are looked up once, because built-in resources never change.
#[derive(Debug)]
pub(crate) struct Kinds {
    known: Vec<Arc<Resource>>,
    pub(crate) revisions: Arc<Resource>,
    pub(crate) slices: Arc<Resource>,
    pub(crate) endpoints: Arc<Resource>,
    pub(crate) events: Arc<Resource>,
    /// The ServiceAccount that writes for the controller of each kind, in the order of `SimulatedKind`.
    users: Vec<Arc<User>>,
}

impl Kinds {
    /// Looks up the resources in a registry. `None` cannot happen: every registry serves these built-in resources.
    pub(crate) fn of_registry(registry: &Registry) -> Option<Self> {
        let known = KINDS.map(|row| registry.resource(row.group, "v1", row.plural));
        let user = |name: &str| Arc::new(User::service_account("kube-system", name));
        Some(Self {
            users: KINDS.map(|row| user(row.user)).into(),
            known: known.into_iter().collect::<Option<_>>()?,
            revisions: registry.resource("apps", "v1", "controllerrevisions")?,
            slices: registry.resource("discovery.k8s.io", "v1", "endpointslices")?,
            endpoints: registry.resource("", "v1", "endpoints")?,
            events: registry.resource("", "v1", "events")?,
        })
    }

    pub(crate) fn user(&self, kind: SimulatedKind) -> &Arc<User> {
        // The index is in range: `users` has an element for each row of `KINDS`, in the order of the enum.
        &self.users[kind as usize]
    }

    pub(crate) fn of(&self, kind: SimulatedKind) -> &Arc<Resource> {
        // The index is in range: `known` has an element for each row of `KINDS`, in the order of the enum.
        &self.known[kind as usize]
    }
}
