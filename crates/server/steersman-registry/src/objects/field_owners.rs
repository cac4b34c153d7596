//! Machine: computes `metadata.managedFields` after creates and updates: within the write, or later, when the object is
//! serialised (SRV-STORE-10: most writes need not wait for this).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};
use steersman_patch::apply::{
    Manager, ManagerEntries, ManagerOperation, OwnershipContext, cap, update, update_field,
};
use steersman_schema::resource::Resource;
use steersman_schema::types::TypeRef;
use steersman_store::{Draft, ManagedFields, Stored};

use super::managed::{
    Ownership, SentFields, ignored, replicas_path, show, start, subresource_name, take,
};
use super::scale::wanted;
use crate::requests::intake::is_definition;
use crate::requests::options::{Subresource, WriteOptions};
use crate::requests::{manager, metadata};
use crate::state::registry::Registry;

/// The field manager in managedFields of most objects that the server itself writes.
pub(crate) const SERVER: &str = "kube-apiserver";

#[derive(Debug)]
struct TrackedUpdate {
    subresource: Subresource,
    manager: String,
    /// The `apiVersion`s of managedFields entries that are kept, from [`Registry::versions_of`].
    versions: Vec<String>,
    /// The metadata in a write to `status`, `resize` or `ephemeralcontainers`, which does not store metadata. As
    /// upstream, the field manager becomes the owner of these fields all the same (`managed::named_beside`).
    named: Option<Value>,
    sent: Option<Value>,
    now: Timestamp,
}

impl TrackedUpdate {
    /// Returns the managedFields after an update, as JSON. `before` and `after` are the object without managedFields,
    /// and `managed` are the managedFields before the update.
    fn managed(
        self,
        resource: &Resource,
        (before, after): (&Value, &Value),
        managed: Option<&str>,
    ) -> Option<String> {
        let mut entries = start(self.subresource, self.sent.as_ref(), managed);
        if !entries.is_empty() {
            match &self.named {
                Some(Value::Object(named)) if !named.is_empty() => {
                    let mut sent = after.clone();
                    let fields = metadata::of(&mut sent);
                    fields.extend(named.clone());
                    fields.retain(|_, value| !value.is_null());
                    self.note(resource, (before, &sent), &mut entries);
                }
                _ => self.note(resource, (before, after), &mut entries),
            }
        }
        entries.write()
    }

    fn note(
        &self,
        resource: &Resource,
        (before, after): (&Value, &Value),
        entries: &mut ManagerEntries,
    ) {
        if self.subresource == Subresource::Scale {
            let version = resource.api_version();
            let manager = Manager::new(&self.manager, ManagerOperation::Update, &version, "scale");
            let path = replicas_path(resource);
            let changed = wanted(resource, before) != wanted(resource, after);
            // The result has no error: an update takes fields over from other managers (`true`), without conflicts.
            let _ = update_field(entries, &manager, (&path, &version), changed, true);
        } else {
            let face = (resource, self.subresource);
            let owner = (self.manager.as_str(), &*self.versions);
            own_changes(face, owner, (before, after), entries, self.now);
        }
        cap(entries);
    }
}

/// Makes a field manager the owner of the fields that differ between `before` and `after`. Entries in `apiVersion`s
/// that are not in `versions` are dropped.
pub(crate) fn own_changes(
    (resource, subresource): (&Resource, Subresource),
    (manager, versions): (&str, &[String]),
    (before, after): (&Value, &Value),
    entries: &mut ManagerEntries,
    now: Timestamp,
) {
    let version = resource.api_version();
    let part = subresource_name(subresource);
    let manager = Manager::new(manager, ManagerOperation::Update, &version, part);
    let reach = OwnershipContext {
        ty: TypeRef::of(resource),
        version: &version,
        versions,
        ignored: &ignored(resource, subresource, after),
    };
    let time = metadata::time(now);
    update(&reach, entries, &manager, (before, after), &time);
}

impl Registry {
    /// Returns the `apiVersion`s in which a managedFields entry of a resource may be: the served versions of a built-in
    /// kind, and all versions of a CRD, also unserved ones, because their fields stay owned.
    pub(crate) fn versions_of(&self, resource: &Resource) -> Vec<String> {
        if !resource.built_in {
            let names = resource.definition_versions.iter();
            return names
                .map(|name| format!("{}/{name}", resource.group))
                .collect();
        }
        let all = self.catalogue.all.iter();
        let same = all.filter(|other| other.storage == resource.storage);
        same.map(|other| other.api_version()).collect()
    }

    /// Returns whether webhooks, policies or conversions get the objects of a resource. They must see the
    /// managedFields, which then cannot be computed later.
    pub(crate) fn shows_managed(&self, resource: &Resource) -> bool {
        self.is_judged() || resource.conversion.is_some()
    }

