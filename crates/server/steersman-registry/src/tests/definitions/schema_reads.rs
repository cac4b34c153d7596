//! Tests that reads of stored custom resources apply defaults and pruning by the present schema of their CRD.

use crate::requests::options::WatchEvent;

use super::*;

/// Returns a CRD with these versions and schemas, each with a status subresource. The first version is the storage
/// version.
fn definition(versions: &[(&str, Value)]) -> Value {
    let versions = versions.iter().enumerate().map(|(at, (name, schema))| {
        json!({"name": name, "served": true, "storage": at == 0, "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": ".status.phase"}],
            "schema": {"openAPIV3Schema": schema}})
    });
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "waits.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "waits", "kind": "Wait"},
            "versions": versions.collect::<Vec<_>>()}})
}

/// Returns a schema in which `spec` has these fields, and `status` has the default `status`.
fn schema(spec: &Value, status: &Value) -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": spec},
        "status": {"type": "object", "default": status, "properties": {"phase": text, "by": text}}}})
}

fn install(server: &mut Server, versions: &[(&str, Value)]) {
    let crd = definition(versions);
    server.registry.install_crd(crd, server.now).unwrap();
}

fn wait(version: &str, name: &str) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Wait",
        "metadata": {"name": name}, "spec": {"a": "1"}})
}

/// A server, and the version of the custom resources in the requests of the methods below.
struct Versioned<'a>(&'a mut Server, &'static str);

impl Versioned<'_> {
    fn resource(&self) -> Arc<Resource> {
        let found = self.0.registry.resource("example.com", self.1, "waits");
        found.unwrap()
    }

    fn create(&mut self, name: &str, dry_run: &[&str]) -> Value {
        let options = WriteOptions {
            dry_run: dry_run.iter().map(|&one| one.to_owned()).collect(),
            ..WriteOptions::default()
        };
        let (resource, now) = (self.resource(), self.0.now);
        let target = ObjectTarget::collection(&resource, Some("default"));
        let body = wait(self.1, name);
        let made = self.0.registry.create(target, body, &options, now);
        made.unwrap().object.value().clone()
    }

    fn get(&self, name: &str) -> Value {
        let resource = self.resource();
        let target = ObjectTarget::object(&resource, Some("default"), name);
        let found = self.0.registry.get(target, None);
        found.unwrap().value().clone()
    }

    fn list(&self, selector: &str) -> Vec<Value> {
        let options = ListQuery {
            field_selector: Some(selector.to_owned()),
            ..ListQuery::default()
        };
        let resource = self.resource();
        let page = self.0.registry.list(&resource, Some("default"), &options);
        let items = page.unwrap().items;
        items.iter().map(|item| item.value().clone()).collect()
    }

    fn watched(&self) -> Vec<Value> {
        let resource = self.resource();
        let options = ListQuery::default();
        let cursor = self.0.registry.watch(&resource, Some("default"), &options);
        let events = self.0.registry.poll(&mut cursor.unwrap(), 1000);
        let objects = events.iter().filter_map(WatchEvent::object);
        objects.map(|object| object.value().clone()).collect()
    }
}

