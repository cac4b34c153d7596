//! Tests of discovery, health and metrics, and of OpenAPI in a file of its own.

mod openapi;

use serde_json::{Value, json};

use crate::support::{ask, get, server, website_crd};

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

fn entry<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    list.as_array()
        .unwrap()
        .iter()
        .find(|entry| entry[field] == name)
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn groups_versions_and_resources() {
    let server = server();
    assert_eq!(
        get(&server, "/api").await.expect(200)["versions"],
        json!(["v1"])
    );
    let apps = get(&server, "/apis/apps").await.expect(200);
    assert_eq!(apps["preferredVersion"]["groupVersion"], "apps/v1");
    let groups = get(&server, "/apis").await.expect(200);
    entry(&groups["groups"], "name", "apiextensions.k8s.io");
    let apps = get(&server, "/apis/apps/v1").await.expect(200);
    let deployments = entry(&apps["resources"], "name", "deployments");
    assert_eq!(deployments["shortNames"], json!(["deploy"]));
    assert_eq!(deployments["categories"], json!(["all"]));
    assert_eq!(
        entry(&apps["resources"], "name", "deployments/scale")["group"],
        "autoscaling"
    );
    let names: Vec<&str> = apps["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["name"].as_str().unwrap())
        .collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn custom_resources_appear_in_discovery_and_disappear() {
    let server = server();
    assert_eq!(get(&server, "/apis/example.com").await.status, 404);
    server.install_crd(website_crd()).unwrap();
    let group = get(&server, "/apis/example.com").await.expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let resources = get(&server, "/apis/example.com/v1").await.expect(200);
    let websites = entry(&resources["resources"], "name", "websites");
    assert_eq!(
        (&websites["singularName"], &websites["kind"]),
        (&json!("website"), &json!("Website"))
    );
    server
        .delete(
            "customresourcedefinitions.apiextensions.k8s.io",
            "",
            "websites.example.com",
        )
        .unwrap();
    assert_eq!(get(&server, "/apis/example.com/v1").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn aggregated_documents_have_a_tag_that_changes_with_them() {
    let server = server();
    let headers = [("accept", AGGREGATED)];
    let core = ask(&server, "GET", "/api", &headers, "").await;
    assert_eq!(
        core.header("content-type"),
        AGGREGATED.split(',').next().unwrap()
    );
    let core = core.expect(200);
    let pods = entry(
        &core["items"][0]["versions"][0]["resources"],
        "resource",
        "pods",
    );
    assert_eq!(pods["responseKind"]["kind"], "Pod");
    assert_eq!(
        entry(&pods["subresources"], "subresource", "status")["verbs"][0],
        "get"
    );

    let first = ask(&server, "GET", "/apis", &headers, "").await;
    let tag = first.header("etag").to_owned();
    let again = [("accept", AGGREGATED), ("if-none-match", tag.as_str())];
    assert_eq!(ask(&server, "GET", "/apis", &again, "").await.status, 304);
    server.install_crd(website_crd()).unwrap();
    let changed = ask(&server, "GET", "/apis", &again, "").await.expect(200);
    let group = changed["items"].as_array().unwrap().iter();
    assert!(
        group
            .clone()
            .any(|group| group["metadata"]["name"] == "example.com")
    );

    // A document without an aggregated form is refused if only that form is accepted.
    let only = [("accept", AGGREGATED.split(',').next().unwrap())];
    assert_eq!(
        ask(&server, "GET", "/apis/apps", &only, "").await.status,
        406
    );
}

#[tokio::test(start_paused = true)]
async fn version_and_health() {
    let server = server();
    let version = get(&server, "/version").await.expect(200);
    assert_eq!(
        (&version["major"], &version["minor"]),
        (&json!("1"), &json!("36"))
    );
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping"] {
        assert_eq!(get(&server, path).await.text, "ok", "{path}");
    }
    assert_eq!(get(&server, "/healthz/none").await.status, 404);
    let listed = get(&server, "/readyz?verbose").await;
    assert!(
        listed.text.ends_with("\nreadyz check passed\n"),
        "{}",
        listed.text
    );
    let root = get(&server, "/").await.expect(200);
    for path in [
        "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3/apis/apps/v1",
    ] {
        assert!(
            root["paths"].as_array().unwrap().contains(&json!(path)),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_requests_and_stored_objects() {
    let server = server();
    get(&server, "/api/v1/namespaces/default").await.expect(200);
    for _ in 0..2 {
        get(&server, "/api/v1/namespaces/none").await.expect(404);
    }
    let metrics = get(&server, "/metrics").await;
    assert_eq!(metrics.status, 200);
    for line in [
        "apiserver_request_total{code=\"404\",component=\"apiserver\",group=\"\",resource=\"namespaces\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\"} 2\n",
        "apiserver_resource_objects{group=\"\",resource=\"namespaces\"} 4\n",
    ] {
        assert!(metrics.text.contains(line), "{}", metrics.text);
    }
}

#[tokio::test(start_paused = true)]
async fn documents_that_are_encoded_like_objects_end_with_a_line_break() {
    let server = server();
    for (path, accept, ends) in [
        ("/apis", AGGREGATED, true),
        ("/api", AGGREGATED, true),
        ("/apis", "application/json", true),
        ("/apis/apps/v1", "application/json", true),
        ("/openapi/v3", "application/json", false),
        ("/openapi/v3/apis/apps/v1", "application/json", false),
    ] {
        let answer = ask(&server, "GET", path, &[("accept", accept)], "").await;
        assert_eq!(answer.text.ends_with('\n'), ends, "{path} as {accept}");
    }
}
