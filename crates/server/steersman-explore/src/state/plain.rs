//! Machine: drops from a state what each write changes, and what a scenario ignores.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};
use steersman_apimachinery::times;

use crate::object_id::{ObjectId, ObjectMap};
use crate::scenario::IgnoredPart;
use crate::state::generated::generated_prefix;
use crate::state::holders::TextHolders;
use crate::state::lists::sort_lists;
use crate::state::texts::{edit_texts, visit_texts};

const TIME: &str = "<time>";

/// The members of `metadata` that differ from write to write.
const DROPPED_METADATA: [&str; 6] = [
    "resourceVersion", "uid", "creationTimestamp", "managedFields", "generation", "selfLink",
];

/// Annotations that tell how an object came to its state: `kubectl apply` repeats the object, and the controller of
/// Deployments counts the rollouts.
const HISTORY: [&str; 3] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/revision-history",
];

/// The objects of a server without what each write changes, and the objects that their texts refer to.
#[derive(Debug, Default)]
pub(super) struct PlainState {
    pub(super) objects: ObjectMap,
    pub(super) holders: TextHolders,
    /// Texts that stand for generated names.
    pub(super) generated: HashSet<String>,
}

impl PlainState {
    /// Returns the state of a server: without Leases, Events, ignored parts, and the metadata of writes. Times become
    /// `<time>`, and observed generations `current` or `stale`.
    pub(super) fn of(objects: &ObjectMap, ignore: &[IgnoredPart]) -> Self {
        let mut state = Self::default();
        // The generated names of dropped objects have no numbers.
        let mut dropped: HashMap<String, BTreeMap<String, String>> = HashMap::new();
        for (id, object) in objects {
            let mut shown = id.clone();
            if is_dropped(id, ignore)
                && let Some(prefix) = generated_prefix(&id.name, object)
            {
                shown.name = format!("{prefix}*");
                let namespaces = dropped.entry(id.name.clone()).or_default();
                namespaces.insert(id.namespace.clone(), shown.name.clone());
                state.generated.insert(shown.name.clone());
            }
            state.holders.add(&shown, object);
        }
        for (id, object) in objects {
            if is_dropped(id, ignore) {
                continue;
            }
            let mut object = object.clone();
            remove_ignored(id, &mut object, ignore);
            simplify(id, &mut object);
            edit_texts(&mut object, &mut |place, text| {
                if !place.is_key() && is_time(text) {
                    return Some(TIME.to_owned());
                }
                dropped.get(text)?.get(&id.namespace).cloned()
            });
            state.objects.insert(id.clone(), object);
        }
        state
    }

    /// Returns the members that hold versions of objects of the same namespace.
    pub(super) fn version_members(&self) -> BTreeSet<String> {
        let mut members = BTreeSet::new();
        for (id, object) in &self.objects {
            visit_texts(object, &mut |place, text| {
                let found = self.holders.find(place, &id.namespace, text);
                if found.is_some_and(|(what, _)| what == "version") {
                    members.insert(place.member_name().to_owned());
                }
            });
        }
        members
    }

    /// Replaces the uids, addresses and versions in the objects, and sorts lists without order.
    pub(super) fn finish(mut self) -> ObjectMap {
        for (id, object) in &mut self.objects {
            edit_texts(object, &mut |place, text| {
                let replaced =
                    self.holders
                        .replacement(place, &id.namespace, text, ObjectId::clone)?;
                let (_, holder) = self.holders.find(place, &id.namespace, text).unzip();
                if holder.is_some_and(|holder| self.generated.contains(&holder.name)) {
                    self.generated.insert(replaced.clone());
                }
                Some(replaced)
            });
        }
        for object in self.objects.values_mut() {
            sort_lists(object, &self.generated);
        }
        self.objects
    }
}

/// Returns whether objects are not compared: Leases and Events, which each run renews, IPAddresses, which repeat the
/// addresses of Services as names, and ignored kinds.
fn is_dropped(id: &ObjectId, ignore: &[IgnoredPart]) -> bool {
    let is_housekeeping = matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("coordination.k8s.io", "Lease")
            | ("networking.k8s.io", "IPAddress")
            | ("" | "events.k8s.io", "Event")
    );
    is_housekeeping
        || ignore
            .iter()
            .any(|part| part.kind == id.kind && part.field.is_none())
}

fn remove_ignored(id: &ObjectId, object: &mut Value, ignore: &[IgnoredPart]) {
    let fields = ignore.iter().filter(|part| part.kind == id.kind);
    for field in fields.filter_map(|part| part.field.as_ref()) {
        let before = object.clone();
        field.remove(object);
        remove_emptied(&before, object);
    }
}

/// Removes members that have lost all their content, so that an object with an ignored field equals an object without.
fn remove_emptied(before: &Value, after: &mut Value) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, before) in before {
                let Some(member) = after.get_mut(name) else {
                    continue;
                };
                remove_emptied(before, member);
                if is_empty(member) && !is_empty(before) {
                    after.remove(name);
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (before, after) in before.iter().zip(after) {
                remove_emptied(before, after);
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn simplify(id: &ObjectId, object: &mut Value) {
    if id.kind == "Service" && id.group.is_empty() {
        hide_assigned_ports(object);
    }
    let generation = object["metadata"]["generation"].as_i64();
    if let (Some(generation), Some(status)) = (generation, object.get_mut("status")) {
        compare_generations(status, generation);
    }
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return;
    };
    for name in DROPPED_METADATA {
        metadata.remove(name);
    }
    if let Some(deleted) = metadata.get_mut("deletionTimestamp") {
        *deleted = TIME.into();
    }
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        let before = annotations.len();
        annotations.retain(|name, _| !HISTORY.contains(&name.as_str()));
        if annotations.is_empty() && before > 0 {
            metadata.remove("annotations");
        }
    }
}

/// Replaces the node ports of a Service, unless a client chose one: the server counts them up.
fn hide_assigned_ports(service: &mut Value) {
    let managers = service["metadata"]["managedFields"].to_string();
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let hide = |members: &mut Map<String, Value>, name: &str| {
        let is_chosen = managers.contains(&format!("\"f:{name}\""));
        if let Some(port @ Value::Number(_)) = members.get_mut(name)
            && !is_chosen
            && *port != 0
        {
            *port = "<node port>".into();
        }
    };
    hide(spec, "healthCheckNodePort");
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        hide(port, "nodePort");
    }
}

/// Replaces each `observedGeneration` by whether it is the generation of the object.
fn compare_generations(value: &mut Value, generation: i64) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::Number(observed) if name == "observedGeneration" => {
                        let is_current = observed.as_i64() == Some(generation);
                        *member = if is_current { "current" } else { "stale" }.into();
                    }
                    member => compare_generations(member, generation),
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| compare_generations(item, generation)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns whether a text is a time in the form of RFC 3339.
fn is_time(text: &str) -> bool {
    // The message of a failed check would cost an allocation for each text.
    let bytes = text.as_bytes();
    let may_be =
        bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && bytes[0].is_ascii_digit();
    may_be && times::check(text).is_ok()
}
