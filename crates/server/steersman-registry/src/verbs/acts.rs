//! Machine: subresources that perform an action (acts): bindings, evictions, tokens, logs and connections.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::conditions;
use steersman_apimachinery::status::{FieldError, GroupResource, Status};
use steersman_schema::resource::StorageKey;
use steersman_schema::subresources::Act;
use steersman_store::Stored;

use crate::requests::options::WriteOptions;
use crate::requests::{intake, metadata, request_kinds};
use crate::state::registry::Registry;
use crate::values::{items, text};

/// A POST to a subresource that performs an action, such as `pods/binding`, in place of storing the body.
#[derive(Debug, Clone, Copy)]
pub struct ActRequest<'a> {
    /// The action of the subresource: bind, evict or issue a token.
    pub act: Act,
    /// The namespace of the Pod or ServiceAccount.
    pub namespace: &'a str,
    /// The name of the Pod or ServiceAccount; empty if only the body has the name, as in a POST to `bindings`.
    pub name: &'a str,
    /// The body of the request, such as a Binding, Eviction or TokenRequest.
    pub body: &'a Value,
}

impl Registry {
    /// Binds or evicts a Pod, or issues a token for a ServiceAccount. Returns the object for the response; `None` if
    /// the response is a `Status` of success.
    ///
    /// # Errors
    /// Returns the `Status` of the refusal; nothing has changed then.
    pub fn act(
        &mut self,
        request: ActRequest<'_>,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Option<Value>, Status> {
        self.now = now;
        let (dry, validation) = intake::options("CreateOptions", options)?;
        let kind = match request.act {
            Act::Bind => request_kinds::BINDING,
            Act::Evict => request_kinds::EVICTION,
            Act::Token => request_kinds::TOKEN_REQUEST,
            Act::Log | Act::Connect | Act::Review => return Err(Status::method_not_allowed()),
        };
        let mut body = request.body.clone();
        self.note_unknown(kind.read(&self.catalogue, &mut body, validation)?);
        let request = ActRequest {
            body: &body,
            ..request
        };
        let within = metadata::text(&body, "namespace");
        if !within.is_empty() && within != request.namespace {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Status::bad_request(why));
        }
        self.admit_act(&request, options)?;
        match request.act {
            Act::Bind => self.bind(request, dry).map(|()| None),
            Act::Evict => self.evict(request, options).map(|()| None),
            Act::Token => {
                let mut token = self.token(request)?;
                self.track_token(&mut token, options);
                Ok(Some(token))
            }
            Act::Log | Act::Connect | Act::Review => Err(Status::method_not_allowed()),
        }
    }

    /// Returns the log of a Pod's container, or of the container's `previous` run; `None` for a Pod without a node. The
    /// log is always empty, because this server runs no containers.
    ///
    /// # Errors
    /// 404 for an absent Pod; 400 for a container that the Pod does not have, for a missing container name if the Pod
    /// has several, and for a missing previous run.
    pub fn pod_log(
        &self,
        namespace: &str,
        name: &str,
        (container, previous): (&str, bool),
    ) -> Result<Option<String>, Status> {
        let pod = self.pod(namespace, name)?;
        let container = chosen_container(pod.lean(), name, container)?;
        if node_of(pod.lean()).is_empty() {
            return Ok(None);
        }
        if previous && !has_ended_before(&pod.lean()["status"], container) {
            // In a cluster, the kubelet refuses the request with this message (`validateContainerLogStatus`).
            let message = format!(
                "previous terminated container \"{container}\" in pod \"{name}\" not found"
            );
            return Err(Status::bad_request(message));
        }
        Ok(Some(String::new()))
    }

    /// Builds the `Status` that refuses a connection such as exec or proxy, because there are no kubelets and no
    /// endpoints. For an exec or attach, `container` is the named container, or empty for the only container of the
    /// Pod; otherwise `None`.
    pub fn no_connection(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
        container: Option<&str>,
    ) -> Status {
        // In `https:name:443`, the scheme is before the name of the Service, and the port is after it.
        let mut parts = name.split(':');
        let first = parts.next().unwrap_or_default();
        let bare = match (parts.next(), parts.next()) {
            (Some(second), Some(_)) => second,
            _ => first,
        };
        let namespace = if plural == "nodes" { "" } else { namespace };
        let found = match self.existing(("", plural), namespace, bare) {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        if plural == "services" {
            let message = format!("no endpoints available for service \"{bare}\"");
            return Status::failure(503, "ServiceUnavailable", message);
        }
        let chosen = container.map(|container| chosen_container(found.lean(), bare, container));
        if let Some(Err(refusal)) = chosen {
            return refusal;
        }
        let node = match plural {
            "nodes" => bare,
            _ => node_of(found.lean()),
        };
        if node.is_empty() {
            return Status::bad_request(format!("pod {bare} does not have a host assigned"));
        }
        let why = format!("error dialing backend: no kubelet runs on node \"{node}\"");
        Status::internal(why)
    }

    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        self.existing(("", "pods"), namespace, name).cloned()
    }

    fn bind(&mut self, request: ActRequest<'_>, dry: bool) -> Result<(), Status> {
        let (namespace, body) = (request.namespace, request.body);
        let own = metadata::text(body, "name");
        let name = match request.name {
            "" => own,
            name => name,
        };
        if own != name {
            let message = "name in URL does not match name in Binding object";
            return Err(Status::bad_request(message));
        }
        let node = node_to_bind(&body["target"])?;
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let pod = self.pod(namespace, name)?;
        check_preconditions(body, &pod, namespace, name)?;
        if let Some(why) = cannot_be_bound(pod.lean(), name) {
            let group_resource = GroupResource::new("", "pods/binding");
            return Err(Status::conflict(group_resource, name, &why));
        }
        if dry {
            return Ok(());
        }
        let mut draft = pod.draft();
        let value = &mut draft.value;
        metadata::members(&mut value["spec"]).insert("nodeName".to_owned(), node.into());
        metadata::members(&mut value["status"]).remove("nominatedNodeName");
        for field in ["annotations", "labels"] {
            if let Some(more) = body["metadata"][field].as_object() {
                metadata::map_in(metadata::of(value), field).extend(more.clone());
            }
        }
        self.take_topology(value);
        let scheduled = json!({
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": metadata::time(self.now),
        });
        conditions::put(value, scheduled);
        self.put(&StorageKey::new("", "pods"), namespace, name, draft);
        Ok(())
    }
}

