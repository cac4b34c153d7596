//! Differences that change lists element by element (`client.strategic(true)`).

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::api::core::v1::{Container, PodTemplate};
use kube_core::DynamicObject;
use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_apiserver::faults::Verb;
use steersman_client::{Client, OptimisticLock};
use steersman_object::ObjectKey;

use crate::world::{World, key};

async fn deployment(client: &Client) -> Deployment {
    let object = serde_json::from_value(json!({
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [
                    {"name": "web", "image": "w:1", "env": [{"name": "A", "value": "1"}]},
                    {"name": "side", "image": "s:1"},
                ]},
            },
        },
    }));
    let object: Deployment = object.unwrap();
    client.create(&object).await.unwrap()
}

fn containers(deployment: &mut Deployment) -> &mut Vec<Container> {
    let spec = deployment.spec.as_mut().unwrap();
    &mut spec.template.spec.as_mut().unwrap().containers
}

fn paint(deployment: &mut Deployment) {
    containers(deployment)[0].image = Some("w:2".to_owned());
}

fn names(deployment: &mut Deployment) -> Vec<String> {
    let containers = containers(deployment).iter();
    containers.map(|one| one.name.clone()).collect()
}

/// CLIENT-2
#[tokio::test(start_paused = true)]
async fn lists_with_a_merge_key_keep_the_elements_of_others() {
    let world = World::new();
    let before = deployment(&world.client).await;
    // Another client adds a container, and a variable to the container of this test.
    let late = |d: &mut Deployment| {
        let mut late = containers(d)[1].clone();
        late.name = "late".to_owned();
        containers(d).push(late);
        let env = containers(d)[0].env.as_mut().unwrap();
        let mut other = env[0].clone();
        other.name = "B".to_owned();
        env.push(other);
    };
    world.client.modify(&before, late).await.unwrap();

    let strategic = world.client.strategic(true);
    let patches = world.count(&[Verb::Patch]);
    let drop_side = |d: &mut Deployment| {
        paint(d);
        containers(d).retain(|one| one.name != "side");
    };
    let changed = strategic.modify(&before, drop_side).await.unwrap();
    assert_eq!(world.count(&[Verb::Patch]), patches + 1, "no conflict");
    let mut now = Arc::unwrap_or_clone(changed.into_object());
    assert_eq!(names(&mut now), ["web", "late"]);
    let web = &containers(&mut now)[0];
    assert_eq!(web.image.as_deref(), Some("w:2"));
    assert_eq!(web.env.as_ref().unwrap().len(), 2);

    // As a merge patch, the same difference writes a whole list, and its version is outdated.
    let mut after = before.clone();
    paint(&mut after);
    let error = world.client.merge(&before, &after).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    strategic.merge(&before, &after).await.unwrap();
    let locked = strategic.lock(OptimisticLock::Always);
    let error = locked.merge(&before, &after).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let unchanged = strategic.modify(&before, |_| {}).await.unwrap();
    assert!(!unchanged.is_changed());
}

