//! Clients with other options (a namespace, dry runs, a manager), deletes of collections, and kinds known at runtime.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_core::DynamicObject;
use kube_core::object::{NotUsed, Object};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use steersman_api::{DeleteOptions, FieldValidation, Paging, Patch, Propagation};
use steersman_apiserver::faults::Verb;
use steersman_client::{Ensured, Error};
use steersman_object::{
    FieldSelector, Gvk, Kind, LabelSelector, ListOptions, ObjectKey, WholeObject, panic_text,
};

use crate::world::{World, config, key, set};

fn bare(name: &str) -> ConfigMap {
    let mut object = config(name);
    object.metadata.namespace = None;
    object
}

fn is_outside<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::OtherNamespace { .. }))
}

#[tokio::test(start_paused = true)]
async fn a_namespaced_client_fills_in_its_namespace_and_refuses_others() {
    let world = World::new();
    let client = world.client.in_namespace("default");
    let _events = world.cached::<ConfigMap>().await;
    let plain = ObjectKey::cluster_scoped("a");
    let mut created = client.create(&bare("a")).await.unwrap();
    assert_eq!(created.metadata.namespace.as_deref(), Some("default"));
    client.apply(&bare("a")).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"k": "1"}}));
    client.patch::<ConfigMap>(&plain, &patch).await.unwrap();
    created = client.live().get(&plain).await.unwrap();
    let ensured = client
        .ensure(bare("a"), |c| set(c, "k", "2"))
        .await
        .unwrap();
    assert!(ensured.is_changed());
    assert_eq!(
        client
            .get::<ConfigMap>(&plain)
            .await
            .unwrap()
            .metadata
            .name
            .as_deref(),
        Some("a")
    );
    world
        .server
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}))
        .unwrap();
    let mut theirs = config("b");
    theirs.metadata.namespace = Some("web".to_owned());
    world.client.create(&theirs).await.unwrap();
    let live = client
        .live()
        .list::<ConfigMap>(&ListOptions::new())
        .await
        .unwrap();
    assert_eq!(live.len(), 1);
    let cached = client.list::<ConfigMap>(&ListOptions::new()).await.unwrap();
    assert!(
        cached
            .iter()
            .all(|c| c.metadata.namespace.as_deref() == Some("default"))
    );

    let there = ObjectKey::namespaced("web", "b");
    let before = world.server.requests().all().len();
    assert!(is_outside(&client.create(&theirs).await));
    assert!(is_outside(&client.apply(&theirs).await));
    assert!(is_outside(&client.get::<ConfigMap>(&there).await));
    assert!(is_outside(&client.live().get::<ConfigMap>(&there).await));
    assert!(is_outside(&client.patch::<ConfigMap>(&there, &patch).await));
    assert!(is_outside(&client.delete_key::<ConfigMap>(&there).await));
    assert!(is_outside(&client.ensure(theirs.clone(), |_| {}).await));
    assert!(is_outside(
        &client
            .list::<ConfigMap>(&ListOptions::new().namespace("web"))
            .await
    ));
    let options = DeleteOptions::new();
    assert!(is_outside(
        &client
            .delete_all::<ConfigMap>(&ListOptions::new().namespace("web"), &options)
            .await
    ));
    assert_eq!(
        world.server.requests().all().len(),
        before,
        "nothing was sent"
    );

    // Cluster-scoped kinds are not affected.
    client
        .live()
        .get::<Namespace>(&ObjectKey::cluster_scoped("web"))
        .await
        .unwrap();
    client.delete(&created).await.unwrap();
    client
        .delete_all::<ConfigMap>(&ListOptions::new(), &options)
        .await
        .unwrap();
    assert!(world.server.get("configmaps", "web", "b").is_some());
}

