//! Tests of each built-in kind: the metadata that a write takes, and the field selectors.

mod components;
mod devices;
mod namespaces;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use crate::support::{ask, get, merge, post, put};

/// The metadata fields that the tests change.
const CHANGED: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// A kind with a status: the path of the collection, an object without metadata, the metadata
/// fields that a status write changes, and those of them that the writer owns. Letters: l(abels),
/// a(nnotations), f(inalizers), o(wner references).
struct Case {
    path: &'static str,
    body: Value,
    taken: &'static str,
    owned: &'static str,
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn case(path: &'static str, taken: &'static str, body: Value) -> Case {
    Case {
        path,
        body,
        taken,
        owned: taken,
    }
}

fn workload(path: &'static str, taken: &'static str) -> Case {
    let spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": template()});
    case(path, taken, json!({"spec": spec}))
}

/// Returns every built-in kind with a status subresource.
fn with_status() -> Vec<Case> {
    let mut cases = core_kinds();
    cases.extend(running_kinds());
    cases.extend(other_kinds());
    cases
}

fn spec(spec: Value) -> Value {
    Value::Object([("spec".to_owned(), spec)].into_iter().collect())
}

fn core_kinds() -> Vec<Case> {
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let volume = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/p"}});
    let controller = json!({"selector": {"app": "x"}, "template": template()});
    let pod = template()["spec"].clone();
    vec![
        case("/api/v1/namespaces", "lafo", json!({})),
        case("/api/v1/nodes", "lafo", json!({})),
        case("/api/v1/persistentvolumes", "lafo", spec(volume)),
        case(
            "/api/v1/namespaces/default/persistentvolumeclaims",
            "lafo",
            spec(claim),
        ),
        case("/api/v1/namespaces/default/pods", "laf", spec(pod)),
        case(
            "/api/v1/namespaces/default/replicationcontrollers",
            "lafo",
            spec(controller),
        ),
        case(
            "/api/v1/namespaces/default/resourcequotas",
            "lafo",
            json!({}),
        ),
        case(
            "/api/v1/namespaces/default/services",
            "lafo",
            spec(json!({"clusterIP": "None"})),
        ),
    ]
}

fn running_kinds() -> Vec<Case> {
    let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    let scaled = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 2});
    let cron_job = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job}});
    let scaler = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let older = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    vec![
        workload("/apis/apps/v1/namespaces/default/daemonsets", "lafo"),
        workload("/apis/apps/v1/namespaces/default/deployments", "afo"),
        workload("/apis/apps/v1/namespaces/default/replicasets", "lafo"),
        workload("/apis/apps/v1/namespaces/default/statefulsets", "lafo"),
        case(scaler, "lafo", spec(scaled.clone())),
        case(older, "lafo", spec(scaled)),
        case(
            "/apis/batch/v1/namespaces/default/cronjobs",
            "lafo",
            spec(cron_job),
        ),
        case("/apis/batch/v1/namespaces/default/jobs", "lafo", spec(job)),
        case(budget, "lafo", spec(json!({"minAvailable": 1}))),
    ]
}

