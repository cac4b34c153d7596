//! Machine: checks further permissions that some requests need; the caller has checked the permission for their verb.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_apimachinery::status::{FieldError, Status};
use steersman_auth::{Attributes, User, node_of_account};

use crate::requests::options::ObjectTarget;
use crate::state::registry::Registry;
use crate::values::{items, text};

const DEVICES: &str = "resource.k8s.io";

/// The label that a Namespace needs so that ResourceClaims in it may use devices with administrator access.
const ADMIN: &str = "resource.kubernetes.io/admin-access";

/// The subresources of a Pod that open a stream. They need the permission `create`, even for a GET, for which only
/// `get` was checked before.
const STREAMS: [&str; 3] = ["attach", "exec", "portforward"];

impl Registry {
    /// Checks the permission `create` for a PUT or an apply of an object that does not exist (AUTH-5: both create it).
    ///
    /// Upstream: `withAuthorization` in `endpoints/handlers/update.go`.
    pub(crate) fn authorize_creation(
        &self,
        target: ObjectTarget<'_>,
        user: &User,
    ) -> Result<(), Status> {
        let ObjectTarget { resource, name, .. } = target;
        let asked = Attributes::of("create", &resource.group, &resource.plural, name);
        let asked = asked.within(target.scope());
        let refusal = self.refusal_besides(user, &asked);
        refusal.map_or(Ok(()), |reason| Err(asked.forbidden(user, &reason)))
    }

    /// Checks the permission `create` for a request that opens a stream to a Pod, also for a GET (AUTH-5).
    ///
    /// Upstream: `ensureAuthorizedForVerb` in `pkg/registry/core/pod/rest/authorization.go`.
    pub(crate) fn authorize_stream(
        &self,
        target: ObjectTarget<'_>,
        part: &str,
        user: &User,
    ) -> Result<(), Status> {
        let ObjectTarget { resource, name, .. } = target;
        if resource.plural != "pods" || !STREAMS.contains(&part) {
            return Ok(());
        }
        let mut asked = Attributes::of("create", "", "pods", name).within(target.scope());
        part.clone_into(&mut asked.subresource);
        // As upstream, the message of the 403 is just the authorizer's reason, which is often empty.
        let refusal = self.refusal_besides(user, &asked);
        refusal.map_or(Ok(()), |reason| {
            Err(Status::forbidden(resource.group_resource(), name, &reason))
        })
    }

    /// Returns the reason why the authorizer refuses the permission `asked`; `None` if the user has it.
    fn refusal_besides(&self, user: &User, asked: &Attributes) -> Option<String> {
        // A user without a name is the program that embeds the server, which may do everything.
        if user.name.is_empty() {
            return None;
        }
        let decision = self.authorizer().authorize(user, asked);
        (!decision.allowed).then_some(decision.reason)
    }

    /// Checks the two permissions for a status write of a ResourceClaim (AUTH-6): `resourceclaims/binding` for changed
    /// allocations and reservations, which schedulers write, and `resourceclaims/driver` for the status of a driver's
    /// devices. `verb` is `update` or `patch`.
    ///
    /// Upstream: `AuthorizedForBinding` and `AuthorizedForDeviceStatus` in `pkg/registry/resource/utils.go`.
    pub(crate) fn check_claim_rights(
        &self,
        target: ObjectTarget<'_>,
        user: &User,
        verb: &str,
        (new, old): (&Value, &Value),
    ) -> Vec<FieldError> {
        let ObjectTarget { resource, .. } = target;
        let is_claim = resource.is(DEVICES, "ResourceClaim");
        if !is_claim || user.name.is_empty() {
            return Vec::new();
        }
        let (new, old) = (&new["status"], &old["status"]);
        let refused = |verb: &str, part: &str, (namespace, name): (&str, &str)| {
            let mut asked = Attributes::of(verb, DEVICES, &resource.plural, name).within(namespace);
            part.clone_into(&mut asked.subresource);
            let decision = self.authorizer().authorize(user, &asked);
            let refusal = asked.forbidden(user, &decision.reason);
            (!decision.allowed).then_some(refusal.message)
        };
        let mut errors = Vec::new();
        let is_kept = |field: &str| is_same(&new[field], &old[field]);
        if (!is_kept("allocation") || !is_kept("reservedFor"))
            && let Some(why) = refused(verb, "binding", ("", ""))
        {
            let detail = format!(
                "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: {why}"
            );
            errors.push(FieldError::forbidden("status", &detail));
        }
        let mut verbs = vec![format!("arbitrary-node:{verb}")];
        let node = allocated_node(&new["allocation"]);
        if node.is_some() && node_of_account(user) == node {
            verbs.insert(0, format!("associated-node:{verb}"));
        }
        for driver in changed_drivers(new, old) {
            let place = (target.scope(), driver);
            let refuse = |verb: &String| refused(verb, "driver", place);
            let refusals: Vec<String> = verbs.iter().filter_map(refuse).collect();
            if refusals.len() == verbs.len()
                && let Some(why) = refusals.first()
            {
                let detail = format!(
                    "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {why}",
                    verbs.join(" ")
                );
                errors.push(FieldError::forbidden("status.devices", &detail));
            }
        }
        errors
    }