#[tokio::test(start_paused = true)]
async fn no_verb_stores_anything_in_a_dry_run() {
    let world = World::new();
    let object = world.client.create(&config("a")).await.unwrap();
    let dry = world.client.dry_run();
    dry.create(&config("b")).await.unwrap();
    let mut changed = object.clone();
    set(&mut changed, "k", "1");
    let updated = dry.update(&changed).await.unwrap();
    assert_eq!(updated.data.unwrap()["k"], "1");
    dry.modify(&object, |c| set(c, "k", "2")).await.unwrap();
    dry.apply(&changed).await.unwrap();
    dry.delete(&object).await.unwrap();
    let all = ListOptions::new().namespace("default");
    dry.delete_all::<ConfigMap>(&all, &DeleteOptions::new())
        .await
        .unwrap();
    let now: ConfigMap = world.client.live().get(&key("a")).await.unwrap();
    assert_eq!(now, object);
    assert!(world.server.get("configmaps", "default", "b").is_none());
    let asked = world.writes();
    // Only the create was not a dry run. A delete carries its dry run in the body.
    let deletes = [Verb::Delete, Verb::DeleteCollection];
    for request in asked[1..]
        .iter()
        .filter(|r| !deletes.iter().any(|v| r.does(*v)))
    {
        assert_eq!(request.parameter("dryRun"), Some("All"), "{request}");
    }
}

