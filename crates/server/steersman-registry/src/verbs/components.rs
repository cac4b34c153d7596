//! Machine: reads ComponentStatuses (the health of control plane components), which are computed and never stored.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_apimachinery::status::Status;
use steersman_schema::resource::Resource;

use crate::requests::options::{ListQuery, StoredPage, VersionedObject};
use crate::requests::select::Selectors;
use crate::state::registry::Registry;
use crate::values::text;

/// The components of a control plane, each with the name of its Lease in `kube-system`. The server itself takes the
/// place of etcd, which has no Lease.
const COMPONENTS: [(&str, Option<&str>); 3] = [
    ("controller-manager", Some("kube-controller-manager")),
    ("etcd-0", None),
    ("scheduler", Some("kube-scheduler")),
];

impl Registry {
    /// Returns the ComponentStatus of one component, such as `scheduler`.
    ///
    /// # Errors
    /// 500 without a reason for the name of another component, as upstream.
    pub fn component_status(&self, name: &str, now: Timestamp) -> Result<VersionedObject, Status> {
        let all = self.component_statuses(&ListQuery::default(), now)?;
        let mut all = all.items.into_iter();
        all.find(|object| object.name() == name)
            .ok_or_else(|| Status::internal_plain(format!("Component not found: {name}")))
    }

    /// Returns the ComponentStatuses that the selectors match. The list has no resource version.
    ///
    /// # Errors
    /// 400 for a selector that does not parse.
    pub fn component_statuses(
        &self,
        options: &ListQuery,
        now: Timestamp,
    ) -> Result<StoredPage, Status> {
        let selection = Selectors::parse(options)?;
        let selection = match self.resource("", "v1", "componentstatuses") {
            Some(resource) => selection.of(&resource, None)?,
            None => selection,
        };
        let statuses = COMPONENTS.iter().map(|&(name, lease)| {
            let problem = lease.and_then(|lease| self.problem_of(name, lease, now));
            Self::answer("", name, component(name, problem), 0)
        });
        Ok(StoredPage {
            items: statuses
                .filter(|status| selection.matches(&status.stored))
                .collect(),
            ..StoredPage::default()
        })
    }

    /// Returns the reason why a component is unhealthy; `None` if this process simulates the component, or if the
    /// component's Lease is held. (Upstream sends a request to a port of its machine.)
    fn problem_of(&self, component: &str, lease: &str, now: Timestamp) -> Option<String> {
        if self.options.played_components.contains(&component) {
            return None;
        }
        let found = self.object(("coordination.k8s.io", "leases"), "kube-system", lease);
        let why = match found.map(|found| found.look()) {
            None => "the Lease does not exist",
            Some(found) if is_held(&found["spec"], now) => return None,
            Some(_) => "the Lease is not held",
        };
        Some(format!(
            "kube-system/{lease}: {why}, and {component} is not played by this server"
        ))
    }
}

/// Returns whether a resource must be read with [`Registry::component_statuses`] and not from the store.
pub fn is_component_status(resource: &Resource) -> bool {
    resource.is("", "ComponentStatus")
}

fn component(name: &str, problem: Option<String>) -> Value {
    let status = if problem.is_some() { "False" } else { "True" };
    let message = problem.unwrap_or_else(|| "ok".to_owned());
    json!({
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": status, "message": message}],
    })
}

/// Returns whether a Lease has a holder, and has not expired at `now`.
fn is_held(lease: &Value, now: Timestamp) -> bool {
    let seconds = lease["leaseDurationSeconds"].as_i64().unwrap_or_default();
    let renewed = text(&lease["renewTime"]).parse();
    let end = renewed.and_then(|at: Timestamp| at.checked_add(SignedDuration::from_secs(seconds)));
    !text(&lease["holderIdentity"]).is_empty() && end.is_ok_and(|end| end >= now)
}
