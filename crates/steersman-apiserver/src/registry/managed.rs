//! Machine: keeps `metadata.managedFields` over writes.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::patch::apply::{
    Entries, Manager, Operation, PathElement, Reach, cap, update, update_field,
};
use crate::schema::Resource;
use crate::schema::types::TypeRef;

use super::manager;
use super::metadata;
use super::options::{Subresource, WriteOptions};
use super::scale::wanted;
use super::state::Registry;

/// Who owns the fields after a write.
#[derive(Debug, Clone)]
pub(super) enum Ownership<'a> {
    /// The request's manager owns what the write changes.
    Track(&'a WriteOptions),
    /// This was found out already.
    Given(Option<Value>),
}

/// The name of a subresource in an entry; empty for the object itself.
pub(super) fn subresource_name(subresource: Subresource) -> &'static str {
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

/// The members of an object that a subresource does not write, so that nobody owns them through
/// it.
pub(super) fn ignored<'a>(
    resource: &Resource,
    subresource: Subresource,
    object: &'a Value,
) -> Vec<&'a str> {
    match subresource {
        Subresource::Status | Subresource::Approval => {
            let labelled = resource.built_in && matches!(resource.kind.as_str(), "Pod" | "Node");
            let members = object.as_object().into_iter().flatten();
            let names = members.map(|(name, _)| name.as_str());
            names
                .filter(|name| *name != "status" && !(labelled && *name == "metadata"))
                .collect()
        }
        _ if resource.status => vec!["status"],
        _ => Vec::new(),
    }
}

/// The path to the number that a kind's `/scale` writes.
pub(super) fn replicas_path(resource: &Resource) -> Vec<PathElement> {
    let keys = resource.scale.iter().flat_map(|scale| &scale.spec_replicas);
    keys.map(|key| PathElement::field(key)).collect()
}

/// What of a new object is decided before it is complete: who wrote it.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Fields of the spec that the server fills in, and nobody owns then.
    left_out: Vec<&'static str>,
    /// Lists that were sent without elements: of the object (false) or of its spec (true).
    emptied: Vec<(bool, String)>,
}

/// Notes what the author of a new object left to the server.
pub(super) fn asked(resource: &Resource, object: &Value) -> Asked {
    if !resource.built_in {
        return Asked::default();
    }
    let assigned: &[&str] = match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => &["preemptionPolicy", "priority", "tolerations"],
        ("", "Service") => &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"],
        _ => &[],
    };
    let spec = object.get("spec");
    let has = |field: &str| spec.is_some_and(|spec| spec.get(field).is_some());
    let empty = |(_, value): &(&String, &Value)| value.as_array().is_some_and(Vec::is_empty);
    let emptied = |of: Option<&Value>, below: bool| {
        let members = of.and_then(Value::as_object).into_iter().flatten();
        let names = members.filter(empty).map(|(name, _)| (below, name.clone()));
        names.collect::<Vec<_>>()
    };
    let mut lists = emptied(Some(object), false);
    lists.extend(emptied(spec, true));
    Asked {
        left_out: assigned.iter().copied().filter(|f| !has(f)).collect(),
        emptied: lists,
    }
}

impl Asked {
    /// Makes the state before a create hold what nobody is to own, and not hold what was sent
    /// without elements and is kept as null.
    fn adjust(&self, before: &mut Value, object: &mut Value) -> Vec<(bool, String)> {
        for field in &self.left_out {
            if let Some(value) = object.get("spec").and_then(|spec| spec.get(*field)) {
                let spec = metadata::members(before)
                    .entry("spec")
                    .or_insert(Value::Null);
                metadata::members(spec).insert((*field).to_owned(), value.clone());
            }
        }
        let mut filled = Vec::new();
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
                filled.push((*below, name.clone()));
            }
        }
        filled
    }
}