    pub(crate) fn created_managed_fields(
        &self,
        resource: &Resource,
        object: &Value,
        (asked, ownership): (SentFields, Ownership<'_>),
    ) -> ManagedFields {
        let options = match ownership {
            _ if !self.options.track_managed_fields => return ManagedFields::default(),
            Ownership::Given(managed) => return managed.into(),
            Ownership::Track(options) => options,
        };
        let (manager, now) = (manager::name_of(options), self.now);
        // The managedFields are computed later from this copy. The fields of plugins are removed: they have no owner.
        let mut object = object.clone();
        let mut compute = move |resource: &Resource| {
            let mut before = Value::Object(Map::new());
            asked.adjust(&mut before, &mut object);
            let mut entries = ManagerEntries::default();
            let face = (resource, Subresource::Main);
            let owner = (manager.as_str(), &[resource.api_version()][..]);
            own_changes(face, owner, (&before, &object), &mut entries, now);
            entries.write()
        };
        match self.resource_for_later(resource) {
            Some(resource) => ManagedFields::later(move |_| compute(&resource)),
            None => compute(resource).into(),
        }
    }

    /// Returns the managedFields of an updated object. `shown` is the stored object in the version of the request, and
    /// `after` the new object in this version.
    pub(crate) fn updated_managed_fields(
        &self,
        (resource, subresource): (&Resource, Subresource),
        (stored, shown, after): (&Arc<Stored>, &Stored, &Value),
        (named, sent): (Option<Value>, Option<Value>),
        ownership: &Ownership<'_>,
    ) -> ManagedFields {
        let options = match ownership {
            _ if !self.options.track_managed_fields => return ManagedFields::default(),
            Ownership::Given(managed) => return managed.clone().into(),
            Ownership::Track(options) => options,
        };
        let face = (resource, subresource);
        let manager = manager::name_of(options);
        let tracked = self.tracked_update(face, manager, (named, sent));
        // A later computation compares the old with the new stored object. So it is possible only if the request uses
        // the storage version, and if the server changes only fields without an owner from here on.
        let is_stored_version =
            std::ptr::eq(shown, &**stored) && resource.version == resource.storage_version;
        let is_changed_later = finish_status(face).is_some() || is_definition(resource);
        let can_wait = is_stored_version && !is_changed_later;
        match self.resource_for_later(resource).filter(|_| can_wait) {
            Some(resource) => {
                let old = Arc::clone(stored);
                ManagedFields::later(move |new| {
                    tracked.managed(&resource, (old.lean(), new), old.managed())
                })
            }
            None => {
                let states = (shown.lean(), after);
                tracked.managed(resource, states, shown.managed()).into()
            }
        }
    }

    /// Returns the served resource, if the managedFields of its objects can be computed later, because no policy,
    /// webhook or conversion reads them before the object is serialised; otherwise `None`.
    fn resource_for_later(&self, resource: &Resource) -> Option<Arc<Resource>> {
        if self.shows_managed(resource) || self.is_changed() {
            return None;
        }
        self.resource(&resource.group, &resource.version, &resource.plural)
    }

    fn tracked_update(
        &self,
        (resource, subresource): (&Resource, Subresource),
        manager: String,
        (named, sent): (Option<Value>, Option<Value>),
    ) -> TrackedUpdate {
        TrackedUpdate {
            subresource,
            manager,
            versions: self.versions_of(resource),
            named,
            sent,
            now: self.now,
        }
    }

    /// Sets the managedFields in the response of a TokenRequest, as upstream, although the TokenRequest is not stored.
    pub(crate) fn track_token(&self, token: &mut Value, options: &WriteOptions) {
        if !self.options.track_managed_fields {
            return;
        }
        let mut before = token.clone();
        before["spec"] = serde_json::json!({"boundObjectRef": token["spec"]["boundObjectRef"]});
        let version = "authentication.k8s.io/v1".to_owned();
        let name = manager::name_of(options);
        let manager = Manager::new(&name, ManagerOperation::Update, &version, "token");
        let reach = OwnershipContext {
            ty: TypeRef::untyped(),
            version: &version,
            versions: std::slice::from_ref(&version),
            ignored: &["status"],
        };
        let mut entries = ManagerEntries::default();
        let (states, time) = ((&before, &*token), metadata::time(self.now));
        update(&reach, &mut entries, &manager, states, &time);
        show(token, &mut entries.write().into());
    }

    /// Returns `after`, an object of which the server has changed the status, with the managedFields to store it with:
    /// [`SERVER`] owns the changed fields.
    pub(crate) fn own_status(
        &self,
        resource: &Resource,
        before: &Stored,
        mut after: Value,
    ) -> Draft {
        take(&mut after);
        let face = (resource, Subresource::Status);
        self.server_write(face, SERVER, (before, after))
    }

    /// Returns `after`, an object that the server has changed, with the managedFields to store it with: `manager` owns
    /// the changed fields.
    pub(crate) fn server_write(
        &self,
        face: (&Resource, Subresource),
        manager: &str,
        (before, after): (&Stored, Value),
    ) -> Draft {
        if !self.options.track_managed_fields {
            return Draft::new(after, None);
        }
        let tracked = self.tracked_update(face, manager.to_owned(), (None, None));
        let managed = tracked.managed(face.0, (before.lean(), &after), before.managed());
        Draft::new(after, managed)
    }
}

/// Returns the function that sets fields in the status of a kind after a status write: after managedFields were
/// computed, so that the writer does not own these fields. `None` for most kinds, and for other subresources.
pub(crate) fn finish_status(
    (resource, subresource): (&Resource, Subresource),
) -> Option<steersman_builtins::FinishStatus> {
    let strategy = steersman_builtins::of(resource).filter(|_| subresource == Subresource::Status);
    strategy?.finish_status
}
