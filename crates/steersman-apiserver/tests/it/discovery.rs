//! Tests of discovery, health, metrics and OpenAPI.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{ask, get, send, server, website_crd};

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
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/openapi/v3/apis/apps/v1",
    ] {
        assert!(
            root["paths"].as_array().unwrap().contains(&json!(path)),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn openapi_has_the_paths_and_types_that_kubectl_reads() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    let index = get(&server, "/openapi/v3").await.expect(200);
    for (path, kind) in [
        ("api/v1", "Pod"),
        ("apis/apps/v1", "Deployment"),
        ("apis/example.com/v1", "Website"),
    ] {
        let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
        let document = get(&server, url).await.expect(200);
        let found = document["paths"].as_object().unwrap().values().any(|item| {
            let patch = &item["patch"];
            patch["x-kubernetes-group-version-kind"]["kind"] == kind
                && patch["parameters"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|one| one["name"] == "fieldValidation"))
        });
        assert!(found, "{path} has a validating PATCH of {kind}");
    }
    let document = get(&server, "/openapi/v3/apis/example.com/v1")
        .await
        .expect(200);
    let schema = &document["components"]["schemas"]["com.example.v1.Website"];
    assert_eq!(
        schema["properties"]["spec"]["properties"]["image"]["type"],
        "string"
    );
    assert_eq!(
        schema["x-kubernetes-group-version-kind"][0]["kind"],
        "Website"
    );
    for path in [
        "/openapi/v3/apis/none.example.com/v1",
        "/openapi/v3/nothing",
    ] {
        let none = get(&server, path).await;
        assert_eq!((none.status, none.text.as_str()), (404, ""), "{path}");
    }
}

/// Generators of clients need operations with unique names and parameters, and valid references.
#[tokio::test(start_paused = true)]
async fn openapi_has_every_operation() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    let index = get(&server, "/openapi/v3").await.expect(200);
    let mut ids = BTreeSet::new();
    for path in index["paths"].as_object().unwrap().keys() {
        let document = get(&server, &format!("/openapi/v3/{path}")).await;
        let text = document.text.clone();
        let document = document.expect(200);
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            let found = &document["components"]["schemas"][name];
            assert!(found.is_object(), "{path} has {name}");
        }
        for (path, item) in document["paths"].as_object().unwrap() {
            let named = item["parameters"].as_array().map_or(&[][..], Vec::as_slice);
            for part in path.split('/').filter_map(|part| part.strip_prefix('{')) {
                let part = part.trim_end_matches('}');
                let is_it = |one: &Value| one["name"] == part && one["required"] == true;
                assert!(named.iter().any(is_it), "{path} takes {part}");
            }
            for (method, operation) in item.as_object().unwrap() {
                if method != "parameters" {
                    let id = operation["operationId"].as_str().unwrap().to_owned();
                    assert!(ids.insert(id.clone()), "{id} is there once");
                }
            }
        }
    }
    for id in [
        "listCoreV1NamespacedPod",
        "listCoreV1PodForAllNamespaces",
        "watchCoreV1NamespacedPodList",
        "createCoreV1NamespacedPodEviction",
        "readCoreV1NamespacedPodLog",
        "connectCoreV1GetNamespacedPodExec",
        "createCoreV1NamespacedServiceAccountToken",
        "deleteCoreV1CollectionNode",
        "replaceCoreV1NamespaceFinalize",
        "patchAppsV1NamespacedDeploymentScale",
        "readRbacAuthorizationV1ClusterRole",
        "createAuthorizationV1SubjectAccessReview",
        "getCoreAPIVersions",
        "getAPIVersions",
        "getCodeVersion",
        "getRbacAuthorizationAPIGroup",
        "getAppsV1APIResources",
        "getCoreV1APIResources",
        "replaceExampleComV1NamespacedWebsiteStatus",
    ] {
        assert!(ids.contains(id), "{id}");
    }
    for id in [
        "listAuthorizationV1SubjectAccessReview",
        "getExampleComAPIGroup",
        "getExampleComV1APIResources",
    ] {
        assert!(!ids.contains(id), "{id}");
    }
    for (path, object, strategic) in [
        ("apis/apps/v1", "deployments", true),
        ("apis/example.com/v1", "websites", false),
    ] {
        let document = get(&server, &format!("/openapi/v3/{path}"))
            .await
            .expect(200);
        let object = format!("/{path}/namespaces/{{namespace}}/{object}/{{name}}");
        let taken = &document["paths"][object]["patch"]["requestBody"]["content"];
        assert!(taken["application/merge-patch+json"].is_object());
        let strategy = &taken["application/strategic-merge-patch+json"];
        assert_eq!(strategy.is_object(), strategic, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn openapi_v2_is_served_to_older_clients() {
    let server = server();
    let asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let (status, headers, _) = send(&server, "GET", "/openapi/v2", &[("accept", asked)], "").await;
    assert_eq!(status, 200);
    let answered = headers["content-type"].to_str().unwrap();
    assert_eq!(
        answered,
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    );
    let json = [("accept", "application/json")];
    // As upstream, whatever the method.
    for method in ["GET", "POST"] {
        let document = ask(&server, method, "/openapi/v2", &json, "")
            .await
            .expect(200);
        let schema = &document["definitions"]["io.k8s.api.core.v1.ConfigMap"];
        assert_eq!(schema["properties"]["immutable"]["type"], "boolean");
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

/// The answer to a delete is a Status, except of kinds with deletes that return the object.
#[tokio::test(start_paused = true)]
async fn openapi_describes_deletes_and_custom_resources() {
    let server = server();
    let mut crd = website_crd();
    crd["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.image"}]);
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["description"] = json!("A site.");
    schema["properties"]["kind"] = json!({"type": "string", "description": "Always Website."});
    server.install_crd(crd).unwrap();
    let answers = |document: &Value, path: &str| -> Vec<String> {
        let responses = &document["paths"][path]["delete"]["responses"];
        let schema = |code: &str| {
            let content = &responses[code]["content"]["application/json"];
            let found = content["schema"]["$ref"].as_str().unwrap();
            found.rsplit('.').next().unwrap().to_owned()
        };
        vec![schema("200"), schema("202")]
    };
    for (version, path, wanted) in [
        (
            "apis/example.com/v1",
            "namespaces/{namespace}/websites/{name}",
            "Status",
        ),
        (
            "api/v1",
            "namespaces/{namespace}/configmaps/{name}",
            "Status",
        ),
        ("api/v1", "namespaces/{namespace}/pods/{name}", "Pod"),
    ] {
        let document = get(&server, &format!("/openapi/v3/{version}"))
            .await
            .expect(200);
        let path = format!("/{version}/{path}");
        assert_eq!(answers(&document, &path), [wanted, wanted], "{path}");
    }
    let document = get(&server, "/openapi/v3/apis/example.com/v1")
        .await
        .expect(200);
    for kind in ["Website", "WebsiteList"] {
        let schema = &document["components"]["schemas"][format!("com.example.v1.{kind}")];
        let fields = &schema["x-kubernetes-selectable-fields"];
        assert_eq!(*fields, json!([{"fieldPath": "spec.image"}]), "{kind}");
    }
    let schemas = &document["components"]["schemas"];
    let site = &schemas["com.example.v1.Website"];
    assert_eq!(site["description"], "A site.");
    assert_eq!(site["properties"]["kind"]["description"], "Always Website.");
    assert_eq!(
        schemas["com.example.v1.WebsiteList"]["description"],
        "WebsiteList is a list of Website"
    );
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