/// The managedFields of an object.
pub(super) fn sent(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Labels and annotations that came to a subresource of a Pod. It does not write them, and yet who
/// sent them owns them.
pub(super) fn named_beside(subresource: Subresource, new: &Value) -> Option<Value> {
    let writes_less = matches!(
        subresource,
        Subresource::EphemeralContainers | Subresource::Resize
    );
    writes_less.then(|| {
        let metadata = new.get("metadata").and_then(Value::as_object);
        let fields = metadata.into_iter().flatten();
        let taken = fields.filter(|(name, _)| matches!(name.as_str(), "labels" | "annotations"));
        taken.map(|(n, v)| (n.clone(), v.clone())).collect()
    })
}

/// The managedFields that came with an object; what is decoded has none.
pub(super) fn take(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.remove("managedFields")
}

/// Puts managedFields into an object, or takes them out.
pub(super) fn put(object: &mut Value, managed: Option<Value>) {
    let fields = metadata::of(object);
    match managed {
        Some(managed) => fields.insert("managedFields".to_owned(), managed),
        None => fields.remove("managedFields"),
    };
}

/// Whether two states of an object differ in nothing but the times of their managedFields, which
/// also decide their order.
pub(super) fn same_but_times(left: &Value, right: &Value) -> bool {
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else {
        return false;
    };
    let alike = |left: &Map<String, Value>, right: &Map<String, Value>, but: &str| {
        let same = |(name, value): (&String, &Value)| name == but || right.get(name) == Some(value);
        left.len() == right.len() && left.iter().all(same)
    };
    let metadata = |object: &Map<String, Value>| object.get("metadata")?.as_object().cloned();
    if !alike(left, right, "metadata") {
        return false;
    }
    let (Some(left), Some(right)) = (metadata(left), metadata(right)) else {
        return false;
    };
    let entries = |metadata: &Map<String, Value>| {
        let entries = metadata.get("managedFields")?.as_array()?.iter();
        let mut timeless: Vec<String> = entries
            .map(|entry| {
                let mut entry = entry.clone();
                metadata::members(&mut entry).remove("time");
                entry.to_string()
            })
            .collect();
        timeless.sort_unstable();
        Some(timeless)
    };
    alike(&left, &right, "managedFields")
        && entries(&left).is_some_and(|left| Some(left) == entries(&right))
}

/// The entries that a request starts from: those it sends, unless it sends none that can be read;
/// a subresource cannot send any. An empty list, or one empty entry, is a wish to have none.
fn start(subresource: Subresource, sent: Option<&Value>, old: &Value) -> Entries {
    let kept = || Entries::stored(self::sent(old)).unwrap_or_default();
    if subresource != Subresource::Main {
        return kept();
    }
    match sent.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => Entries::default(),
        Some([Value::Object(only)]) if only.is_empty() => Entries::default(),
        _ => match Entries::read(sent) {
            Ok(entries) if !entries.is_empty() => entries,
            _ => kept(),
        },
    }
}

impl Registry {
    /// The `apiVersion`s in which the objects of a resource are served.
    pub(super) fn versions_of(&self, resource: &Resource) -> Vec<String> {
        let all = self.catalogue.all().iter();
        let same = all.filter(|other| other.storage == resource.storage);
        same.map(|other| other.api_version()).collect()
    }

