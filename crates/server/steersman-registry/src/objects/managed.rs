//! Machine: reads, compares and writes the `metadata.managedFields` of objects.

use std::borrow::Cow;

use serde_json::{Map, Value};
use steersman_patch::apply::{ManagerEntries, PathElement};
use steersman_schema::resource::{Resource, StatusMetadata};
use steersman_store::ManagedFields;

use crate::requests::options::{Subresource, WriteOptions};
use crate::requests::{metadata, subresource_fields};

/// Whether the managedFields of a written object are still to be computed, or are given.
#[derive(Debug, Clone)]
pub(crate) enum Ownership<'a> {
    /// The field manager in these options becomes the owner of the fields that the write changes.
    Track(&'a WriteOptions),
    /// The managedFields are already computed, as JSON; `None` for no managedFields.
    Given(Option<String>),
}

/// Returns the name of a subresource in managedFields entries; empty for the object itself.
pub(crate) fn subresource_name(subresource: Subresource) -> &'static str {
    match subresource {
        Subresource::Main => "",
        Subresource::Status => "status",
        Subresource::Scale => "scale",
        Subresource::Finalize => "finalize",
        Subresource::EphemeralContainers => "ephemeralcontainers",
        Subresource::Resize => "resize",
        Subresource::Approval => "approval",
    }
}

/// Returns the top-level fields that a write to this subresource cannot change. The field manager of such a write does
/// not become their owner.
pub(crate) fn ignored<'a>(
    resource: &Resource,
    subresource: Subresource,
    object: &'a Value,
) -> Vec<&'a str> {
    let all_but = |written: &[&str]| {
        let members = object.as_object().into_iter().flatten();
        let names = members.map(|(name, _)| name.as_str());
        names.filter(|name| !written.contains(name)).collect()
    };
    match subresource {
        Subresource::Status if resource.status_metadata == StatusMetadata::Kept => {
            all_but(&["status"])
        }
        Subresource::Status | Subresource::Approval => all_but(&["status", "metadata"]),
        // The spec of a CertificateSigningRequest is immutable, so an update owns nothing in it.
        Subresource::Main if resource.is("certificates.k8s.io", "CertificateSigningRequest") => {
            vec!["spec", "status"]
        }
        _ if subresource_fields::keeps_status(resource) => vec!["status"],
        _ => Vec::new(),
    }
}

/// Returns an apply configuration without the metadata that a status write ignores: the manager must not own them.
pub(crate) fn without_kept<'a>(
    resource: &Resource,
    subresource: Subresource,
    configuration: &'a Value,
) -> Cow<'a, Value> {
    let kept = match (subresource, resource.status_metadata) {
        (Subresource::Status, rule @ (StatusMetadata::LabelsKept | StatusMetadata::OwnersKept)) => {
            rule.kept()
        }
        _ => return Cow::Borrowed(configuration),
    };
    let mut limited = configuration.clone();
    if let Some(fields) = limited.get_mut("metadata").and_then(Value::as_object_mut) {
        fields.retain(|name, _| !kept.contains(&name.as_str()));
    }
    Cow::Owned(limited)
}

pub(crate) fn replicas_path(resource: &Resource) -> Vec<PathElement> {
    let keys = resource.scale.iter().flat_map(|scale| &scale.spec_replicas);
    keys.map(|key| PathElement::field(key)).collect()
}

/// The fields of a new object that the client left out or sent empty. Recorded before the server sets fields, so that
/// the client's field manager does not become the owner of fields that the server has set.
#[derive(Debug, Default)]
pub(crate) struct SentFields {
    /// The fields of the spec that the client did not send and the server may set. No field manager owns them.
    left_out: Vec<&'static str>,
    /// The fields with an empty list that the client sent: at the top of the object (`false`), or in its spec (`true`).
    emptied: Vec<(bool, String)>,
}

/// Records which fields of a new object the client left out or sent empty. `object` is the object as the client sent
/// it, before the server sets any field.
pub(crate) fn sent_fields(resource: &Resource, object: &Value) -> SentFields {
    if !resource.built_in {
        return SentFields::default();
    }
    let assigned: &[&str] = match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => &["preemptionPolicy", "priority", "tolerations"],
        ("", "Service") => &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"],
        _ => &[],
    };
    let spec = object.get("spec");
    let has = |field: &str| spec.is_some_and(|spec| spec.get(field).is_some());
    let empty = |(_, value): &(&String, &Value)| value.as_array().is_some_and(Vec::is_empty);
    let mut emptied = Vec::new();
    for (of, below) in [(Some(object), false), (spec, true)] {
        let members = of.and_then(Value::as_object).into_iter().flatten();
        let names = members.filter(empty).map(|(name, _)| (below, name.clone()));
        emptied.extend(names);
    }
    SentFields {
        left_out: assigned.iter().copied().filter(|f| !has(f)).collect(),
        emptied,
    }
}

