//! The verbs, and the errors that callers branch on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::{DynamicObject, PartialObjectMeta};
use serde_json::json;
use steersman_api::{
    Api, ClientConfig, Decoded, DeleteOptions, Paging, Patch, VersionMatch, WriteOptions,
};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_object::{FieldSelector, Gvk, Kind, ListOptions, ObjectKey, ResourceVersion, Scope};

fn server() -> (ApiServer, Api<ConfigMap>) {
    let server = ApiServer::builder().seed(1).build();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let api = Api::typed(client_config.client().unwrap());
    (server, api)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".into());
    map.metadata.name = Some(name.into());
    map.data = Some(BTreeMap::from([("v".into(), value.into())]));
    map
}

fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().unwrap()["v"].as_str()
}

#[tokio::test(start_paused = true)]
async fn every_verb_works_on_an_object() {
    let (server, api) = server();
    let options = WriteOptions::new().field_manager("test");
    assert!(api.get_opt(&key("a")).await.unwrap().is_none());
    let created = api.create(&map("a", "1"), &options).await.unwrap();
    assert!(created.metadata.uid.is_some());
    assert_eq!(api.get(&key("a")).await.unwrap(), created);
    let creates = server.requests().matching(|r| r.does(Verb::Create));
    assert_eq!(creates[0].parameter("fieldManager"), Some("test"));

    let mut changed = created.clone();
    changed.data = map("a", "2").data;
    let updated = api.update(&changed, &options).await.unwrap();
    assert_eq!(value(&updated), "2");
    let stale = api.update(&changed, &options).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");

    let merge = Patch::Merge(json!({"data": {"v": "3"}}));
    let patched = api
        .patch(&key("a"), &merge, &WriteOptions::new())
        .await
        .unwrap();
    assert_eq!(value(&patched), "3");
    let json = Patch::Json(json!([{"op": "replace", "path": "/data/v", "value": "4"}]));
    let patched = api
        .patch(&key("a"), &json, &WriteOptions::new())
        .await
        .unwrap();
    assert_eq!(value(&patched), "4");
    let dry = WriteOptions::new().dry_run(true);
    let tried = api.patch(&key("a"), &merge, &dry).await.unwrap();
    assert_eq!(value(&tried), "3");
    assert_eq!(value(&api.get(&key("a")).await.unwrap()), "4");

    let old = DeleteOptions::new().uid("another");
    assert!(api.delete(&key("a"), &old).await.unwrap_err().is_conflict());
    api.delete(&key("a"), &DeleteOptions::new()).await.unwrap();
    assert!(api.get(&key("a")).await.unwrap_err().is_not_found());
    let gone = api
        .delete(&key("a"), &DeleteOptions::new())
        .await
        .unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
}

#[tokio::test(start_paused = true)]
async fn a_metadata_type_requests_metadata_only() {
    let (server, api) = server();
    api.create(&map("a", "1"), &WriteOptions::new())
        .await
        .unwrap();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let metadata: Api<PartialObjectMeta<ConfigMap>> = Api::typed(client_config.client().unwrap());
    let one = metadata.get(&key("a")).await.unwrap();
    assert_eq!(one.metadata.name.as_deref(), Some("a"));
    // The object has its own kind, although the server sends it as `PartialObjectMetadata`.
    assert_eq!(one.types.as_ref().unwrap().kind, "ConfigMap");
    let all = ListOptions::new().namespace("default");
    let page = metadata.list(&all, &Paging::new()).await.unwrap();
    let Decoded::Good(listed) = &page.items[0] else {
        panic!("malformed")
    };
    assert_eq!(
        (&listed.metadata, &listed.types),
        (&one.metadata, &one.types)
    );
    let reads = [Verb::Get, Verb::List];
    let asked = server
        .requests()
        .matching(|r| reads.iter().any(|verb| r.does(*verb)));
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|r| r.is_metadata_only()), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn each_refusal_is_an_error_of_its_own() {
    let (server, api) = server();
    api.create(&map("a", "1"), &WriteOptions::new())
        .await
        .unwrap();
    let again = api
        .create(&map("a", "1"), &WriteOptions::new())
        .await
        .unwrap_err();
    assert!(again.is_already_exists(), "{again}");
    let bad = api
        .create(&map("Not A Name", "1"), &WriteOptions::new())
        .await
        .unwrap_err();
    assert!(bad.is_invalid(), "{bad}");

    let gvk = Gvk::new("nowhere.example.com", "v1", "Thing");
    let things = Kind::new(gvk, "things", Scope::Namespaced);
    let client_config = ClientConfig::in_process(server.service(), "default");
    let things: Api<DynamicObject> = Api::new(client_config.client().unwrap(), things);
    for error in [
        things.get(&key("x")).await.unwrap_err(),
        things
            .list(&ListOptions::new(), &Paging::new())
            .await
            .unwrap_err(),
    ] {
        assert!(error.is_kind_not_served(), "{error}");
    }

    let throttled = Answer::code(429).retry_after(5).times(1);
    server
        .faults()
        .answer(Verb::Get, "configmaps", throttled)
        .keep();
    let error = api.get(&key("a")).await.unwrap_err();
    assert!(error.is_throttled(), "{error}");
    assert_eq!(error.retry_after().map(|d| d.as_secs()), Some(5));
    // No request was repeated.
    assert_eq!(
        server
            .requests()
            .count(|r| r.does(Verb::Get) && r.is_for("configmaps")),
        1
    );
    server
        .faults()
        .answer(Verb::Get, "configmaps", Answer::code(403).times(1))
        .keep();
    assert!(api.get(&key("a")).await.unwrap_err().is_forbidden());
}