/// A create does not store the status, nor its default, so every read has to add the default of the status.
#[test]
fn every_answer_has_the_default_of_the_status() {
    let mut server = Server::new();
    let pending = json!({"phase": "Pending"});
    let text = json!({"a": {"type": "string"}});
    install(&mut server, &[("v1", schema(&text, &pending))]);
    let mut v1 = Versioned(&mut server, "v1");
    assert_eq!(v1.create("dry", &["All"])["status"], pending);
    assert_eq!(v1.create("one", &[])["status"], pending);
    v1.create("unchanged", &[]);
    assert_eq!(v1.get("one")["status"], pending);
    assert_eq!(v1.list("status.phase=Pending")[0]["status"], pending);
    assert!(v1.list("status.phase!=Pending").is_empty());
    assert_eq!(v1.watched()[0]["status"], pending);
    // SRV-REG-4: the first write without a change stores the default of the status, and a second one stores nothing.
    let merge = json!({});
    let before = version(&v1.get("unchanged"));
    let mut write = || version(&server.merge("waits", "unchanged", merge.clone()).unwrap());
    let first = write();
    assert!(first > before);
    assert_eq!(write(), first);
    // The default of the object `one` is not stored, so after a change of the schema a read adds the new default.
    let later = json!({"phase": "Later"});
    install(&mut server, &[("v1", schema(&text, &later))]);
    assert_eq!(server.get("waits", "one").unwrap()["status"], later);
    // A patch stores the default that it got by its read, which then stays after a change of the schema.
    let body = json!({"spec": {"a": "2"}});
    let merged = server.merge("waits", "one", body).unwrap();
    assert_eq!(merged["status"], later);
    install(&mut server, &[("v1", schema(&text, &pending))]);
    assert_eq!(server.get("waits", "one").unwrap()["status"], later);
    let mut put = server.get("waits", "one").unwrap();
    put["status"] = json!({"by": "x"});
    let put = server.put("waits", Subresource::Status, put).unwrap();
    assert_eq!(put["status"], json!({"by": "x"}));
    assert_eq!(server.get("waits", "one").unwrap()["status"], put["status"]);
}

/// SRV-CRD-2: a read in any version has the defaults of the version in which the object is stored.
#[test]
fn an_object_has_the_defaults_of_the_version_in_which_it_is_stored() {
    let mut server = Server::new();
    let both = |default: Value| json!({"a": {"type": "string"}, "policy": default});
    let filled = schema(
        &both(json!({"type": "string", "default": "Background"})),
        &json!({"phase": "Stored"}),
    );
    let plain = schema(
        &both(json!({"type": "string"})),
        &json!({"phase": "Served"}),
    );
    install(
        &mut server,
        &[("v1", filled.clone()), ("v2", plain.clone())],
    );
    let mut v2 = Versioned(&mut server, "v2");
    for made in [v2.create("dry", &["All"]), v2.create("one", &[])] {
        assert_eq!(made["apiVersion"], "example.com/v2");
        assert_eq!(made["spec"], json!({"a": "1", "policy": "Background"}));
        assert_eq!(made["status"], json!({"phase": "Stored"}));
    }
    assert_eq!(v2.get("one")["spec"]["policy"], "Background");
    assert_eq!(v2.list("status.phase=Stored").len(), 1);
    // After a change of the storage version, an object still has the defaults of the version in which it is stored.
    install(&mut server, &[("v2", plain), ("v1", filled)]);
    for version in ["v1", "v2"] {
        let read = Versioned(&mut server, version).get("one");
        assert_eq!(read["spec"]["policy"], "Background", "{version}");
    }
}

#[test]
fn fields_that_a_definition_lost_are_pruned_from_reads() {
    let mut server = Server::new();
    let none = json!({});
    let text = json!({"type": "string"});
    let (wide, narrow) = (json!({"a": text, "b": text}), json!({"b": text}));
    install(&mut server, &[("v1", schema(&wide, &none))]);
    server.create("waits", wait("v1", "one")).unwrap();
    install(&mut server, &[("v1", schema(&narrow, &none))]);
    assert_eq!(server.get("waits", "one").unwrap()["spec"], json!({}));
    let v1 = Versioned(&mut server, "v1");
    assert_eq!(v1.watched()[0]["spec"], json!({}));
    assert_eq!(v1.list("")[0]["spec"], json!({}));
    // A field that the schema no longer has stays in the store, and reappears with the schema, until a write drops it.
    install(&mut server, &[("v1", schema(&wide, &none))]);
    let read = server.get("waits", "one").unwrap();
    assert_eq!(read["spec"], json!({"a": "1"}));
    install(&mut server, &[("v1", schema(&narrow, &none))]);
    let body = json!({"spec": {"b": "2"}});
    server.merge("waits", "one", body).unwrap();
    install(&mut server, &[("v1", schema(&wide, &none))]);
    let read = server.get("waits", "one").unwrap();
    assert_eq!(read["spec"], json!({"b": "2"}));
}
