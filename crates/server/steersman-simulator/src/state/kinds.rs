//! Words: the resources that are played, and the user that acts for each.

use std::sync::Arc;

use steersman_auth::User;
use steersman_registry::Registry;
use steersman_schema::resource::Resource;

use super::facts::Kind;

/// The resources that are played, looked up once because built-in resources never change.
#[derive(Debug)]
pub(crate) struct Kinds {
    known: Vec<Arc<Resource>>,
    pub(crate) revisions: Arc<Resource>,
    pub(crate) slices: Arc<Resource>,
    pub(crate) endpoints: Arc<Resource>,
    pub(crate) events: Arc<Resource>,
    /// The user of the controller of each kind.
    users: Vec<Arc<User>>,
}

impl Kinds {
    /// Looks up the resources; `None` if the registry lacks one of them, which no registry does.
    pub(crate) fn of_registry(registry: &Registry) -> Option<Self> {
        let known = Kind::ALL.map(|kind| {
            let (group, version, plural) = kind.path();
            registry.resource(group, version, plural)
        });
        let users = Kind::ALL.map(|kind| {
            let name = match kind {
                Kind::Node => "node-controller",
                Kind::Pod => "kube-scheduler",
                Kind::ReplicaSet => "replicaset-controller",
                Kind::StatefulSet => "statefulset-controller",
                Kind::DaemonSet => "daemon-set-controller",
                Kind::Job => "job-controller",
                Kind::CronJob => "cronjob-controller",
                Kind::Deployment => "deployment-controller",
                Kind::Service => "endpointslice-controller",
                Kind::Claim | Kind::Volume | Kind::Class => "persistent-volume-binder",
                Kind::Budget => "disruption-controller",
            };
            Arc::new(User::service_account("kube-system", name))
        });
        Some(Self {
            users: users.into(),
            known: known.into_iter().collect::<Option<_>>()?,
            revisions: registry.resource("apps", "v1", "controllerrevisions")?,
            slices: registry.resource("discovery.k8s.io", "v1", "endpointslices")?,
            endpoints: registry.resource("", "v1", "endpoints")?,
            events: registry.resource("", "v1", "events")?,
        })
    }

    /// Returns the user that acts for this kind.
    pub(crate) fn user(&self, kind: Kind) -> &Arc<User> {
        // As in `of` below: the list follows `Kind::ALL`.
        &self.users[kind as usize]
    }

    pub(crate) fn of(&self, kind: Kind) -> &Arc<Resource> {
        // The list was built from `Kind::ALL`, which has the order of the enum.
        &self.known[kind as usize]
    }
}