    /// Refuses devices with administrator access in a Namespace without the label that allows it (AUTH-7): in a new
    /// claim or template, and in an allocation that a status write adds.
    ///
    /// Upstream: `AuthorizedForAdmin` and `AuthorizedForAdminStatus` in `pkg/registry/resource/utils.go`.
    pub(crate) fn check_admin_access(
        &self,
        target: ObjectTarget<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Option<FieldError> {
        let resource = target.resource;
        let spec = if resource.is(DEVICES, "ResourceClaim") {
            "/spec"
        } else if resource.is(DEVICES, "ResourceClaimTemplate") {
            "/spec/spec"
        } else {
            return None;
        };
        let (list, flag, shown) = if old.is_some() {
            (
                "/status/allocation/devices/results".to_owned(),
                "/adminAccess",
                "status.allocation.devices.results",
            )
        } else {
            (
                format!("{spec}/devices/requests"),
                "/exactly/adminAccess",
                "spec.devices.requests",
            )
        };
        let first = |object: &Value| {
            let items = object.pointer(&list)?.as_array()?.iter();
            let mut flags = items.map(|item| item.pointer(flag));
            flags.position(|flag| flag.is_some_and(|flag| *flag == true))
        };
        let index = first(new)?;
        if old.is_some_and(|old| first(old).is_some()) {
            return None;
        }
        let namespace = self.object(("", "namespaces"), "", target.scope());
        let labels = namespace.map(|found| found.value["metadata"]["labels"][ADMIN].clone());
        if labels.is_some_and(|label| label == "true") {
            return None;
        }
        let detail = format!(
            "admin access to devices requires the `{ADMIN}: true` label on the containing namespace"
        );
        let path = format!("{shown}[{index}].adminAccess");
        Some(FieldError::forbidden(path, &detail))
    }
}

/// Returns whether two values of a field are equal, where an empty list and an absent field count as equal.
fn is_same(left: &Value, right: &Value) -> bool {
    let is_empty = |value: &Value| items(value).is_empty();
    left == right || (is_empty(left) && is_empty(right) && !left.is_object() && !right.is_object())
}

/// Returns the only node on which the devices of an allocation can be used; `None` if other nodes can use them, too.
fn allocated_node(allocation: &Value) -> Option<&str> {
    let [term] = items(&allocation["nodeSelector"]["nodeSelectorTerms"]) else {
        return None;
    };
    let ([field], []) = (
        items(&term["matchFields"]),
        items(&term["matchExpressions"]),
    ) else {
        return None;
    };
    let is_name = field["key"] == "metadata.name" && field["operator"] == "In";
    match items(&field["values"]) {
        [node] if is_name => node.as_str().filter(|node| !node.is_empty()),
        _ => None,
    }
}

/// Returns the names of the drivers with a device status that differs between `new` and `old`, in alphabetical order.
fn changed_drivers<'a>(new: &'a Value, old: &'a Value) -> BTreeSet<&'a str> {
    let devices = |status: &'a Value| items(&status["devices"]).iter();
    let key = |device: &'a Value| {
        ["driver", "pool", "device", "shareID"].map(|field| text(&device[field]))
    };
    let differs = |device: &'a Value, others: &'a Value| {
        let same = devices(others).find(|other| key(other) == key(device));
        same.is_none_or(|same| same != device)
    };
    let changed = devices(new).filter(|device| differs(device, old));
    let removed = devices(old).filter(|device| differs(device, new));
    changed
        .chain(removed)
        .map(|device| key(device)[0])
        .collect()
}
