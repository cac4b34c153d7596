//! Tests of names that are not DNS subdomains: some kinds accept them, by group.

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use crate::support::{merge, post, put};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const NEW_EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn event(metadata: &Value) -> Value {
    json!({ "metadata": metadata, "reason": "Because", "type": "Normal",
        "involvedObject": { "kind": "Pod", "name": "p", "namespace": "default" } })
}

fn new_event(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "reason": "Because", "type": "Normal", "action": "Act",
        "eventTime": "2026-01-02T03:04:05.000000Z", "reportingController": "c",
        "reportingInstance": "i",
        "regarding": { "kind": "Pod", "name": "p", "namespace": "default" } })
}

/// Recorders name an Event after its object, and that name may have any form; core/v1 accepts it.
#[tokio::test(start_paused = true)]
async fn events_of_core_have_any_name() {
    let server = ApiServer::new();
    for name in ["Shop_1", "shop.17e1a2", "Shop:a.17"] {
        let made = post(&server, EVENTS, &event(&json!({ "name": name }))).await;
        assert_eq!(made.expect(201)["metadata"]["name"], name);
        let refused = post(&server, NEW_EVENTS, &new_event(&format!("{name}-N"))).await;
        let status = refused.expect(422);
        assert_eq!(
            status["details"]["causes"][0]["field"], "metadata.name",
            "{status}"
        );
    }
    for prefix in ["shop.", "Shop_1.", "shop-"] {
        let made = post(&server, EVENTS, &event(&json!({ "generateName": prefix }))).await;
        let made = made.expect(201);
        let name = made["metadata"]["name"].as_str().unwrap();
        assert!(
            name.starts_with(prefix) && name.len() == prefix.len() + 5,
            "{name}"
        );
    }
    // An update does not check the name, in either group.
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    for events in [EVENTS, NEW_EVENTS] {
        merge(&server, &format!("{events}/Shop_1"), &label)
            .await
            .expect(200);
    }
    // The name must still be a valid path segment.
    let refused = post(&server, EVENTS, &event(&json!({ "name": "a%b" }))).await;
    let why =
        "Event \"a%b\" is invalid: metadata.name: Invalid value: \"a%b\": may not contain '%'";
    assert_eq!(refused.expect(422)["message"], why);
    let put = put(
        &server,
        &format!("{EVENTS}/Put_1"),
        &event(&json!({ "name": "Put_1" })),
    )
    .await;
    put.expect(201);
}

/// Kinds without a validation rule for names, or with one of their own.
#[tokio::test(start_paused = true)]
async fn kinds_without_the_usual_name_rule_accept_their_own_names() {
    let server = ApiServer::new();
    let budget = |name: &str| {
        json!({ "metadata": { "name": name }, "spec": { "maxUnavailable": 1,
            "selector": { "matchLabels": { "a": "b" } } } })
    };
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    post(&server, budgets, &budget("Shop_1")).await.expect(201);
    post(&server, budgets, &budget("a%b")).await.expect(422);

    let driver = |name: &str| json!({ "metadata": { "name": name }, "spec": {} });
    let drivers = "/apis/storage.k8s.io/v1/csidrivers";
    post(&server, drivers, &driver("CSI.Example.com"))
        .await
        .expect(201);
    let refused = post(&server, drivers, &driver("csi_driver"))
        .await
        .expect(422);
    let causes = refused["details"]["causes"].as_array().unwrap();
    assert_eq!(
        (causes.len(), &causes[0]["field"]),
        (1, &json!("name")),
        "{refused}"
    );

    let address = |name: &str| {
        json!({ "metadata": { "name": name },
            "spec": { "parentRef": { "resource": "services", "name": "s", "namespace": "d" } } })
    };
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    for name in ["10.0.0.1", "2001:db8::1"] {
        post(&server, addresses, &address(name)).await.expect(201);
    }
    let refused = post(&server, addresses, &address("2001:DB8::2")).await;
    let why = "IPAddress.networking.k8s.io \"2001:DB8::2\" is invalid: metadata.name: Invalid value: \"2001:DB8::2\": must be in canonical form (\"2001:db8::2\")";
    assert_eq!(refused.expect(422)["message"], why);
}