fn node_to_bind(target: &Value) -> Result<&str, Status> {
    let mut errors = Vec::new();
    if !matches!(text(&target["kind"]), "" | "Node") {
        let supported = ["\"Node\"", "\"<empty>\""].map(str::to_owned);
        let kind = target["kind"].to_string();
        errors.push(FieldError::not_supported("target.kind", &kind, &supported));
    }
    let node = text(&target["name"]);
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    let print = |error: &FieldError| format!("{}: {}", error.field, error.message);
    let all: Vec<String> = errors.iter().map(print).collect();
    match all.as_slice() {
        [] => Ok(node),
        [one] => Err(Status::internal_plain(one.clone())),
        several => Err(Status::internal_plain(format!("[{}]", several.join(", ")))),
    }
}

/// Refuses with 409 a Binding with another `uid` or `resourceVersion` than the stored Pod.
fn check_preconditions(
    binding: &Value,
    pod: &Stored,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    for (field, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, found) = (metadata::text(binding, field), pod.meta(field));
        if !wanted.is_empty() && wanted != found {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {found}"
            );
            return Err(Status::conflict(GroupResource::new("", "pods"), name, &why));
        }
    }
    Ok(())
}

/// Returns the name of the container in a request for a log or connection: the named container, or the only container
/// of the Pod if the name is empty. 400 if the Pod lacks the container, or has several and the name is empty.
fn chosen_container<'a>(pod: &'a Value, name: &str, container: &'a str) -> Result<&'a str, Status> {
    let names = |field: &str| -> Vec<&'a str> {
        let containers = items(&pod["spec"][field]).iter();
        containers.filter_map(|one| one["name"].as_str()).collect()
    };
    let (own, init) = (names("containers"), names("initContainers"));
    let refuse = |message: String| Err(Status::bad_request(message));
    if !container.is_empty() {
        let known = own.contains(&container)
            || init.contains(&container)
            || names("ephemeralContainers").contains(&container);
        return match known {
            true => Ok(container),
            false => refuse(format!("container {container} is not valid for pod {name}")),
        };
    }
    let choose = format!("a container name must be specified for pod {name}");
    match own[..] {
        [only] => Ok(only),
        [] => refuse(choose),
        _ if init.is_empty() => refuse(format!("{choose}, choose one of: [{}]", own.join(" "))),
        _ => refuse(format!(
            "{choose}, choose one of: [{}] or one of the init containers: [{}]",
            own.join(" "),
            init.join(" ")
        )),
    }
}

/// Returns whether the container has a previous run, which has ended before the container was restarted.
fn has_ended_before(status: &Value, container: &str) -> bool {
    let lists = [
        "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses",
    ];
    let all = lists.iter().flat_map(|list| items(&status[*list]));
    let mut own = all.filter(|one| one["name"] == container);
    own.any(|one| one["lastState"]["terminated"].is_object())
}

fn node_of(pod: &Value) -> &str {
    text(&pod["spec"]["nodeName"])
}

fn cannot_be_bound(pod: &Value, name: &str) -> Option<String> {
    if !metadata::text(pod, "deletionTimestamp").is_empty() {
        return Some(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    let node = node_of(pod);
    if !node.is_empty() {
        return Some(format!("pod {name} is already assigned to node \"{node}\""));
    }
    let gated = !items(&pod["spec"]["schedulingGates"]).is_empty();
    gated.then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
}
