//! Tests of ComponentStatuses.

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::Played;

use crate::support::{ask, get, post};

const STATUSES: &str = "/api/v1/componentstatuses";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// Returns the cells of a Table of all components.
async fn cells(server: &ApiServer) -> Vec<Value> {
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = ask(server, "GET", STATUSES, &table, "").await.expect(200);
    assert_eq!(table["metadata"], json!({}));
    let rows = table["rows"].as_array().unwrap().iter();
    rows.map(|row| row["cells"].clone()).collect()
}

fn unheld(component: &str, lease: &str, why: &str) -> Value {
    let message =
        format!("kube-system/{lease}: {why}, and {component} is not played by this server");
    json!([component, "Unhealthy", message, ""])
}

#[tokio::test(start_paused = true)]
async fn components_are_listed_as_they_are_known() {
    let server = ApiServer::builder().build();
    let answer = get(&server, STATUSES).await;
    assert_eq!(
        answer.header("warning"),
        "299 - \"v1 ComponentStatus is deprecated in v1.19+\""
    );
    let list = answer.expect(200);
    assert_eq!(list["kind"], "ComponentStatusList");
    assert_eq!(list["metadata"], json!({}));
    let absent = "the Lease does not exist";
    let expected = [
        unheld("controller-manager", "kube-controller-manager", absent),
        json!(["etcd-0", "Healthy", "ok", ""]),
        unheld("scheduler", "kube-scheduler", absent),
    ];
    assert_eq!(cells(&server).await, expected);
    let one = get(&server, &format!("{STATUSES}/etcd-0"))
        .await
        .expect(200);
    let healthy = json!({
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": "etcd-0"},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    });
    assert_eq!(one, healthy);
    let selected = get(
        &server,
        &format!("{STATUSES}?fieldSelector=metadata.name=scheduler"),
    )
    .await;
    assert_eq!(
        selected.expect(200)["items"].as_array().map(Vec::len),
        Some(1)
    );
    let unknown = get(&server, &format!("{STATUSES}/scheduler-1"))
        .await
        .expect(500);
    assert_eq!(unknown["message"], "Component not found: scheduler-1");
    assert_eq!(unknown.get("reason"), None);
}

/// A component that another program runs renews its Lease.
#[tokio::test(start_paused = true)]
async fn a_component_with_a_held_lease_is_healthy() {
    let server = ApiServer::builder().build();
    let lease = |name: &str, renewed: &str| {
        json!({"metadata": {"name": name}, "spec": {"holderIdentity": "node_1",
            "leaseDurationSeconds": 15, "renewTime": renewed}})
    };
    let held = lease("kube-scheduler", "2999-01-01T00:00:00.000000Z");
    let lost = lease("kube-controller-manager", "1999-01-01T00:00:00.000000Z");
    post(&server, LEASES, &held).await.expect(201);
    post(&server, LEASES, &lost).await.expect(201);
    let late = "the Lease is not held";
    let expected = [
        unheld("controller-manager", "kube-controller-manager", late),
        json!(["etcd-0", "Healthy", "ok", ""]),
        json!(["scheduler", "Healthy", "ok", ""]),
    ];
    assert_eq!(cells(&server).await, expected);
}

#[tokio::test(start_paused = true)]
async fn played_components_are_healthy() {
    let server = ApiServer::builder().play(Played::everything()).build();
    for row in cells(&server).await {
        assert_eq!(row[1], "Healthy", "{row}");
    }
}
