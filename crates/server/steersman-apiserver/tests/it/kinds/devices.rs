//! Claims of devices, and what is allocated of them.

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use crate::support::{get, merge, post};

const GROUP: &str = "/apis/resource.k8s.io/v1/namespaces";
const FORBIDDEN: &str = "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";

fn claim(admin: bool) -> Value {
    let exactly = json!({"deviceClassName": "c", "adminAccess": admin});
    let requests = json!([{"name": "r", "exactly": exactly}]);
    json!({"metadata": {"name": "x"}, "spec": {"devices": {"requests": requests}}})
}

fn allocation(admin: bool) -> Value {
    let result =
        json!({"request": "r", "driver": "d.io", "pool": "p", "device": "a", "adminAccess": admin});
    json!({"devices": {"results": [result]}})
}

fn causes(refusal: &Value) -> Vec<String> {
    let causes = refusal["details"]["causes"].as_array().unwrap().iter();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap().to_owned();
    causes
        .map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")))
        .collect()
}

async fn namespace(server: &ApiServer, name: &str, label: &str) {
    let labels = json!({"resource.kubernetes.io/admin-access": label});
    let body = json!({"metadata": {"name": name, "labels": labels}});
    post(server, "/api/v1/namespaces", &body).await.expect(201);
}

/// AUTH-7.
#[tokio::test(start_paused = true)]
async fn a_namespace_has_to_allow_the_access_of_an_administrator() {
    let server = ApiServer::builder().play_controllers(false).build();
    namespace(&server, "free", "true").await;
    namespace(&server, "shut", "yes").await;
    let template =
        |admin: bool| json!({"metadata": {"name": "t"}, "spec": {"spec": claim(admin)["spec"]}});
    for (kind, body) in [
        ("resourceclaims", claim as fn(bool) -> Value),
        ("resourceclaimtemplates", template),
    ] {
        let path = format!("{GROUP}/shut/{kind}");
        let refused = post(&server, &path, &body(true)).await.expect(422);
        let expected = format!("spec.devices.requests[0].adminAccess: {FORBIDDEN}");
        assert_eq!(causes(&refused), [expected], "{kind}");
        post(&server, &path, &body(false)).await.expect(201);
        let path = format!("{GROUP}/free/{kind}");
        post(&server, &path, &body(true)).await.expect(201);
    }
    let status = |admin: bool| json!({"status": {"allocation": allocation(admin)}});
    let path = format!("{GROUP}/shut/resourceclaims/x/status");
    let refused = merge(&server, &path, &status(true)).await.expect(422);
    let expected = format!("status.allocation.devices.results[0].adminAccess: {FORBIDDEN}");
    assert_eq!(causes(&refused), [expected]);
    merge(&server, &path, &status(false)).await.expect(200);
    let path = format!("{GROUP}/free/resourceclaims/x/status");
    merge(&server, &path, &status(true)).await.expect(200);
    // What was granted stays, whatever becomes of the label.
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": null}}});
    merge(&server, "/api/v1/namespaces/free", &label)
        .await
        .expect(200);
    let reserved =
        json!({"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}});
    merge(&server, &path, &reserved).await.expect(200);
}

/// A status is checked by every way in which it is written.
#[tokio::test(start_paused = true)]
async fn the_status_of_a_claim_is_checked_when_it_is_written() {
    let server = ApiServer::builder().play_controllers(false).build();
    let path = format!("{GROUP}/default/resourceclaims");
    post(&server, &path, &claim(false)).await.expect(201);
    let path = format!("{path}/x");
    let write = json!({"status": {"allocation": allocation(false)}});
    let status = format!("{path}/status");
    merge(&server, &status, &write).await.expect(200);
    let mut other = write.clone();
    other["status"]["allocation"]["devices"]["results"][0]["device"] = json!("b");
    let refused = merge(&server, &status, &other).await.expect(422);
    assert!(causes(&refused)[0].ends_with(": field is immutable"));
    let devices =
        json!({"status": {"devices": [{"driver": "d.io", "pool": "p", "device": "other"}]}});
    let refused = merge(&server, &status, &devices).await.expect(422);
    assert_eq!(
        causes(&refused),
        [
            "status.devices[0]: Invalid value: {\"Driver\":\"d.io\",\"Pool\":\"p\",\"Device\":\"other\",\"ShareID\":\"\"}: must be an allocated device in the claim"
        ]
    );
    let stored = get(&server, &path).await.expect(200);
    assert_eq!(stored["status"], write["status"]);
}