#[tokio::test(start_paused = true)]
async fn options_of_one_client_do_not_change_another() {
    let world = World::new();
    let one = world
        .client
        .field_manager("one")
        .field_validation(FieldValidation::Strict);
    let two = one.field_manager("two");
    one.create(&config("a")).await.unwrap();
    two.create(&config("b")).await.unwrap();
    world.client.create(&config("c")).await.unwrap();
    let asked: Vec<_> = world
        .writes()
        .iter()
        .map(|r| ["fieldManager", "fieldValidation"].map(|p| r.parameter(p).map(ToOwned::to_owned)))
        .collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        asked,
        [
            [some("one"), some("Strict")],
            [some("two"), some("Strict")],
            [None, None]
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn deletes_carry_their_options() {
    let world = World::new();
    for (name, colour) in [("a", "red"), ("b", "red"), ("c", "blue"), ("d", "red")] {
        let mut object = config(name);
        object.metadata.labels = Some([("colour".to_owned(), colour.to_owned())].into());
        world.client.create(&object).await.unwrap();
    }
    let object: ConfigMap = world.client.live().get(&key("a")).await.unwrap();
    let version = steersman_object::Object::stored_version(&object);
    let stale = DeleteOptions::new().resource_version(steersman_object::ResourceVersion::new("1"));
    let client = &world.client;
    let error = client
        .delete_with::<ConfigMap>(&key("a"), &stale)
        .await
        .unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let mut owned = config("owned");
    steersman_client::owner::set_controller_reference(&object, &mut owned).unwrap();
    client.create(&owned).await.unwrap();
    let exact = DeleteOptions::new()
        .resource_version(version)
        .propagation(Propagation::Orphan);
    client
        .delete_with::<ConfigMap>(&key("a"), &exact)
        .await
        .unwrap();
    assert!(
        client
            .live()
            .get_opt::<ConfigMap>(&key("a"))
            .await
            .unwrap()
            .is_none()
    );
    let orphan: ConfigMap = client.live().get(&key("owned")).await.unwrap();
    assert_eq!(orphan.metadata.owner_references.unwrap_or_default(), []);

    let fields = FieldSelector::new()
        .not_equals("metadata.name", "d")
        .not_equals("metadata.name", "a");
    let red = ListOptions::new()
        .namespace("default")
        .labels(LabelSelector::label("colour", "red"))
        .fields(fields);
    let options = DeleteOptions::new();
    let deleted = client.delete_all::<ConfigMap>(&red, &options);
    assert_eq!(deleted.await.unwrap(), [key("b")]);
    let asked = world.writes().pop().unwrap();
    assert!(asked.does(Verb::DeleteCollection));
    assert_eq!(asked.parameter("labelSelector"), Some("colour=red"));
    let before = world.writes().len();
    let everywhere = red.namespace("");
    let everywhere = client.delete_all::<ConfigMap>(&everywhere, &options);
    everywhere.await.unwrap_err();
    assert_eq!(
        world.writes().len(),
        before,
        "of a namespaced kind, one namespace at a time"
    );
    assert!(world.server.get("configmaps", "default", "d").is_some());
}

fn website() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.web.example.com"},
        "spec": {
            "group": "web.example.com", "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}},
            }],
            "names": {"plural": "websites", "singular": "website", "kind": "Website", "listKind": "WebsiteList"},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_kind_known_at_runtime_has_all_verbs() {
    let world = World::new();
    world.server.install_crd(website()).unwrap();
    let gvk = Gvk::new("web.example.com", "v1", "Website");
    let kind = world.client.mapper().kind(&gvk).await.unwrap();
    let sites = world
        .client
        .field_manager("ours")
        .of::<DynamicObject>(&kind);
    let site: DynamicObject = serde_json::from_value(json!({
        "metadata": {"name": "s", "namespace": "default"}, "spec": {"image": "a"},
    }))
    .unwrap();
    let created = sites.create(&site).await.unwrap();
    let paint =
        |image: &'static str| move |s: &mut DynamicObject| s.data["spec"]["image"] = json!(image);
    let changed = sites
        .modify(&created, paint("b"))
        .await
        .unwrap()
        .into_object();
    assert_eq!(changed.data["spec"]["image"], "b");
    let mut next = DynamicObject::clone(&changed);
    paint("c")(&mut next);
    let merged = sites.merge(&changed, &next).await.unwrap().into_object();
    let updated = sites.update(&merged).await.unwrap();
    let ready = |s: &mut DynamicObject| s.data["status"] = json!({"ready": true});
    let ready = sites.status().modify(&updated, ready).await.unwrap();
    assert_eq!(ready.object().data["status"]["ready"], true);
    let part = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": {"replicas": 2}});
    let applied = sites.apply_part(&part).await.unwrap();
    assert_eq!(applied.data["spec"], json!({"image": "c", "replicas": 2}));
    let patch = Patch::Merge(json!({"spec": {"image": "d"}}));
    sites.patch(&key("s"), &patch).await.unwrap();
    let live = sites.live();
    let now = live.get(&key("s")).await.unwrap();
    assert_eq!(now.data["spec"]["image"], "d");
    assert_eq!(live.list(&ListOptions::new()).await.unwrap().len(), 1);
    let mut pages = live.pages(&ListOptions::new(), &Paging::new());
    let page = pages.next_page().await.unwrap().unwrap();
    assert_eq!(page.items.len(), 1);
    assert_eq!(world.count(&[Verb::Watch]), 0, "the cache was left alone");

    // CLIENT-1: the client itself reads from the cache.
    let gets = world.count(&[Verb::Get]);
    let read = sites.get(&key("s")).await.unwrap();
    assert_eq!(read.data["spec"]["image"], "d");
    assert_eq!(sites.list(&ListOptions::new()).await.unwrap().len(), 1);
    assert!(sites.get_opt(&key("absent")).await.unwrap().is_none());
    assert_eq!(world.count(&[Verb::Get]), gets);
    sites.delete(&created).await.unwrap();
    assert!(live.get_opt(&key("s")).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_kind_known_at_runtime_is_ensured_owned_and_finalized() {
    let world = World::new();
    world.server.install_crd(website()).unwrap();
    let gvk = Gvk::new("web.example.com", "v1", "Website");
    let kind = world.client.mapper().kind(&gvk).await.unwrap();
    let client = world.client.field_manager("ours");
    let sites = client.of::<DynamicObject>(&kind);
    let bare = |name: &str| DynamicObject {
        types: None,
        metadata: key(name).to_meta(),
        data: json!({}),
    };
    let paint = |s: &mut DynamicObject| s.data["spec"]["image"] = json!("a");
    let made = sites.ensure(bare("s"), paint).await.unwrap();
    let Ensured::Created(site) = made else {
        panic!("{made:?}")
    };
    let child = sites
        .ensure(bare("child"), paint)
        .owned_by_kind(&*site, &kind)
        .await
        .unwrap()
        .into_object();
    let owner = steersman_client::owner::controller_of(&child.metadata).unwrap();
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str()),
        ("Website", "s"),
        "{owner:?}"
    );
    // An object without a controller is not adopted.
    let stray = sites
        .ensure(bare("s"), paint)
        .owned_by_kind(&*child, &kind)
        .await;
    assert!(matches!(stray, Err(Error::Owner(_))), "{stray:?}");

    let part = json!({"status": {"ready": true}});
    sites.status().apply(&key("child"), &part).await.unwrap();
    let before = sites.live().get(&key("child")).await.unwrap();
    let mut after = before.clone();
    after.data["status"]["ready"] = json!(false);
    let merged = sites.status().merge(&before, &after).await.unwrap();
    let merged = merged.into_object();
    assert_eq!(merged.data["status"]["ready"], false);
    let updated = sites.status().update(&merged).await.unwrap();
    assert_eq!(updated.data["status"]["ready"], false);
    let spec =
        json!({"metadata": {"name": "child", "namespace": "default"}, "spec": {"replicas": 2}});
    let applied = sites.apply_part(&spec).await.unwrap();
    let ours = sites.extract(&applied).unwrap();
    assert_eq!(ours["spec"], json!({"replicas": 2}));

    let held = sites.add_finalizer(&site, "x/y").await.unwrap();
    let held = held.into_object();
    assert_eq!(
        held.metadata.finalizers.as_deref(),
        Some(&["x/y".to_owned()][..])
    );
    sites.delete_key(&key("s")).await.unwrap();
    sites.remove_finalizer(&held, "x/y").await.unwrap();
    assert!(sites.live().get_opt(&key("s")).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_gone_is_looked_up_again() {
    let world = World::new();
    world.server.install_crd(website()).unwrap();
    let gvk = Gvk::new("web.example.com", "v1", "Website");
    let mapper = world.client.mapper();
    let kind: Kind = mapper.kind(&gvk).await.unwrap();
    world
        .server
        .delete(
            "customresourcedefinitions.apiextensions.k8s.io",
            "",
            "websites.web.example.com",
        )
        .unwrap();
    assert!(
        mapper.kind(&gvk).await.is_ok(),
        "the mapper still has the old kind"
    );
    let sites = world.client.of::<DynamicObject>(&kind);
    let error = sites.live().list(&ListOptions::new()).await.unwrap_err();
    assert!(error.api().unwrap().is_kind_not_served(), "{error}");
    assert!(mapper.kind(&gvk).await.unwrap_err().is_kind_not_served());
}

/// The fields of a Website in this program: all of them.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Spec {
    image: String,
}

/// The marker with which this program declares its Websites whole, although the type is from another crate.
enum Ours {}

impl WholeObject<Ours> for Object<Spec, NotUsed> {}

/// CLIENT-6
#[tokio::test(start_paused = true)]
async fn a_type_of_another_crate_can_be_declared_whole() {
    let world = World::new();
    world.server.install_crd(website()).unwrap();
    let gvk = Gvk::new("web.example.com", "v1", "Website");
    let kind = world.client.mapper().kind(&gvk).await.unwrap();
    let sites = world.client.of::<Object<Spec, NotUsed>>(&kind);
    let spec = Spec {
        image: "a".to_owned(),
    };
    let mut site = Object::new("s", &kind.api_resource(), spec);
    site.metadata.namespace = Some("default".to_owned());
    let mut created = sites.create(&site).await.unwrap();
    created.spec.image = "b".to_owned();
    let updated = sites.update(&created).await.unwrap();
    assert_eq!(updated.spec.image, "b");
}

/// A field that is sent as a text, and panics when it is decoded.
#[derive(Clone, Debug, Serialize)]
struct Undecodable(&'static str);

impl<'de> Deserialize<'de> for Undecodable {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("this type does not decode")
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct UndecodableSpec {
    image: Undecodable,
}

impl WholeObject<Ours> for Object<UndecodableSpec, NotUsed> {}

/// CLIENT-7: the task of a write passes a panic on to the caller, and the write is finished.
#[tokio::test(start_paused = true)]
async fn a_panic_of_a_type_that_decodes_an_answer_reaches_the_caller() {
    let world = World::new();
    world.server.install_crd(website()).unwrap();
    let gvk = Gvk::new("web.example.com", "v1", "Website");
    let kind = world.client.mapper().kind(&gvk).await.unwrap();
    let sites = world.client.of::<Object<UndecodableSpec, NotUsed>>(&kind);
    let spec = UndecodableSpec {
        image: Undecodable("a"),
    };
    let mut site = Object::new("s", &kind.api_resource(), spec);
    site.metadata.namespace = Some("default".to_owned());
    let create = AssertUnwindSafe(sites.create(&site)).catch_unwind();
    let panic = create.await.map(drop).unwrap_err();
    assert_eq!(panic_text(&*panic), "this type does not decode");
    world.client.writes_finished().await;
}
