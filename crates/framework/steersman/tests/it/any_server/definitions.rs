//! A definition that is installed, migrated and narrowed, on every server.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::DynamicObject;
use serde_json::{Value, json};
use steersman::crds::{Crds, Error};
use steersman::{Kind, ObjectKey};

use super::world::World;

const LIMIT: Duration = Duration::from_secs(60);
const GROUP: &str = "steersman-test.example.com";

/// Returns a definition of the kind of one test, with these versions and their fields of texts. The first version is
/// stored.
fn definition(plural: &str, versions: &[(&str, &[&str])]) -> CustomResourceDefinition {
    let version = |at: usize, name: &str, fields: &[&str]| {
        let fields: serde_json::Map<String, Value> = fields
            .iter()
            .map(|field| ((*field).to_owned(), json!({"type": "string"})))
            .collect();
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": fields},
        }});
        json!({"name": name, "served": true, "storage": at == 0, "schema": {"openAPIV3Schema": schema}})
    };
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(at, (name, fields))| version(at, name, fields))
        .collect();
    let kind = format!("{}{}", plural[..1].to_uppercase(), &plural[1..]);
    serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{kind}List")},
        },
    }))
    .unwrap()
}

/// DEF-1, DEF-3
#[tokio::test]
async fn a_definition_is_migrated_to_its_next_version_and_never_narrowed() {
    let world = World::start().await;
    let client_config = world.client.client_config();
    let install = |versions: &[(&str, &[&str])]| {
        // Several runs may share a server.
        let plural = world.namespace.replace('-', "");
        let definitions = Crds::new().with(definition(&plural, versions));
        let definitions = definitions.settle(Duration::from_secs(1));
        async move { definitions.install(client_config, LIMIT).await }
    };
    let fields: &[&str] = &["host"];
    install(&[("v1alpha1", fields)]).await.unwrap();
    let plural = world.namespace.replace('-', "");
    let name = format!("{plural}.{GROUP}");
    let key = ObjectKey::cluster_scoped(&name);
    let mapper = world.client.mapper();
    let kind = definition(&plural, &[]).spec.names.kind;
    let gvk = steersman::object::Gvk::new(GROUP, "v1alpha1", &kind);
    let kind: Kind = mapper.kind(&gvk).await.unwrap();
    let objects = world.client.of::<DynamicObject>(&kind);
    for at in 0..20 {
        let mut object = DynamicObject::new(&format!("object-{at}"), &kind.api_resource());
        object.metadata.namespace = Some(world.namespace.to_string());
        object.data = json!({"spec": {"host": "a"}});
        objects.create(&object).await.unwrap();
    }
    install(&[("v1", fields), ("v1alpha1", fields)])
        .await
        .unwrap();
    let stored = |definition: &CustomResourceDefinition| {
        let status = definition.status.clone().unwrap();
        status.stored_versions.unwrap_or_default()
    };
    let live = world.client.live();
    let read = || live.get::<CustomResourceDefinition>(&key);
    assert_eq!(stored(&read().await.unwrap()), ["v1"]);

    let other: &[&str] = &["title"];
    let refused = install(&[("v1", other), ("v1alpha1", other)])
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Narrowed { .. }), "{refused}");
    install(&[("v1", fields)]).await.unwrap();
    let definition = read().await.unwrap();
    assert_eq!(definition.spec.versions.len(), 1);
    world.client.delete(&definition).await.unwrap();
}
