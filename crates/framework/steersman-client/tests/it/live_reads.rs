//! RYOW-6: if the cache is too far behind, the client sends the requests of the informers, and answers as the cache
//! would.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_apiserver::{ApiServer, Authorization, User};
use steersman_cache::{ByObject, CacheOptions, ListOptions, Settings, Transform};
use steersman_client::{Client, ClientOptions};
use steersman_object::{Object as _, ObjectKey};
use tokio::time::{Instant, sleep};

use crate::own_writes::{hears_after, mine, reads};
use crate::world::{World, config, key, set};

const BOUND: Duration = Duration::from_secs(10);

/// Grants the permissions of an informer in a namespace, and the permission to write.
fn grant(server: &ApiServer, namespace: &str) {
    let metadata = json!({"name": "op", "namespace": namespace});
    let group = "rbac.authorization.k8s.io";
    let verbs = ["list", "watch", "create", "patch", "update"];
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}],
    });
    server.create(role).unwrap();
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "op"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "op"}],
    });
    server.create(binding).unwrap();
}

/// A transform that drops the data, and fails on request.
fn without_data() -> Transform {
    Transform::typed("without data", |object: &mut ConfigMap| {
        match object.data.take() {
            Some(data) if data.contains_key("fail") => Err("as it was told"),
            _ => Ok(()),
        }
    })
}

/// A world with only the rights of informers in two namespaces. Its cache selects by a label, has a transform, and
/// receives no more events.
async fn narrow() -> World {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    for namespace in ["default", "shop"] {
        let space =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        if namespace == "shop" {
            server.create(space).unwrap();
        }
        grant(&server, namespace);
    }
    let client_config = ClientConfig::in_process(server.service_as(User::new("op")), "default");
    let scope = ByObject::new()
        .namespaces(["default", "shop"])
        .labels("app=web")
        .transform(without_data());
    let cache = CacheOptions::new().by_object::<ConfigMap>(scope);
    let world = World::over(server, client_config, cache, ClientOptions::new());
    world.client.cache().informers::<ConfigMap>().unwrap();
    world.client.cache().wait_for_sync().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.server.faults().silence_watches_of("configmaps"), 2);
    world
}

fn labelled(name: &str) -> ConfigMap {
    let mut object = config(name);
    object.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    set(&mut object, "k", "v");
    object
}

/// Creates an object, and loses the answer to the create.
async fn lose(world: &World, client: &Client, object: &ConfigMap) {
    let lost = Answer::code(504).times(1).after_commit();
    let faults = world.server.faults();
    let fault = faults.answer(Verb::Create, "configmaps", lost);
    let created = client.create(object).await;
    assert!(created.unwrap_err().is_outcome_unknown());
    drop(fault);
}

/// RYOW-3, RYOW-6
#[tokio::test(start_paused = true)]
async fn live_reads_need_only_the_permissions_of_informers() {
    let world = narrow().await;
    let client = mine(&world);
    lose(&world, &client, &labelled("a")).await;
    let start = Instant::now();
    let seen = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(seen.data, None, "transformed");
    assert_eq!(seen.metadata.managed_fields, None);
    assert_eq!(start.elapsed(), Duration::ZERO);

    // Lists of one namespace, or of all cached namespaces.
    let mut made = labelled("");
    made.metadata.name = None;
    made.metadata.generate_name = Some("made-".to_owned());
    made.metadata.namespace = Some("shop".to_owned());
    lose(&world, &client, &made).await;
    hears_after(&world, Duration::from_secs(2));
    let listed = client.list::<ConfigMap>(&ListOptions::new()).await.unwrap();
    assert_eq!((listed.len(), start.elapsed().as_secs()), (2, 2));
    assert!(listed.iter().all(|object| object.data.is_none()));
}