fn other_kinds() -> Vec<Case> {
    let attachment = json!({"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}});
    let policy = json!({"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}});
    let schema = json!({"priorityLevelConfiguration": {"name": "global-default"}});
    let level = json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}});
    let service = json!({"group": "x.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "insecureSkipTLSVerify": true, "service": {"name": "s", "namespace": "default"}});
    let defined = json!({"group": "x.example.com", "scope": "Namespaced", "names": {"plural": "xs", "singular": "x", "kind": "X", "listKind": "XList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]});
    let claimed =
        json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}});
    let backend = json!({"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}});
    let but_owns = |mut case: Case| {
        case.owned = "lafo";
        case
    };
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let cidrs = "/apis/networking.k8s.io/v1/servicecidrs";
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    vec![
        case(
            "/apis/apiregistration.k8s.io/v1/apiservices",
            "",
            spec(service),
        ),
        case(ingresses, "lafo", spec(backend)),
        but_owns(case(cidrs, "", spec(json!({"cidrs": ["10.9.0.0/24"]})))),
        case(
            "/apis/storage.k8s.io/v1/volumeattachments",
            "",
            spec(attachment),
        ),
        case(policies, "", spec(policy)),
        case(definitions, "lafo", spec(defined)),
        case(
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
            "",
            spec(schema),
        ),
        case(levels, "", spec(level)),
        but_owns(case(claims, "", spec(claimed))),
    ]
}

/// Returns the name of the objects of a collection in these tests.
fn name_in(path: &str) -> &'static str {
    match path.rsplit('/').next() {
        Some("apiservices") => "v1.x.example.com",
        Some("customresourcedefinitions") => "xs.x.example.com",
        _ => "x",
    }
}

async fn create(server: &ApiServer, case: &Case) -> String {
    let name = name_in(case.path);
    let mut body = case.body.clone();
    body["metadata"] = json!({"name": name, "labels": {"a": "1"}, "annotations": {"n": "1"}});
    if case.path.ends_with("customresourcedefinitions") {
        body["apiVersion"] = json!("apiextensions.k8s.io/v1");
        body["kind"] = json!("CustomResourceDefinition");
    }
    let answer = post(server, case.path, &body).await;
    assert_eq!(answer.status, 201, "{}: {}", case.path, answer.text);
    format!("{}/{name}", case.path)
}

/// Returns the letters of the fields that meet a condition.
fn letters(is_so: impl Fn(&str) -> bool) -> String {
    CHANGED
        .iter()
        .filter(|field| is_so(field))
        .map(|field| &field[..1])
        .collect()
}

/// SRV-KIND-2: each kind has its own rule for the metadata of such a write.
#[tokio::test(start_paused = true)]
async fn a_write_to_the_status_changes_only_the_metadata_that_its_kind_allows() {
    for case in with_status() {
        let server = ApiServer::builder().play_controllers(false).build();
        let path = create(&server, &case).await;
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
        let metadata = json!({"labels": {"a": "2"}, "annotations": {"n": "2"},
            "finalizers": ["example.com/f"], "ownerReferences": [owner]});
        let before = get(&server, &path).await.expect(200)["metadata"].clone();
        let status = format!("{path}/status");
        let answer = merge(&server, &status, &json!({ "metadata": metadata })).await;
        assert_eq!(answer.status, 200, "{status}: {}", answer.text);
        let after = answer.json()["metadata"].clone();
        let changed = letters(|field| before[field] != after[field]);
        assert_eq!(changed, case.taken, "{status}");
        let entries = after["managedFields"].as_array().unwrap().iter();
        let mut of_status = entries.filter(|entry| {
            entry["subresource"] == "status" && entry["manager"] != "kube-apiserver"
        });
        let fields = of_status
            .next()
            .map_or(Value::Null, |entry| entry["fieldsV1"]["f:metadata"].clone());
        let owned = letters(|field| !fields[format!("f:{field}")].is_null());
        assert_eq!(owned, case.owned, "{status}: {after}");
    }
}

/// An apply to the status owns only the metadata that it writes.
#[tokio::test(start_paused = true)]
async fn an_apply_of_a_status_does_not_own_the_labels_of_a_deployment() {
    let server = ApiServer::builder().play_controllers(false).build();
    let path = create(
        &server,
        &workload("/apis/apps/v1/namespaces/default/deployments", "afo"),
    )
    .await;
    let body = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "x", "labels": {"a": "2"}, "annotations": {"m": "2"}}, "status": {"observedGeneration": 1}});
    let headers = [("content-type", "application/apply-patch+yaml")];
    let status = format!("{path}/status?fieldManager=m");
    let applied = ask(&server, "PATCH", &status, &headers, body.to_string())
        .await
        .expect(200);
    assert_eq!(applied["metadata"]["labels"], json!({"a": "1"}));
    assert_eq!(
        applied["metadata"]["annotations"],
        json!({"n": "1", "m": "2"})
    );
    let entries = applied["metadata"]["managedFields"].as_array().unwrap();
    let own = entries
        .iter()
        .find(|entry| entry["manager"] == "m")
        .unwrap();
    assert_eq!(
        own["fieldsV1"]["f:metadata"],
        json!({"f:annotations": {"f:m": {}}})
    );
}

/// The strategy of ServiceCIDRs does not keep the status in writes of the object; all others do.
#[tokio::test(start_paused = true)]
async fn a_write_by_the_main_path_keeps_the_status() {
    for case in with_status() {
        let server = ApiServer::builder().play_controllers(false).build();
        let path = create(&server, &case).await;
        let mut body = get(&server, &path).await.expect(200);
        let condition = json!({"type": "T", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        body["status"]["conditions"] = json!([condition]);
        body["metadata"]["labels"]["b"] = json!("1");
        let answer = put(&server, &path, &body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        let conditions = &answer.json()["status"]["conditions"];
        let written = conditions
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["type"] == "T"));
        assert_eq!(
            written,
            path.contains("servicecidrs"),
            "{path}: {conditions}"
        );
    }
}

/// A dry run ends before the storage, which checks the version (upstream: `DryRunnableStorage`).
#[tokio::test(start_paused = true)]
async fn a_create_with_a_version_is_refused_by_storage_alone() {
    let server = ApiServer::builder().play_controllers(false).build();
    let path = "/api/v1/namespaces/default/configmaps";
    let body =
        |name: &str, version: &str| json!({"metadata": {"name": name, "resourceVersion": version}});
    let dry = format!("{path}?dryRun=All");
    let answer = post(&server, &dry, &body("a", "7")).await.expect(201);
    assert_eq!(answer["metadata"]["resourceVersion"], "7");
    let answer = post(&server, path, &body("a", "7")).await.expect(500);
    assert_eq!(
        answer["message"],
        "resourceVersion should not be set on objects to be created"
    );
    // Validation errors and a missing namespace are reported first.
    post(&server, path, &body("A", "7")).await.expect(422);
    post(
        &server,
        "/api/v1/namespaces/none/configmaps",
        &body("a", "7"),
    )
    .await
    .expect(404);
    // The storage ignores a version that is no number.
    let answer = post(&server, path, &body("a", "x")).await.expect(201);
    assert_ne!(answer["metadata"]["resourceVersion"], "x");
    post(&server, path, &body("a", "7")).await.expect(500);
    post(&server, path, &body("a", "0")).await.expect(409);
}

/// Each group version has its own field labels, and its own message about unknown ones.
#[tokio::test(start_paused = true)]
async fn field_labels_belong_to_a_kind_of_a_group_version() {
    let server = ApiServer::builder().play_controllers(false).build();
    let generic =
        "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    let plain = "field label not supported: spec.x";
    for (collection, words, label) in [
        ("api/v1/configmaps", generic, ""),
        ("api/v1/events", plain, "involvedObject.name"),
        ("apis/events.k8s.io/v1/events", plain, "regarding.name"),
        ("api/v1/replicationcontrollers", plain, "status.replicas"),
        ("apis/apps/v1/replicasets", generic, ""),
        ("apis/apps/v1/statefulsets", generic, ""),
        (
            "apis/batch/v1/jobs",
            "field label \"spec.x\" not supported for Job",
            "status.successful",
        ),
        ("apis/batch/v1/cronjobs", generic, ""),
        (
            "apis/certificates.k8s.io/v1/certificatesigningrequests",
            plain,
            "spec.signerName",
        ),
        (
            "apis/resource.k8s.io/v1/resourceslices",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x",
            "spec.driver",
        ),
        ("apis/resource.k8s.io/v1/resourceclaims", generic, ""),
        (
            "apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            generic,
            "",
        ),
        ("api/v1/persistentvolumes", generic, ""),
    ] {
        let refused = get(&server, &format!("/{collection}?fieldSelector=spec.x%3D1"))
            .await
            .expect(400);
        assert_eq!(refused["message"], words, "{collection}");
        for other in [
            "status.replicas", "status.successful", "regarding.name", "involvedObject.name",
            "spec.driver", "spec.signerName",
        ] {
            let status = get(&server, &format!("/{collection}?fieldSelector={other}%3D1"))
                .await
                .status;
            assert_eq!(status == 200, other == label, "{collection}: {other}");
        }
    }
}

/// The metadata is checked twice for every kind, and again as often as the kind's strategy does.
#[tokio::test(start_paused = true)]
async fn wrong_labels_are_reported_once_per_check_of_the_kind() {
    let server = ApiServer::builder().play_controllers(false).build();
    let role = json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    let limits = json!({"spec": {"limits": []}});
    let budget = json!({"spec": {"minAvailable": 1}});
    for (path, body, times) in [
        ("/api/v1/namespaces/default/configmaps", json!({}), 4),
        ("/api/v1/namespaces/default/limitranges", limits, 3),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            budget,
            2,
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
            role,
            5,
        ),
    ] {
        let case = case(path, "", body);
        let path = create(&server, &case).await;
        let patch = json!({"metadata": {"labels": {"a": "b c"}}});
        let refused = merge(&server, &path, &patch).await.expect(422);
        let causes = refused["details"]["causes"].as_array().unwrap();
        let labels = causes
            .iter()
            .filter(|cause| cause["field"] == "metadata.labels");
        assert_eq!(labels.count(), times, "{path}: {refused}");
    }
}

/// An item of a list map needs at least one of its keys, but not all.
#[tokio::test(start_paused = true)]
async fn an_applied_item_without_any_of_its_keys_is_refused() {
    let server = ApiServer::builder().play_controllers(false).build();
    let items = json!({"type": "object", "required": ["k", "p"], "properties": {"k": {"type": "string"}, "p": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"m": {"type": "array", "items": items,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"]}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "xs.x.example.com"},
        "spec": {"group": "x.example.com", "scope": "Namespaced", "names": {"plural": "xs", "singular": "x", "kind": "X", "listKind": "XList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, definitions, &definition).await.expect(201);
    let path = "/apis/x.example.com/v1/namespaces/default/xs/x?fieldManager=m";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let body = |item: Value| {
        json!({"apiVersion": "x.example.com/v1", "kind": "X", "metadata": {"name": "x"}, "m": [item]}).to_string()
    };
    let answer = ask(&server, "PATCH", path, &headers, body(json!({"k": "a"}))).await;
    // The item's identity is known, so the schema checks it.
    assert_eq!(
        answer.expect(422)["details"]["causes"][0]["field"],
        "m[0].p"
    );
    let refused = ask(&server, "PATCH", path, &headers, body(json!({"o": "a"}))).await;
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(
        message.ends_with("associative list with keys has an element that omits all key fields [\"k\" \"p\"] (and doesn't have default values for any key fields)"),
        "{message}"
    );
}

/// Status strategies set fields beyond the status that was sent.
#[tokio::test(start_paused = true)]
async fn strategies_complete_a_written_status() {
    let server = ApiServer::builder()
        .play_controllers(false)
        .starts_at("2026-01-01T00:00:00Z".parse().unwrap())
        .build();
    let mut cases = with_status();
    let mut find = |plural: &str| {
        let at = cases.iter().position(|one| one.path.ends_with(plural));
        cases.swap_remove(at.unwrap())
    };
    let volume = create(&server, &find("persistentvolumes")).await;
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    let released = json!({"status": {"phase": "Released"}});
    let released = merge(&server, &format!("{volume}/status"), &released).await;
    let released = released.expect(200);
    assert_eq!(
        released["status"]["lastPhaseTransitionTime"],
        "2026-01-01T00:01:00Z"
    );
    let entries = released["metadata"]["managedFields"].as_array().unwrap();
    let own = entries.iter().find(|one| one["subresource"] == "status");
    assert_eq!(
        own.unwrap()["fieldsV1"],
        json!({"f:status": {"f:phase": {}}})
    );

    let claim = create(&server, &find("resourceclaims")).await;
    let device = |name: &str| json!({"driver": "d.io", "pool": "p", "device": name});
    let result =
        |name: &str| json!({"request": "r", "driver": "d.io", "pool": "p", "device": name});
    let status =
        json!({"allocation": {"devices": {"results": [result("a")]}}, "devices": [device("a")]});
    let path = format!("{claim}/status");
    let allocated = merge(&server, &path, &json!({ "status": status })).await;
    assert_eq!(allocated.expect(200)["status"]["devices"][0]["device"], "a");
    let freed = merge(&server, &path, &json!({"status": {"allocation": null}})).await;
    assert!(freed.expect(200)["status"].get("devices").is_none());

    let schema = create(&server, &find("flowschemas")).await;
    let twice =
        json!({"status": {"conditions": [{"type": "T"}, {"type": "T"}, {"status": "True"}]}});
    let path = format!("{schema}/status");
    let refused = merge(&server, &path, &twice).await.expect(422);
    let fields = refused["details"]["causes"].as_array().unwrap().iter();
    let fields: Vec<_> = fields.map(|cause| cause["message"].clone()).collect();
    assert_eq!(
        fields,
        [
            "Duplicate value: \"T\"",
            "Required value: must not be empty"
        ]
    );
}
