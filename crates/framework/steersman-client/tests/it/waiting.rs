//! Waits for conditions and watches of programs: over faults, on a paused clock, and once over HTTPS.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::DynamicObject;
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Effect, FaultSpec, Verb};
use steersman_cache::{Cache, CacheOptions, Delivery, Event};
use steersman_client::{Client, Condition, Error, LastSeen, ObjectWatch, conditions};
use steersman_object::{Gvk, LabelSelector, ListOptions, Object as _, ObjectKey, report};
use tokio::time::{Instant, sleep, timeout};

use crate::world::config;

const LIMIT: Duration = Duration::from_secs(600);

/// Returns a client of a cache that does not run.
fn client_of(server: &ApiServer) -> Client {
    let client_config = ClientConfig::in_process(server.service(), "default");
    Client::new(Cache::new(CacheOptions::new()).unwrap(), client_config)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn is_blue() -> impl Condition<ConfigMap> {
    let is_blue = |config: Option<&ConfigMap>| {
        let data = config.and_then(|config| config.data.as_ref());
        data.is_some_and(|data| data.get("sky").is_some_and(|sky| sky == "blue"))
    };
    is_blue.named("is blue")
}

async fn paint(client: &Client, name: &str, sky: &str) {
    let patch = json!({"data": {"sky": sky}});
    let patch = steersman_api::Patch::Merge(patch);
    client.patch::<ConfigMap>(&key(name), &patch).await.unwrap();
}

/// Checks that the server has no open watch, after the tasks that were aborted have ended.
async fn no_watch_is_open(server: &ApiServer) {
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.faults().open_watches("configmaps"), 0);
}

/// Runs a wait together with the actions of other clients.
async fn meanwhile<T>(wait: impl Future<Output = T>, others: impl Future<Output = ()>) -> T {
    tokio::join!(wait, others).0
}

/// CLIENT-9
#[tokio::test(start_paused = true)]
async fn client_9_a_wait_sees_an_object_that_is_created_later_without_polling() {
    let server = ApiServer::new();
    let client = client_of(&server);
    // After an hour a poll would show in the requests.
    let hour = Duration::from_secs(3600);
    let (name, start) = (key("a"), Instant::now());
    let waiting = client.await_condition(&name, is_blue(), Duration::MAX);
    let found = meanwhile(waiting, async {
        sleep(hour).await;
        let requests = server.requests();
        assert_eq!(requests.count(|r| r.does(Verb::Get)), 0);
        assert!(requests.count(|r| r.does(Verb::List)) <= 1);
        // A server ends a watch after 5 to 10 minutes.
        assert!(requests.watches("configmaps") <= 13, "no polling");
        client.create(&config("a")).await.unwrap();
        paint(&client, "a", "grey").await;
        paint(&client, "a", "blue").await;
    });
    let found = found.await.unwrap().unwrap();
    assert!(is_blue().is_met(Some(&found)));
    assert_eq!(start.elapsed().as_secs(), 3600);
    no_watch_is_open(&server).await;
}