    /// Notes the owners of a new object.
    pub(super) fn track_create(
        &self,
        resource: &Resource,
        object: &mut Value,
        (asked, ownership): (&Asked, Ownership<'_>),
        now: Timestamp,
    ) {
        let managed = match ownership {
            _ if !self.options.track_managed_fields => None,
            Ownership::Given(managed) => managed,
            Ownership::Track(options) => {
                let version = resource.api_version();
                let versions = [version.clone()];
                let mut before = Value::Object(Map::new());
                let filled = asked.adjust(&mut before, object);
                let ignored = ignored(resource, Subresource::Main, object);
                let reach = Reach {
                    ty: TypeRef::of(resource),
                    version: &version,
                    versions: &versions,
                    ignored: &ignored,
                };
                let manager =
                    Manager::new(&manager::name_of(options), Operation::Update, &version, "");
                let mut entries = Entries::default();
                let states = (&before, &*object);
                update(&reach, &mut entries, &manager, states, &metadata::time(now));
                for (below, name) in filled {
                    let holder = if below {
                        &mut object["spec"]
                    } else {
                        &mut *object
                    };
                    metadata::members(holder).insert(name, Value::Null);
                }
                entries.write()
            }
        };
        put(object, managed);
    }

    /// Notes the owners of an object after an update. `sent` are the managedFields that came with
    /// the request, `named` is what else it sent and did not write.
    pub(super) fn track_update(
        &self,
        (resource, subresource): (&Resource, Subresource),
        (before, after): (&Value, &mut Value),
        (named, sent): (Option<Value>, Option<&Value>),
        ownership: &Ownership<'_>,
        now: Timestamp,
    ) {
        let managed = match ownership {
            _ if !self.options.track_managed_fields => None,
            Ownership::Given(managed) => managed.clone(),
            Ownership::Track(options) => {
                let mut entries = start(subresource, sent, before);
                if !entries.is_empty() {
                    let who = (resource, subresource, manager::name_of(options));
                    match named {
                        Some(Value::Object(named)) if !named.is_empty() => {
                            let mut sent = after.clone();
                            metadata::of(&mut sent).extend(named);
                            self.note_update(who, (before, &sent), &mut entries, now);
                        }
                        _ => self.note_update(who, (before, after), &mut entries, now),
                    }
                }
                entries.write()
            }
        };
        put(after, managed);
    }

    fn note_update(
        &self,
        (resource, subresource, name): (&Resource, Subresource, String),
        (before, after): (&Value, &Value),
        entries: &mut Entries,
        now: Timestamp,
    ) {
        let version = resource.api_version();
        let part = subresource_name(subresource);
        let manager = Manager::new(&name, Operation::Update, &version, part);
        if subresource == Subresource::Scale {
            let path = replicas_path(resource);
            let changed = wanted(resource, before) != wanted(resource, after);
            // An update takes what it changes; only an apply is refused.
            let _ = update_field(entries, &manager, (&path, &version), changed, true);
        } else {
            let versions = self.versions_of(resource);
            let ignored = ignored(resource, subresource, after);
            let reach = Reach {
                ty: TypeRef::of(resource),
                version: &version,
                versions: &versions,
                ignored: &ignored,
            };
            let time = metadata::time(now);
            update(&reach, entries, &manager, (before, after), &time);
        }
        cap(entries);
    }

    /// Notes who asked for a token, of which nothing is kept.
    pub(super) fn track_token(&self, token: &mut Value, options: &WriteOptions, now: Timestamp) {
        if !self.options.track_managed_fields {
            return;
        }
        let mut before = token.clone();
        before["spec"] = serde_json::json!({"boundObjectRef": token["spec"]["boundObjectRef"]});
        let version = "authentication.k8s.io/v1".to_owned();
        let name = manager::name_of(options);
        let manager = Manager::new(&name, Operation::Update, &version, "token");
        let reach = Reach {
            ty: TypeRef::untyped(),
            version: &version,
            versions: std::slice::from_ref(&version),
            ignored: &["status"],
        };
        let mut entries = Entries::default();
        let states = (&before, &*token);
        update(&reach, &mut entries, &manager, states, &metadata::time(now));
        put(token, entries.write());
    }

    /// Notes that the server itself wrote the status of an object.
    pub(super) fn track_own_status(
        &self,
        resource: &Resource,
        before: &Value,
        after: &mut Value,
        now: Timestamp,
    ) {
        let options = WriteOptions {
            field_manager: Some("kube-apiserver".to_owned()),
            ..WriteOptions::default()
        };
        let ownership = Ownership::Track(&options);
        let face = (resource, Subresource::Status);
        self.track_update(face, (before, after), (None, None), &ownership, now);
    }
}
