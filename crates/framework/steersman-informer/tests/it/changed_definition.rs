//! Informers of a kind of the embedded server with a definition that changes.

use std::time::Duration;

use kube_core::DynamicObject;
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_informer::InformerOptions;
use steersman_object::{Gvk, Kind, ObjectKey, Scope};

use super::world::{World, server, take};

const WEBSITES: &str = "websites.example.com";

fn kind() -> Kind {
    let gvk = Gvk::new("example.com", "v1", "Website");
    Kind::new(gvk, "websites", Scope::Namespaced)
}

/// Installs the definition with these fields beside `image`.
fn install(server: &ApiServer, more: &Value, columns: &Value) {
    let mut fields = json!({"image": {"type": "string"}});
    let more = more.as_object().unwrap().clone();
    fields.as_object_mut().unwrap().extend(more);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": WEBSITES},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "websites", "kind": "Website"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": fields}}}},
                "additionalPrinterColumns": columns,
            }],
        },
    });
    server.install_crd(definition).unwrap();
}

fn put(server: &ApiServer, name: &str) {
    let object = json!({"apiVersion": "example.com/v1", "kind": "Website",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"image": "i"}});
    server.create(object).unwrap();
}

fn title(world: &World<DynamicObject>, name: &str) -> Value {
    let object = world
        .informer
        .store()
        .get(&ObjectKey::namespaced("default", name));
    object.unwrap().data["spec"]["title"].clone()
}

/// Waits until the informer has watched for a while.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(20)).await;
}

// STORE-10
#[tokio::test(start_paused = true)]
async fn store_10_a_changed_definition_changes_the_form_of_stored_objects() {
    for watch_list in [true, false] {
        let server = server();
        let no_columns = json!([]);
        install(&server, &json!({}), &no_columns);
        put(&server, "a");
        let options = InformerOptions::new().seed(7).watch_list(watch_list);
        let world: World<DynamicObject> = World::start(&server, kind(), options);
        let mut seen = world.informer.subscribe();
        assert_eq!(take(&mut seen, 2).await, ["+a", "synced"]);
        settle().await;
        let before = world.stored();
        let titled = json!({"title": {"type": "string", "default": "t"}});
        install(&server, &titled, &no_columns);
        assert_eq!(take(&mut seen, 1).await, ["~a"]);
        // The object still has the version from before the change.
        assert_eq!(world.stored(), before);
        assert_eq!(title(&world, "a"), "t");
        put(&server, "b");
        assert_eq!(take(&mut seen, 1).await, ["+b"]);
        assert_eq!(title(&world, "b"), "t");
        assert!(world.informer.state().is_synced());
    }
}

// STORE-6
#[tokio::test(start_paused = true)]
async fn store_6_a_definition_that_changes_no_object_causes_no_event() {
    let server = server();
    install(&server, &json!({}), &json!([]));
    put(&server, "a");
    let world: World<DynamicObject> = World::start(&server, kind(), InformerOptions::new().seed(7));
    let mut seen = world.informer.subscribe();
    assert_eq!(take(&mut seen, 2).await, ["+a", "synced"]);
    settle().await;
    let columns = json!([{"name": "Image", "type": "string", "jsonPath": ".spec.image"}]);
    install(&server, &json!({}), &columns);
    settle().await;
    put(&server, "b");
    assert_eq!(take(&mut seen, 1).await, ["+b"]);
    assert_eq!(server.requests().watch_lists(WEBSITES), 2);
}
