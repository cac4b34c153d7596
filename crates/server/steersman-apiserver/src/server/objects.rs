//! Handle: the methods of `ApiServer` that read and write objects without HTTP.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use steersman_apimachinery::status::{GroupResource, Status};
use steersman_registry::{
    DeleteOptions, ListQuery, ObjectTarget, PatchKind, Registry, StoredWrite, Subresource,
    VersionedObject, WriteOptions,
};
use steersman_schema::resource::Resource;

use super::ApiServer;

impl ApiServer {
    /// Returns whether a resource is served now, such as `serves("apps", "v1", "deployments")` (core: an empty group).
    pub fn serves(&self, group: &str, version: &str, plural: &str) -> bool {
        self.context
            .with_registry(|registry| registry.resource(group, version, plural).is_some())
    }

    /// Creates or replaces a CustomResourceDefinition, and serves its resources at once.
    ///
    /// # Errors
    /// Returns the Status of the refusal.
    pub fn install_crd(&self, crd: Value) -> Result<Value, Status> {
        self.write(|registry, now| registry.install_crd(crd, now))
    }

    /// Returns an object; `None` if the object or the resource does not exist.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let found = self.context.with_registry(|registry| {
            let (resource, subresource) = find(registry, resource).ok()?;
            let target = target(&resource, namespace, name).part(subresource);
            registry.get(target, None).ok()
        });
        found.map(|object| object.look().into_owned())
    }

    /// Returns the objects of a namespace, or of all namespaces if `namespace` is empty; none for an unknown resource.
    pub fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        let page = self.context.with_registry(|registry| {
            let (resource, _) = find(registry, resource)?;
            let namespace = scope(&resource, namespace);
            registry.list(&resource, namespace, &ListQuery::default())
        });
        let items = page.map(|page| page.items).unwrap_or_default();
        let values = items.iter().map(|object| object.look().into_owned());
        values.collect()
    }

    /// Returns every stored object, in the storage version of its kind, as it is now.
    pub fn objects(&self) -> Vec<Value> {
        self.objects_as(|_, object| object.look().into_owned())
    }

    /// Returns every stored object, in the storage version of its kind, in the form that `form` gives it.
    pub(crate) fn objects_as(
        &self,
        form: impl Fn(&Resource, &VersionedObject) -> Value,
    ) -> Vec<Value> {
        self.context.with_registry(|registry| {
            let is_stored = |one: &&Arc<Resource>| {
                one.version == one.storage_version && one.verbs.contains(&"list")
            };
            let mut seen = BTreeSet::new();
            let mut all = Vec::new();
            for resource in registry.resources().iter().filter(is_stored) {
                let page = registry.list(resource, None, &ListQuery::default());
                for object in page.map(|page| page.items).unwrap_or_default() {
                    let uid = object.meta("uid");
                    // Events are served in two groups.
                    if uid.is_empty() || seen.insert(uid.to_owned()) {
                        all.push(form(resource, &object));
                    }
                }
            }
            all
        })
    }

    /// Returns the resource that serves a kind, as in `websites.example.com`, and whether its objects have namespaces;
    /// `None` if the kind is not served in this version.
    pub fn resource_of(&self, api_version: &str, kind: &str) -> Option<(String, bool)> {
        self.context.with_registry(|registry| {
            let mut resources = registry.resources().iter();
            let found =
                resources.find(|one| one.kind == kind && one.api_version() == api_version)?;
            let group = found.group.as_str();
            let name = match group {
                "" => found.plural.clone(),
                group => format!("{}.{group}", found.plural),
            };
            Some((name, found.namespaced))
        })
    }

    /// Creates an object; its kind and version determine the resource. An object without a namespace is created in
    /// `default`.
    ///
    /// # Errors
    /// Returns the Status of the refusal.
    pub fn create(&self, object: Value) -> Result<Value, Status> {
        let (namespace, _) = names_of(&object);
        self.write(|registry, now| {
            let resource = of_object(registry, &object)?;
            // Reviews and other kinds without the verb `get` are not stored, so there is no stored object to return.
            if !resource.verbs.contains(&"create") || !resource.verbs.contains(&"get") {
                return Err(Status::method_not_allowed());
            }
            let target = target(&resource, &namespace, "");
            registry.create(target, object, &WriteOptions::default(), now)
        })
    }

    /// Replaces the object that `object["metadata"]` names, as PUT does, and returns the stored
    /// object. Without a namespace the object is one of `default`.
    ///
    /// `resource` is the plural with its group: `pods`, `deployments.apps`, or with a subresource
    /// `deployments.apps/status` or `…/scale`. A `metadata.resourceVersion` must be the current one.
    ///
    /// # Errors
    /// The Status of the refusal: 404 if the object does not exist, 409 if its resource version is another, 422 if the
    /// new object is invalid.
    pub fn update(&self, resource: &str, object: Value) -> Result<Value, Status> {
        let (namespace, name) = names_of(&object);
        self.write(|registry, now| {
            let (resource, subresource) = find(registry, resource)?;
            let target = target(&resource, &namespace, &name).part(subresource);
            registry.update(target, object, &WriteOptions::default(), now)
        })
    }

    /// Changes an object by a JSON merge patch (RFC 7386), and returns the stored object. A patch
    /// that changes nothing writes nothing, and watches see no event.
    ///
    /// `resource` is the plural with its group, if needed with a subresource: `pods` or `deployments.apps/status`. For
    /// a cluster-scoped resource `namespace` is ignored.
    ///
    /// # Errors
    /// The Status of the refusal: 404 if the object does not exist, 409 if its resource version is another, 422 if the
    /// new object is invalid.
    pub fn merge_patch(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, Status> {
        let (patch, options) = (patch.to_string(), WriteOptions::default());
        self.write(|registry, now| {
            let (resource, subresource) = find(registry, resource)?;
            let target = target(&resource, namespace, name).part(subresource);
            registry.patch(target, PatchKind::Merge, patch.as_bytes(), &options, now)
        })
    }

    /// Applies an object (server-side apply, with force): creates it, or changes it to what `manager` now applies. The
    /// object's kind and version determine the resource; without a namespace it is applied in `default`.
    ///
    /// # Errors
    /// Returns the Status of the refusal.
    pub fn apply(&self, object: &Value, manager: &str) -> Result<Value, Status> {
        let (namespace, name) = names_of(object);
        let options = WriteOptions {
            field_manager: Some(manager.to_owned()),
            force: Some(true),
            ..WriteOptions::default()
        };
        let patch = object.to_string();
        self.write(|registry, now| {
            let resource = of_object(registry, object)?;
            let target = target(&resource, &namespace, &name);
            registry.patch(target, PatchKind::Apply, patch.as_bytes(), &options, now)
        })
    }

    /// Deletes an object as a DELETE request without options does. An object with finalizers, a Pod on a node and a
    /// namespace stay, with a `deletionTimestamp`, until finalizers, grace period or contents are gone. Dependents are
    /// deleted in the background if the server simulates the garbage collector.
    ///
    /// `resource` is the plural with its group, such as `deployments.apps`. For a cluster-scoped resource `namespace`
    /// is ignored.
    ///
    /// # Errors
    /// The Status of the refusal: 404 if the object does not exist, 403 for a protected namespace.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> Result<(), Status> {
        self.delete_with(resource, namespace, name, &DeleteOptions::default())
    }

    /// Deletes an object like [`delete`](Self::delete), with options.
    pub(crate) fn delete_with(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let now = self.context.now();
        self.context.with_registry(|registry| {
            let (resource, _) = find(registry, resource)?;
            let target = target(&resource, namespace, name);
            registry.delete(target, options, now)?;
            Ok(())
        })
    }

    fn write(
        &self,
        work: impl FnOnce(&mut Registry, Timestamp) -> Result<StoredWrite, Status>,
    ) -> Result<Value, Status> {
        let now = self.context.now();
        let written = self.context.with_registry(|registry| work(registry, now))?;
        Ok(written.object.look().into_owned())
    }
}