/// CLIENT-9
#[tokio::test(start_paused = true)]
async fn client_9_an_object_that_was_created_just_before_is_not_absent() {
    for streams in [true, false] {
        let server = ApiServer::builder().watch_list(streams).build();
        let client = client_of(&server);
        let created = client.create(&config("a")).await.unwrap();
        // A server behind a load balancer may answer with an old state, if the request allows it.
        let past = FaultSpec::new(Effect::StaleList { revisions: 1 });
        let _past = server.faults().add(past).unwrap();
        let limit = Duration::from_secs(5);
        let waited = client.wait_deleted(&created, limit).await;
        assert!(matches!(waited, Err(Error::ConditionNotMet { .. })));
        let requests = server.requests().matching(|request| {
            let reads = request.does(Verb::List) || request.does(Verb::Watch);
            reads && request.is_for("configmaps")
        });
        assert!(!requests.is_empty());
        for request in &requests {
            let fields = request.parameter("fieldSelector");
            assert_eq!(fields, Some("metadata.name=a"), "{request}");
            assert!(request.path.contains("/namespaces/default/"), "{request}");
        }
        // A list at version 0 may be answered with an old state.
        let lists = requests.iter().filter(|request| request.does(Verb::List));
        let versions: Vec<_> = lists
            .map(|list| list.parameter("resourceVersion"))
            .collect();
        assert!(versions.iter().all(Option::is_none), "{versions:?}");
        assert_eq!(versions.is_empty(), streams);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_goes_on_after_a_410_and_after_broken_connections() {
    let server = ApiServer::new();
    let client = client_of(&server);
    client.create(&config("a")).await.unwrap();
    let name = key("a");
    let waiting = client.await_condition(&name, is_blue(), LIMIT);
    let found = meanwhile(waiting, async {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(server.faults().expire_watches(), 1);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(server.faults().break_watches(), 1);
        let away = server
            .faults()
            .answer(None, "configmaps", Answer::code(503));
        sleep(Duration::from_secs(60)).await;
        drop(away);
        paint(&client, "a", "blue").await;
    });
    assert!(found.await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_deleted_and_created_again_unseen_is_deleted() {
    let server = ApiServer::new();
    let client = client_of(&server);
    let first = client.create(&config("a")).await.unwrap();
    let waiting = client.wait_deleted(&first, LIMIT);
    let waited = meanwhile(waiting, async {
        sleep(Duration::from_secs(1)).await;
        let away = server
            .faults()
            .answer(Verb::Watch, "configmaps", Answer::code(503));
        server.faults().break_watches();
        client.delete(&first).await.unwrap();
        client.create(&config("a")).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        drop(away);
    });
    waited.await.unwrap();
    let now: ConfigMap = client.live().get(&key("a")).await.unwrap();
    assert_ne!(now.uid_str(), first.uid_str());
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_delays_the_end_of_a_wait_for_a_deletion() {
    let server = ApiServer::new();
    let client = client_of(&server);
    let mut held = config("a");
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    let held = client.create(&held).await.unwrap();
    client.delete(&held).await.unwrap();
    let short = Duration::from_secs(5);
    let error = client.wait_deleted(&held, short).await.unwrap_err();
    let Error::ConditionNotMet {
        last_seen, source, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert!(source.is_none());
    let text = format!(
        "ConfigMap.v1 default/a did not meet the condition `is deleted` within 5s: {last_seen}"
    );
    assert_eq!(report(&error).to_string(), text);
    let LastSeen::Present {
        uid,
        is_being_deleted,
        ..
    } = &**last_seen
    else {
        panic!("{last_seen}");
    };
    assert_eq!((uid.as_str(), *is_being_deleted), (held.uid_str(), true));

    let waited = meanwhile(client.wait_deleted(&held, LIMIT), async {
        sleep(Duration::from_secs(30)).await;
        let free = json!({"metadata": {"finalizers": null}});
        let free = steersman_api::Patch::Merge(free);
        client.patch::<ConfigMap>(&key("a"), &free).await.unwrap();
    });
    waited.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_timeout_names_the_object_the_condition_and_the_problem() {
    let server = ApiServer::new();
    let client = client_of(&server);
    let (name, limit) = (key("a"), Duration::from_secs(20));
    let not_there = is_blue().and(conditions::is_deleted::<ConfigMap>("7").not());
    let error = client
        .await_condition(&name, not_there, limit)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "ConfigMap.v1 default/a did not meet the condition `(is blue and not (is deleted))` within 20s: \
         the object does not exist"
    );

    let _away = server
        .faults()
        .answer(None, "configmaps", Answer::code(503));
    let error = client
        .await_condition(&name, is_blue(), limit)
        .await
        .unwrap_err();
    let text = report(&error).to_string();
    let begins = "ConfigMap.v1 default/a did not meet the condition `is blue` within 20s: \
                  the server has not answered";
    assert!(text.starts_with(begins), "{text}");
    assert!(text.contains("503"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_and_an_object_that_does_not_decode_are_errors_at_once() {
    let server = ApiServer::new();
    let client = client_of(&server);
    let name = key("a");
    let start = Instant::now();
    let forbidden = server.faults().answer(None, "secrets", Answer::code(403));
    let is_there = |secret: Option<&Secret>| secret.is_some();
    let error = client
        .await_condition(&name, is_there, LIMIT)
        .await
        .unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("403 Forbidden"), "{error}");
    drop(forbidden);

    let kind = steersman_object::Kind::of::<ConfigMap>();
    client.create(&config("a")).await.unwrap();
    // A ConfigMap does not decode as a Secret.
    let secrets = client.of::<Secret>(&kind);
    let is_gone = |object: Option<&Secret>| object.is_none();
    let error = secrets
        .await_condition(&name, is_gone, LIMIT)
        .await
        .unwrap_err();
    assert!(error.is_malformed(), "{error}");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_ends_its_watch() {
    let server = ApiServer::new();
    let client = client_of(&server);
    let name = key("a");
    let waiting = client.await_condition(&name, is_blue(), Duration::ZERO);
    assert!(timeout(LIMIT, waiting).await.is_err(), "zero is no limit");
    no_watch_is_open(&server).await;
}

async fn event(watch: &mut ObjectWatch<ConfigMap>) -> String {
    match timeout(LIMIT, watch.next()).await.unwrap() {
        Some(Ok(Delivery::Synced)) => "synced".to_owned(),
        Some(Ok(Delivery::Event(event))) => {
            let what = match &event {
                Event::Created { .. } => "created",
                Event::Updated { .. } => "updated",
                Event::Deleted { .. } => "deleted",
            };
            format!("{what} {}", event.key().name())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_delivers_the_selected_objects_through_a_410_and_a_broken_connection() {
    let server = ApiServer::new();
    let client = client_of(&server);
    let labelled = |name: &str| {
        let mut config = config(name);
        config.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        config
    };
    let first = client.create(&labelled("first")).await.unwrap();
    client.create(&config("other")).await.unwrap();
    let selected = ListOptions::new()
        .namespace("default")
        .labels(LabelSelector::label("app", "web"));
    let before = server.requests().all().len();
    let mut watch = client.watch::<ConfigMap>(&selected).unwrap();
    assert_eq!(server.requests().all().len(), before);
    assert_eq!(event(&mut watch).await, "created first");
    assert_eq!(event(&mut watch).await, "synced");
    client.create(&labelled("second")).await.unwrap();
    assert_eq!(event(&mut watch).await, "created second");
    assert!(watch.informer_failures().is_empty());

    server.faults().expire_watches();
    // The watch meets the 410 before the deletion.
    assert!(
        timeout(Duration::from_secs(30), watch.next())
            .await
            .is_err()
    );
    client.delete(&first).await.unwrap();
    assert_eq!(event(&mut watch).await, "deleted first");

    server.faults().break_watches();
    paint(&client, "second", "blue").await;
    assert_eq!(event(&mut watch).await, "updated second");
    drop(watch);
    no_watch_is_open(&server).await;

    let indexed = ListOptions::new().index("name", "a");
    let refused = client.watch::<ConfigMap>(&indexed).unwrap_err();
    assert!(matches!(refused, Error::IndexNeedsCache { .. }));
}

#[tokio::test]
async fn a_wait_works_over_https() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), serving.kubeconfig()).unwrap();
    let connection = ClientConfig::from_kubeconfig(file.path()).await.unwrap();
    let client = Client::new(Cache::new(CacheOptions::new()).unwrap(), connection);
    let name = key("a");
    let waiting = client.await_condition(&name, is_blue(), LIMIT);
    let found = meanwhile(waiting, async {
        client.create(&config("a")).await.unwrap();
        paint(&client, "a", "blue").await;
    });
    let found = found.await.unwrap().unwrap();
    client.delete(&*found).await.unwrap();
    client.wait_deleted(&*found, LIMIT).await.unwrap();
}

#[test]
fn conditions_of_built_in_kinds_judge_their_status() {
    fn of<K: serde::de::DeserializeOwned>(status: &serde_json::Value) -> K {
        let object = json!({
            "metadata": {"name": "a", "uid": "1", "generation": 2}, "status": status,
        });
        serde_json::from_value(object).unwrap()
    }
    let running = conditions::is_pod_running();
    assert!(running.is_met(Some(&of(&json!({"phase": "Running"})))));
    assert!(!running.is_met(Some(&of(&json!({"phase": "Succeeded"})))));
    assert!(!running.is_met(None));

    let completed = conditions::is_job_completed();
    let condition = |kind, status| json!({"conditions": [{"type": kind, "status": status}]});
    assert!(completed.is_met(Some(&of(&condition("Complete", "True")))));
    assert!(!completed.is_met(Some(&of(&condition("Complete", "False")))));
    assert!(!completed.is_met(Some(&of(&condition("Failed", "True")))));

    let rolled_out = conditions::is_deployment_completed();
    let deployment = |observed: i64, replicas: i32, updated: i32, available: i32| {
        let object = json!({
            "metadata": {"name": "a", "generation": 2},
            "spec": {"replicas": 2, "selector": {}, "template": {}},
            "status": {
                "observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated,
                "availableReplicas": available,
            },
        });
        serde_json::from_value(object).unwrap()
    };
    for (status, expected) in [
        ((2, 2, 2, 2), true),
        ((1, 2, 2, 2), false),
        ((2, 2, 1, 2), false),
        ((2, 3, 2, 3), false),
        ((2, 2, 2, 1), false),
    ] {
        let (observed, replicas, updated, available) = status;
        let object = deployment(observed, replicas, updated, available);
        assert_eq!(rolled_out.is_met(Some(&object)), expected, "{status:?}");
    }

    let deleted = conditions::is_deleted::<ConfigMap>("1");
    let (same, other): (ConfigMap, ConfigMap) = (of(&json!({})), {
        let mut other: ConfigMap = of(&json!({}));
        other.metadata.uid = Some("2".to_owned());
        other
    });
    assert!(deleted.is_met(None) && deleted.is_met(Some(&other)));
    assert!(!deleted.is_met(Some(&same)));
    let any = conditions::is_deleted::<ConfigMap>("");
    assert!(any.is_met(None) && !any.is_met(Some(&other)));
    assert!(any.or(deleted).is_met(Some(&other)));
}

/// A definition, with the kind `Site` in these versions.
fn sites(versions: &[&str]) -> CustomResourceDefinition {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions: Vec<_> = versions
        .iter()
        .map(|version| {
            json!({
                "name": version, "served": true, "storage": *version == versions[0],
                "schema": {"openAPIV3Schema": schema},
            })
        })
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": "sites", "singular": "site", "kind": "Site", "listKind": "SiteList"},
        },
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_installed_kind_is_served_in_each_version() {
    let server = ApiServer::new();
    let client = client_of(&server);
    for versions in [&["v1"][..], &["v1", "v2"]] {
        client.install(&sites(versions), LIMIT).await.unwrap();
        for version in versions {
            let gvk = Gvk::new("example.com", version, "Site");
            let kind = client.mapper().kind(&gvk).await.unwrap();
            let sites = client.of::<DynamicObject>(&kind).live();
            assert_eq!(sites.list(&ListOptions::new()).await.unwrap().len(), 0);
        }
    }
    // A name that another definition has is never served.
    let mut taken = sites(&["v1"]);
    taken.metadata.name = Some("pages.example.com".to_owned());
    taken.spec.names.plural = "pages".to_owned();
    taken.spec.names.singular = Some("page".to_owned());
    let error = client.install(&taken, LIMIT).await.unwrap_err();
    assert!(
        matches!(error, Error::ConditionNotMet { .. }),
        "{}",
        report(&error)
    );
}

/// DEF-7
#[tokio::test(start_paused = true)]
async fn a_definition_that_loses_fields_is_not_installed() {
    let server = ApiServer::new();
    let client = client_of(&server);
    let with_fields = |fields: [&str; 2]| {
        let mut definition = sites(&["v1", "v2"]);
        for (version, field) in definition.spec.versions.iter_mut().zip(fields) {
            let schema = json!({"openAPIV3Schema": {
                "type": "object", "properties": {field: {"type": "string"}},
            }});
            version.schema = Some(serde_json::from_value(schema).unwrap());
        }
        definition
    };
    let renamed = with_fields(["host", "domain"]);
    let error = client.install(&renamed, LIMIT).await.unwrap_err();
    assert!(
        error.to_string().contains("differ in domain, host"),
        "{error}"
    );
    assert_eq!(server.requests().count(|_| true), 0);
    client
        .install(&with_fields(["host", "host"]), LIMIT)
        .await
        .unwrap();
    // The former field of stored objects would be lost.
    let other = with_fields(["name", "name"]);
    let error = client.install(&other, LIMIT).await.unwrap_err();
    assert!(
        error.to_string().contains("v1.host: the field is removed"),
        "{error}"
    );
}