#[tokio::test(start_paused = true)]
async fn conditions_and_finalizers_of_others_are_kept() {
    let world = World::new();
    let client = world.client.strategic(true).lock(OptimisticLock::Never);
    let before = deployment(&world.client).await;
    let condition = |kind: &str| DeploymentCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        ..DeploymentCondition::default()
    };
    let hold = |name: &'static str| {
        move |d: &mut Deployment| {
            let status = d.status.get_or_insert_default();
            status
                .conditions
                .get_or_insert_default()
                .push(condition(name));
            let finalizers = d.metadata.finalizers.get_or_insert_default();
            finalizers.push(format!("x/{}", name.to_lowercase()));
        }
    };
    for name in ["One", "Two"] {
        client.status().modify(&before, hold(name)).await.unwrap();
        client.modify(&before, hold(name)).await.unwrap();
    }
    let both: Deployment = client.live().get(&key("d")).await.unwrap();
    let found = |d: &Deployment| {
        let status = d.status.clone().unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default().into_iter();
        let mut conditions: Vec<String> = conditions.map(|one| one.type_).collect();
        let mut finalizers = d.metadata.finalizers.clone().unwrap_or_default();
        // The server decides the order.
        conditions.sort();
        finalizers.sort();
        (conditions, finalizers)
    };
    let texts = |all: [&str; 2]| all.map(str::to_owned).to_vec();
    assert_eq!(
        found(&both),
        (texts(["One", "Two"]), texts(["x/one", "x/two"]))
    );
    // A writer that read only the first finalizer removes only that one.
    let mut first = both.clone();
    first.metadata.finalizers = Some(vec!["x/one".to_owned()]);
    let mut none = first.clone();
    none.metadata.finalizers = None;
    let left = client.merge(&first, &none).await.unwrap().into_object();
    assert_eq!(left.metadata.finalizers, Some(vec!["x/two".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_changed_by_a_merge_patch() {
    let world = World::new();
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.web.example.com"},
        "spec": {
            "group": "web.example.com", "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            "names": {"plural": "websites", "singular": "website", "kind": "Website", "listKind": "WebsiteList"},
        },
    });
    world.server.install_crd(definition).unwrap();
    let gvk = steersman_object::Gvk::new("web.example.com", "v1", "Website");
    let kind = world.client.mapper().kind(&gvk).await.unwrap();
    let sites = world.client.strategic(true).of::<DynamicObject>(&kind);
    let site = DynamicObject {
        types: None,
        metadata: key("s").to_meta(),
        data: json!({"spec": {"pages": [1]}}),
    };
    let site = sites.create(&site).await.unwrap();
    let longer = |s: &mut DynamicObject| s.data["spec"]["pages"] = json!([1, 2]);
    let site = sites.modify(&site, longer).await.unwrap().into_object();
    assert_eq!(site.data["spec"]["pages"], json!([1, 2]));
}

/// A strategy for subsets of `all`, in any order.
fn some<T: Clone + std::fmt::Debug + 'static>(all: Vec<T>) -> impl Strategy<Value = Vec<T>> {
    let most = all.len();
    prop::sample::subsequence(all, 0..=most).prop_shuffle()
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    let env = some(vec!["X", "Y", "Z"]);
    // The first two ports have the same merge key.
    let ports = some(vec![(80, "TCP"), (80, "UDP"), (81, "TCP")]);
    (0..2_u8, env, ports, 0..2_u8).prop_map(move |(image, env, ports, value)| {
        let env = env
            .iter()
            .map(|name| json!({"name": name, "value": format!("v{value}")}));
        let ports = ports.iter();
        let ports =
            ports.map(|(port, protocol)| json!({"containerPort": port, "protocol": protocol}));
        json!({
            "name": name, "image": format!("i:{image}"),
            "env": env.collect::<Vec<_>>(), "ports": ports.collect::<Vec<_>>(),
        })
    })
}

fn template() -> impl Strategy<Value = Value> {
    let containers = (container("a"), container("b"), container("c"));
    let containers = containers
        .prop_flat_map(|(a, b, c)| prop::sample::subsequence(vec![a, b, c], 1..=3).prop_shuffle());
    let finalizers = some(vec!["x/a", "x/b", "x/c"]);
    let secrets = some(vec!["s", "t"]);
    let tolerations = some(vec!["k", "l"]);
    let labels = some(vec!["m", "n"]);
    (containers, finalizers, secrets, tolerations, labels).prop_map(
        |(containers, finalizers, secrets, tolerations, labels)| {
            let named = |key: &str, all: Vec<&str>| -> Vec<Value> {
                all.iter().map(|name| json!({key: name})).collect()
            };
            let labels: serde_json::Map<_, _> = labels
                .into_iter()
                .map(|l| (l.to_owned(), json!("1")))
                .collect();
            json!({
                "metadata": {"name": "t", "namespace": "default", "finalizers": finalizers},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "containers": containers,
                        "imagePullSecrets": named("name", secrets),
                        "tolerations": named("key", tolerations),
                    },
                },
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The server, which applies the patch with code of its own, gets the expected result.
    #[test]
    fn applying_the_difference_arrives(before in template(), after in template()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (merged, wanted) = runtime.block_on(async {
            let world = World::new();
            let client = world.client.strategic(true);
            let before: PodTemplate = serde_json::from_value(before).unwrap();
            let before = client.create(&before).await.unwrap();
            let mut after: PodTemplate = serde_json::from_value(after).unwrap();
            let finalizers = after.metadata.finalizers.clone();
            let mut desired = before.clone();
            desired.metadata.finalizers.clone_from(&finalizers);
            desired.template.clone_from(&after.template);
            client.merge(&before, &desired).await.unwrap();
            after.metadata.name = Some("wanted".to_owned());
            client.create(&after).await.unwrap();
            let read = async |name: &str| {
                let read: PodTemplate =
                    client.live().get(&ObjectKey::namespaced("default", name)).await.unwrap();
                (read.metadata.finalizers, read.template)
            };
            (read("t").await, read("wanted").await)
        });
        prop_assert_eq!(merged, wanted);
    }
}
