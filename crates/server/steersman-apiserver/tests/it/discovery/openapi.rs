//! Tests of the documents of OpenAPI.

use std::collections::BTreeSet;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use steersman_schema::builtin::{built_in, is_on_by_default};

use crate::support::{ask, get, send, server, website_crd};

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

/// `kubectl explain --output=plaintext-openapiv2` finds a kind by its group, version and name.
#[tokio::test(start_paused = true)]
async fn openapi_v2_names_each_kind_that_is_listed() {
    let server = server();
    let json = [("accept", "application/json")];
    let document = ask(&server, "GET", "/openapi/v2", &json, "")
        .await
        .expect(200);
    let definitions = document["definitions"].as_object().unwrap();
    let named: BTreeSet<_> = definitions
        .values()
        .filter_map(|one| one["x-kubernetes-group-version-kind"].as_array())
        .flatten()
        .map(ToString::to_string)
        .collect();
    for resource in built_in() {
        if is_on_by_default(&resource) && resource.verbs.contains(&"list") {
            let kind = json!({"group": resource.group, "kind": resource.kind, "version": resource.version});
            assert!(named.contains(&kind.to_string()), "{kind}");
        }
    }
}

/// `kubectl explain` prints them.
#[tokio::test(start_paused = true)]
async fn openapi_has_descriptions_where_a_kube_apiserver_has_them() {
    let server = server();
    let apps = get(&server, "/openapi/v3/apis/apps/v1").await.expect(200);
    let group = get(&server, "/openapi/v3/apis/apps").await.expect(200);
    let json = [("accept", "application/json")];
    let v2 = ask(&server, "GET", "/openapi/v2", &json, "")
        .await
        .expect(200);
    let deployment = "io.k8s.api.apps.v1.Deployment";
    let spec = "Specification of the desired behavior of the Deployment.";
    let (in_v3, in_v2) = (&apps["components"]["schemas"], &v2["definitions"]);
    for schemas in [in_v3, in_v2] {
        let words = "Deployment enables declarative updates for Pods and ReplicaSets.";
        assert_eq!(schemas[deployment]["description"], words);
        assert_eq!(
            schemas[deployment]["properties"]["spec"]["description"],
            spec
        );
        let list = &schemas["io.k8s.api.apps.v1.DeploymentList"]["properties"];
        assert_eq!(
            list["items"]["description"],
            "Items is the list of Deployments."
        );
        let strategy = &schemas["io.k8s.api.apps.v1.DeploymentStrategy"]["properties"]["type"];
        assert_eq!(strategy["enum"], json!(["Recreate", "RollingUpdate"]));
    }
    assert_eq!(
        in_v3[deployment]["properties"]["spec"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"
    );
    assert_eq!(
        in_v2[deployment]["properties"]["spec"]["$ref"],
        "#/definitions/io.k8s.api.apps.v1.DeploymentSpec"
    );
    let text = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
    assert_eq!(in_v2[text]["type"], "string");
    assert!(in_v2[text]["description"].is_string() && in_v2[text].get("oneOf").is_none());
    let discovery = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup";
    let schema = &group["components"]["schemas"][discovery];
    assert!(
        schema["description"].is_string()
            && schema["properties"]["name"]["description"].is_string()
    );
}

#[tokio::test(start_paused = true)]
async fn openapi_describes_operations() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    let apps = get(&server, "/openapi/v3/apis/apps/v1").await.expect(200);
    let websites = get(&server, "/openapi/v3/apis/example.com/v1")
        .await
        .expect(200);
    let apps_root = "/apis/apps/v1/namespaces/{namespace}/deployments";
    let sites_root = "/apis/example.com/v1/namespaces/{namespace}/websites";
    let core = get(&server, "/openapi/v3/api/v1").await.expect(200);
    let pods = "/api/v1/namespaces/{namespace}/pods/{name}";
    for (document, path, method, words) in [
        (
            &apps,
            apps_root.to_owned(),
            "get",
            "list or watch objects of kind Deployment",
        ),
        (
            &apps,
            apps_root.to_owned(),
            "delete",
            "delete collection of Deployment",
        ),
        (
            &apps,
            format!("{apps_root}/{{name}}/scale"),
            "patch",
            "partially update scale of the specified Deployment",
        ),
        (
            &websites,
            sites_root.to_owned(),
            "get",
            "list objects of kind Website",
        ),
        (&websites, sites_root.to_owned(), "post", "create a Website"),
        (
            &core,
            format!("{pods}/exec"),
            "get",
            "connect GET requests to exec of Pod",
        ),
        (
            &core,
            format!("{pods}/eviction"),
            "post",
            "create eviction of a Pod",
        ),
        (
            &core,
            format!("{pods}/log"),
            "get",
            "read log of the specified Pod",
        ),
    ] {
        assert_eq!(
            document["paths"][&path][method]["description"], words,
            "{path}"
        );
    }
}

/// Both encodings of OpenAPI v2 have one tag, with which a client asks again.
#[tokio::test(start_paused = true)]
async fn openapi_v2_is_sent_once_to_a_client_that_keeps_it() {
    let server = server();
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let mut tags = BTreeSet::new();
    for accept in [protobuf, "application/json"] {
        let asked = [("accept", accept)];
        let (status, headers, body) = send(&server, "GET", "/openapi/v2", &asked, "").await;
        let bytes = body.collect().await.unwrap().to_bytes();
        assert!(status == 200 && bytes.len() > 1 << 20, "{accept}");
        // A cache in between must not answer one form with the other.
        let varies = headers.get_all("vary").iter();
        assert!(varies.into_iter().any(|one| one == "Accept"), "{accept}");
        let tag = headers["etag"].to_str().unwrap().to_owned();
        let asked = [("accept", accept), ("if-none-match", tag.as_str())];
        let (status, _, body) = send(&server, "GET", "/openapi/v2", &asked, "").await;
        let bytes = body.collect().await.unwrap().to_bytes();
        assert_eq!((status, bytes.len()), (304, 0), "{accept}");
        tags.insert(tag);
    }
    assert_eq!(tags.len(), 1);
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
    // As upstream, the words of the types that the server adds replace those of the definition.
    for (field, words) in [
        ("apiVersion", "APIVersion defines the versioned schema"),
        ("kind", "Kind is a string value"),
        ("metadata", "Standard object's metadata."),
    ] {
        let description = site["properties"][field]["description"].as_str().unwrap();
        assert!(description.starts_with(words), "{description}");
    }
    assert_eq!(
        schemas["com.example.v1.WebsiteList"]["description"],
        "WebsiteList is a list of Website"
    );
}