impl SentFields {
    /// Prepares the comparison that finds the owned fields of a new object, which are those that differ between
    /// `before` and `object`: copies fields without an owner to `before`, and turns nulls in `object` back into the
    /// empty lists that the client sent.
    pub(super) fn adjust(&self, before: &mut Value, object: &mut Value) {
        for field in &self.left_out {
            if let Some(value) = object.get("spec").and_then(|spec| spec.get(*field)) {
                let spec = metadata::map_in(metadata::members(before), "spec");
                spec.insert((*field).to_owned(), value.clone());
            }
        }
        for (below, name) in &self.emptied {
            let holder = if *below {
                object.get_mut("spec")
            } else {
                Some(&mut *object)
            };
            if let Some(list) = holder.and_then(|holder| holder.get_mut(name))
                && list.is_null()
            {
                *list = Value::Array(Vec::new());
            }
        }
    }
}

pub(crate) fn sent(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Returns the metadata in a write to a subresource that does not store metadata, because as in Kubernetes the field
/// manager owns these fields all the same. Null stands for a field that the request left out.
pub(crate) fn named_beside(
    resource: &Resource,
    subresource: Subresource,
    new: &Value,
) -> Option<Value> {
    let metadata = new.get("metadata").and_then(Value::as_object);
    let sent = |name: &str| metadata.and_then(|fields| fields.get(name)).cloned();
    let named: Map<String, Value> = match (subresource, resource.status_metadata) {
        (Subresource::EphemeralContainers | Subresource::Resize, _) => ["labels", "annotations"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), sent(name)?)))
            .collect(),
        (Subresource::Status, rule @ StatusMetadata::KeptButOwned) => {
            let fields = rule.kept().iter();
            let fields = fields.filter(|name| **name != "deletionTimestamp");
            fields
                .map(|name| ((*name).to_owned(), sent(name).unwrap_or_default()))
                .collect()
        }
        _ => return None,
    };
    Some(Value::Object(named))
}

/// Removes the managedFields from an object and returns them: most code handles objects without managedFields.
pub(crate) fn take(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.remove("managedFields")
}

pub(crate) fn put(object: &mut Value, managed: Option<Value>) {
    metadata::assign(metadata::of(object), "managedFields", managed);
}

/// Computes managedFields and sets them in an object, for code that reads them there, such as webhooks.
pub(crate) fn show(object: &mut Value, managed: &mut ManagedFields) {
    let mut managed = std::mem::take(managed);
    // Parsing cannot fail: the server itself wrote this JSON.
    let managed = managed.compute(object);
    let managed = managed.and_then(|text| serde_json::from_str(text).ok());
    put(object, managed);
}

/// Returns whether two managedFields, as JSON, differ at most in the times and the order of their entries.
pub(crate) fn differ_in_times(new: Option<&str>, old: Option<&str>) -> bool {
    let timeless = |managed: Option<&str>| {
        let entries: Vec<Value> = serde_json::from_str(managed?).ok()?;
        let mut texts: Vec<String> = entries
            .into_iter()
            .map(|mut entry| {
                metadata::members(&mut entry).remove("time");
                entry.to_string()
            })
            .collect();
        texts.sort_unstable();
        Some(texts)
    };
    if old == new {
        return true;
    }
    let old = timeless(old);
    old.is_some() && old == timeless(new)
}

/// Returns the managedFields entries to which a write adds its own: those that the request sent, or the stored ones
/// (`old`) if the request sent no valid entries or is for a subresource. A client can remove all entries: it sends an
/// empty list, or a list of one empty entry.
pub(super) fn start(
    subresource: Subresource,
    sent: Option<&Value>,
    old: Option<&str>,
) -> ManagerEntries {
    let kept = || ManagerEntries::stored(old).unwrap_or_default();
    if subresource != Subresource::Main {
        return kept();
    }
    match sent.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => ManagerEntries::default(),
        Some([Value::Object(only)]) if only.is_empty() => ManagerEntries::default(),
        _ => match ManagerEntries::read(sent) {
            Ok(entries) if !entries.is_empty() => entries,
            _ => kept(),
        },
    }
}