#[tokio::test(start_paused = true)]
async fn an_invalid_request_is_not_sent() {
    let (server, api) = server();
    for key in [
        ObjectKey::cluster_scoped("a"),
        ObjectKey::namespaced("default", ""),
        ObjectKey::namespaced("default", ".."),
        ObjectKey::namespaced("default", "a/b"),
        ObjectKey::namespaced("a/b", "c"),
    ] {
        let error = api.get(&key).await.unwrap_err();
        assert!(
            matches!(error, steersman_api::Error::InvalidRequest { .. }),
            "{error}"
        );
    }
    assert_eq!(server.requests().count(|r| r.is_for("configmaps")), 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_follows_all_pages_and_survives_an_expired_token() {
    let (server, api) = server();
    for n in 0..7 {
        api.create(&map(&format!("m{n}"), "1"), &WriteOptions::new())
            .await
            .unwrap();
    }
    let all = ListOptions::new().namespace("default");
    let three = Paging::new().page_size(3);
    let first = api.list(&all, &three).await.unwrap();
    assert_eq!((first.items.len(), first.remaining), (3, Some(4)));
    let whole = api.list_all(&all, &three).await.unwrap();
    assert_eq!(whole.into_good().len(), 7);
    server
        .faults()
        .answer_matching(
            |r| r.parameter("continue").is_some(),
            Answer::code(410).times(1),
        )
        .keep();
    let whole = api.list_all(&all, &three).await.unwrap();
    assert!(whole.continue_token.is_none());
    assert_eq!(whole.into_good().len(), 7);
    let named = FieldSelector::new().equals("metadata.name", "m3");
    let named = all.clone().fields(named);
    let selected = api.list(&named, &Paging::new()).await.unwrap();
    assert_eq!(selected.into_good().len(), 1);
    let whole = api.list_all(&all.limit(4), &three).await.unwrap();
    assert_eq!(
        (whole.continue_token.as_deref(), whole.remaining),
        (None, None)
    );
    assert_eq!(whole.into_good().len(), 4);
    let indexed = ListOptions::new().index("node", "n");
    let error = api.list(&indexed, &three).await.unwrap_err();
    assert!(error.to_string().contains("\"node\""), "{error}");
    let version = ResourceVersion::new("1000000");
    let future = Paging::new().resource_version(version);
    let error = api.list(&ListOptions::new(), &future).await.unwrap_err();
    assert!(error.is_version_too_large(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_expired_version_starts_again_at_the_newest() {
    let (server, api) = server();
    for n in 0..3 {
        api.create(&map(&format!("m{n}"), "1"), &WriteOptions::new())
            .await
            .unwrap();
    }
    let (all, newest) = (ListOptions::new(), Paging::new().page_size(2));
    let version = api.list(&all, &newest).await.unwrap().version;
    let exact = newest
        .resource_version(version)
        .version_match(VersionMatch::Exact);
    server
        .faults()
        .answer_matching(
            |r| r.parameter("continue").is_some(),
            Answer::code(410).times(1),
        )
        .keep();
    let whole = api.list_all(&all, &exact).await.unwrap();
    assert_eq!(whole.into_good().len(), 3);
    let lists = server.requests().matching(|r| r.does(Verb::List));
    let parameters = ["resourceVersion", "resourceVersionMatch", "continue"];
    let asked = |n: usize| parameters.map(|name| lists[n].parameter(name).is_some());
    let last = lists.len() - 1;
    assert_eq!(asked(last - 2), [true, true, false]);
    assert_eq!(asked(last), [false, false, false]);
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_have_the_same_verbs() {
    let (server, _) = server();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let kind = Kind::of::<ConfigMap>();
    let api: Api<DynamicObject> = Api::new(client_config.client().unwrap(), kind);
    let mut object: DynamicObject = serde_json::from_value(json!({
        "metadata": {"name": "d", "namespace": "default"}, "data": {"v": "1"},
    }))
    .unwrap();
    // Neither the client nor the server has to name the kind.
    assert!(object.types.is_none());
    object = api.create(&object, &WriteOptions::new()).await.unwrap();
    assert_eq!(
        object.types.as_ref().map(|t| t.kind.as_str()),
        Some("ConfigMap")
    );
    let only = FieldSelector::new().equals("metadata.name", "d");
    let only = ListOptions::new().namespace("default").fields(only);
    let listed = api.list(&only, &Paging::new()).await.unwrap().into_good();
    assert_eq!(listed[0].types, object.types);
    assert_eq!(listed[0].data, json!({"data": {"v": "1"}}));
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_through_its_subresource() {
    let (server, _) = server();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let api: Api<k8s_openapi::api::core::v1::Pod> = Api::typed(client_config.client().unwrap());
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    let mut pod = api.create(&pod, &WriteOptions::new()).await.unwrap();
    let status = Patch::Merge(json!({"status": {"message": "patched"}}));
    let patched = api
        .patch_status(&key("p"), &status, &WriteOptions::new())
        .await
        .unwrap();
    pod.metadata.resource_version = patched.metadata.resource_version;
    pod.status.get_or_insert_default().message = Some("updated".into());
    let updated = api.update_status(&pod, &WriteOptions::new()).await.unwrap();
    assert_eq!(updated.status.unwrap().message.as_deref(), Some("updated"));
}