/// RYOW-6: an object that the cache would hide is hidden, with the errors of the cache.
#[tokio::test(start_paused = true)]
async fn live_reads_exclude_the_objects_that_the_cache_excludes() {
    let world = narrow().await;
    let client = mine(&world);
    lose(&world, &client, &config("hidden")).await;
    let error = client.get::<ConfigMap>(&key("hidden")).await.unwrap_err();
    let cached = world.client.get::<ConfigMap>(&key("hidden")).await;
    assert!(error.is_not_found());
    assert_eq!(error.scoped_by(), Some("labels \"app=web\""));
    assert_eq!(error.to_string(), cached.unwrap_err().to_string());

    let mut failing = labelled("failing");
    set(&mut failing, "fail", "");
    lose(&world, &client, &failing).await;
    let error = client.get::<ConfigMap>(&key("failing")).await.unwrap_err();
    hears_after(&world, Duration::ZERO);
    sleep(Duration::from_secs(1)).await;
    let cached = world.client.get::<ConfigMap>(&key("failing")).await;
    assert!(error.is_malformed(), "{error}");
    assert_eq!(error.to_string(), cached.unwrap_err().to_string());

    // A write outside the scope of the cache leaves no question.
    let before = reads(&world);
    let mut outside = labelled("a");
    outside.metadata.namespace = Some("kube-system".to_owned());
    let lost = Answer::code(504).times(1);
    let _fault = world
        .server
        .faults()
        .answer(Verb::Create, "configmaps", lost);
    client.create(&outside).await.unwrap_err();
    let error = client.get::<ConfigMap>(&outside.key()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is cached in the namespaces default, shop only"),
        "{error}"
    );
    assert_eq!(reads(&world), before);
}

/// RYOW-5, RYOW-6: after the bound of the wait, the read has the scope of the informer, too.
#[tokio::test(start_paused = true)]
async fn after_the_bound_a_get_sends_the_requests_of_informers() {
    let world = narrow().await;
    let client = mine(&world);
    client.create(&labelled("a")).await.unwrap();
    let (before, start) = (reads(&world), Instant::now());
    for asked in [1, 2] {
        let seen = client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!((seen.data.clone(), start.elapsed()), (None, BOUND));
        assert_eq!(reads(&world), before + asked);
    }
    // Without the permission to list, one read fails; later reads use the cache as it is.
    let refused = world
        .server
        .faults()
        .answer(Verb::List, "configmaps", Answer::code(403));
    let error = client.get::<ConfigMap>(&key("a")).await.unwrap_err();
    assert!(error.is_forbidden(), "{error}");
    let cached = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!((cached, start.elapsed()), (None, BOUND));
    drop(refused);
}

/// RYOW-6: the informer of all other namespaces is asked in the namespace of the read, on all pages.
#[tokio::test(start_paused = true)]
async fn a_live_read_has_the_scope_of_the_informer_of_its_namespace() {
    let scope = ByObject::new()
        .namespace("shop", Settings::new().labels("app=web"))
        .other_namespaces(Settings::new());
    let cache = CacheOptions::new().by_object::<ConfigMap>(scope);
    let world = World::with(cache, ClientOptions::new());
    for number in 0..600 {
        let mut object = serde_json::to_value(config(&format!("other-{number}"))).unwrap();
        object["apiVersion"] = "v1".into();
        object["kind"] = "ConfigMap".into();
        world.server.create(object).unwrap();
    }
    world.client.cache().informers::<ConfigMap>().unwrap();
    world.client.cache().wait_for_sync().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    world.server.faults().silence_watches_of("configmaps");
    let client = mine(&world);
    let mut made = config("");
    made.metadata.name = None;
    made.metadata.generate_name = Some("z-".to_owned());
    lose(&world, &client, &made).await;
    world.server.requests().clear();
    hears_after(&world, Duration::from_secs(2));
    let listed = client.list::<ConfigMap>(&ListOptions::new()).await.unwrap();
    assert!(
        listed
            .iter()
            .any(|object| object.key().name().starts_with("z-"))
    );
    let asked = world.server.requests();
    let asked = asked.matching(|request| request.does(Verb::List));
    assert_eq!(asked.len(), 2, "two pages");
    for page in asked {
        assert_eq!(page.namespace.as_deref(), Some("default"));
        let fields = page.parameter("fieldSelector");
        assert_eq!(fields, Some("metadata.namespace!=shop"));
    }
}

/// RYOW-6: a cluster-scoped kind has no namespaces.
#[tokio::test(start_paused = true)]
async fn a_live_read_of_a_cluster_scoped_kind_has_no_namespace() {
    let world = World::new();
    drop(world.cached::<Namespace>().await);
    sleep(Duration::from_secs(1)).await;
    world.server.faults().silence_watches_of("namespaces");
    let client = mine(&world);
    let mut space = Namespace::default();
    space.metadata.name = Some("new".to_owned());
    let lost = Answer::code(504).times(1).after_commit();
    let _fault = world
        .server
        .faults()
        .answer(Verb::Create, "namespaces", lost);
    client.create(&space).await.unwrap_err();
    // As in the cache, a namespace in the key is ignored.
    for key in [
        ObjectKey::namespaced("x", "new"),
        ObjectKey::cluster_scoped("new"),
    ] {
        hears_after(&world, Duration::from_secs(2));
        client.get::<Namespace>(&key).await.unwrap();
    }
}
