//! Tests of the verbs of a registry, called directly and without HTTP, and helpers for these tests.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::status::Status;
use steersman_schema::resource::Resource;

use super::*;

mod service_accounts;
mod acts;
mod authorizer;
mod mutating_policies;
mod classes;
mod definitions;
mod deletes;
mod bootstrap_policy;
mod startup_objects;
mod storage_migrations;
mod field_owners;
mod garbage_collector;
mod hostile;
mod kinds;
mod mistakes;
mod ownership;
mod policy_parameters;
mod validating_policies;
mod quotas;
mod reads;
mod resumed;
mod security;
mod signing;
mod watches;
mod writes;

/// A registry with a time that only tests change, and with short methods for its verbs.
struct Server {
    registry: Registry,
    now: Timestamp,
}

type Done<T> = Result<T, Status>;

impl Server {
    fn new() -> Self {
        Self::with(RegistryOptions::default())
    }

    /// Creates a server without the garbage collector and the namespace controller.
    fn alone() -> Self {
        Self::with(RegistryOptions {
            collect_garbage: false,
            end_namespaces: false,
            ..RegistryOptions::default()
        })
    }

    fn with(options: RegistryOptions) -> Self {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        Self {
            registry: Registry::new(options, now),
            now,
        }
    }

    fn resource(&self, plural: &str) -> Arc<Resource> {
        let all = self.registry.resources();
        Arc::clone(
            all.iter()
                .find(|resource| resource.plural == plural)
                .unwrap(),
        )
    }

    fn namespace(resource: &Resource) -> Option<&'static str> {
        resource.namespaced.then_some("default")
    }

    fn create(&mut self, plural: &str, body: Value) -> Done<Value> {
        let resource = self.resource(plural);
        let options = WriteOptions::default();
        let namespace = Self::namespace(&resource);
        let made = self.registry.create(
            ObjectTarget::collection(&resource, namespace),
            body,
            &options,
            self.now,
        )?;
        assert!(made.created);
        Ok(made.object.value().clone())
    }

    fn get(&self, plural: &str, name: &str) -> Done<Value> {
        self.get_part(plural, name, Subresource::Main)
    }

    fn get_part(&self, plural: &str, name: &str, part: Subresource) -> Done<Value> {
        let resource = self.resource(plural);
        let namespace = Self::namespace(&resource);
        let object = self.registry.get(
            ObjectTarget::object(&resource, namespace, name).part(part),
            None,
        )?;
        Ok(object.value().clone())
    }

    fn put(&mut self, plural: &str, part: Subresource, body: Value) -> Done<Value> {
        let name = body["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let resource = self.resource(plural);
        let namespace = Self::namespace(&resource);
        let options = WriteOptions::default();
        let now = self.now;
        let written = self.registry.update(
            ObjectTarget::object(&resource, namespace, &name).part(part),
            body,
            &options,
            now,
        )?;
        Ok(written.object.value().clone())
    }

    fn merge(&mut self, plural: &str, name: &str, patch: Value) -> Done<Value> {
        self.patch(plural, name, Subresource::Main, (PatchKind::Merge, patch))
    }

    fn patch(
        &mut self,
        plural: &str,
        name: &str,
        part: Subresource,
        (kind, patch): (PatchKind, Value),
    ) -> Done<Value> {
        let resource = self.resource(plural);
        let namespace = Self::namespace(&resource);
        let options = WriteOptions::default();
        let body = patch.to_string();
        let (now, body) = (self.now, body.as_bytes());
        let written = self.registry.patch(
            ObjectTarget::object(&resource, namespace, name).part(part),
            kind,
            body,
            &options,
            now,
        )?;
        Ok(written.object.value().clone())
    }

    fn delete(&mut self, plural: &str, name: &str) -> Done<Deleted> {
        self.delete_with(plural, name, json!({}))
    }

    fn delete_with(&mut self, plural: &str, name: &str, options: Value) -> Done<Deleted> {
        let resource = self.resource(plural);
        let options: DeleteOptions = serde_json::from_value(options).unwrap();
        let namespace = Self::namespace(&resource);
        self.registry.delete(
            ObjectTarget::object(&resource, namespace, name),
            &options,
            self.now,
        )
    }

    fn list(&self, plural: &str, options: &ListQuery) -> Done<StoredPage> {
        let resource = self.resource(plural);
        self.registry
            .list(&resource, Self::namespace(&resource), options)
    }

    fn names(&self, plural: &str, options: &ListQuery) -> Vec<String> {
        let page = self.list(plural, options).unwrap();
        page.items
            .iter()
            .map(|object| object.stored.name.to_string())
            .collect()
    }

    fn watch(&self, plural: &str, options: &ListQuery) -> Done<WatchCursor> {
        let resource = self.resource(plural);
        self.registry
            .watch(&resource, Self::namespace(&resource), options)
    }

    /// Polls a watch, and returns its new events as texts such as `ADDED a`.
    fn poll(&self, cursor: &mut WatchCursor) -> Vec<String> {
        let events = self.registry.poll(cursor, 1000);
        events.iter().map(said).collect()
    }
}

fn said(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Bookmark {
            initial_events_end: true,
            ..
        } => "BOOKMARK end".to_owned(),
        WatchEvent::Bookmark { revision, .. } => format!("BOOKMARK {revision}"),
        WatchEvent::Error(status) => format!("ERROR {}", status.code),
        other => {
            let name = other.object().map(|object| object.stored.name.to_string());
            format!("{} {}", other.kind(), name.unwrap_or_default())
        }
    }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "img:1"}]}}}})
}

fn pod(name: &str, node: Option<&str>) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "img:1"}]}});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

fn refused<T: std::fmt::Debug>(done: Done<T>) -> (u16, String) {
    let status = done.unwrap_err();
    (status.code, status.message)
}

/// Returns the causes in the `Status` of a refused verb, each as `field: message`.
fn causes<T: std::fmt::Debug>(done: Done<T>) -> Vec<String> {
    let details = done.unwrap_err().details.unwrap_or_default();
    let causes = details.causes.into_iter();
    causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}