/// Returns the resource, in its storage version if possible, and the subresource for a name such as
/// `deployments.apps/scale`.
fn find(registry: &Registry, name: &str) -> Result<(Arc<Resource>, Subresource), Status> {
    let (full, subresource) = match name.split_once('/') {
        None => (name, Subresource::Main),
        Some((full, "status")) => (full, Subresource::Status),
        Some((full, "scale")) => (full, Subresource::Scale),
        Some(_) => return Err(Status::no_such_path()),
    };
    let (plural, group) = full.split_once('.').unwrap_or((full, ""));
    let resources = registry.resources().iter();
    let mut served = resources.filter(|one| one.plural == plural && one.group == group);
    let stored = served
        .clone()
        .find(|one| one.version == one.storage_version);
    match stored.or_else(|| served.next()) {
        Some(resource) => Ok((Arc::clone(resource), subresource)),
        None => Err(Status::not_found(GroupResource::new("", "resources"), name)),
    }
}

fn of_object(registry: &Registry, object: &Value) -> Result<Arc<Resource>, Status> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let mut resources = registry.resources().iter();
    let found = resources.find(|one| one.kind == kind && one.api_version() == api_version);
    found.cloned().ok_or_else(|| {
        Status::bad_request(format!(
            "no resource serves kind \"{kind}\" of \"{api_version}\""
        ))
    })
}

/// Returns the namespace, by default `default`, and the name of an object.
fn names_of(object: &Value) -> (String, String) {
    let text = |name: &str| object["metadata"][name].as_str();
    let namespace = text("namespace").unwrap_or("default");
    let name = text("name").unwrap_or_default();
    (namespace.to_owned(), name.to_owned())
}

fn target<'a>(resource: &'a Resource, namespace: &'a str, name: &'a str) -> ObjectTarget<'a> {
    ObjectTarget::object(resource, scope(resource, namespace), name)
}

/// Returns `namespace`; `None` for a cluster-scoped resource, and for an empty text, which stands for all namespaces.
fn scope<'a>(resource: &Resource, namespace: &'a str) -> Option<&'a str> {
    (resource.namespaced && !namespace.is_empty()).then_some(namespace)
}
