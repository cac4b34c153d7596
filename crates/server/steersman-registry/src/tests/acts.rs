//! Tests of bindings, evictions, logs and tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use steersman_schema::subresources::Act;

use super::hostile::{anything, whole};
use super::*;

impl Server {
    fn act(&mut self, act: Act, name: &str, body: &Value) -> Done<Option<Value>> {
        let request = ActRequest {
            act,
            namespace: "default",
            name,
            body,
        };
        self.registry
            .act(request, &WriteOptions::default(), self.now)
    }

    fn pod(&mut self, name: &str, spec: &Value) {
        let mut body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "registry.example.com/tool:1"}]}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            body["spec"][field] = value.clone();
        }
        self.create("pods", body).unwrap();
    }
}

#[test]
fn a_pod_is_bound_once() {
    let mut server = Server::new();
    server.pod("p", &json!({}));
    let body = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    server.act(Act::Bind, "p", &body).unwrap();
    assert_eq!(server.get("pods", "p").unwrap()["spec"]["nodeName"], "n");
    let refused = server.act(Act::Bind, "p", &body).unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
    server.pod("gated", &json!({"schedulingGates": [{"name": "g"}]}));
    let body = json!({"metadata": {"name": "gated"}, "target": {"name": "n"}});
    assert_eq!(server.act(Act::Bind, "gated", &body).unwrap_err().code, 409);
    let other = json!({"kind": "Pod", "metadata": {"name": "p"}});
    assert_eq!(server.act(Act::Bind, "p", &other).unwrap_err().code, 400);
}

#[test]
fn a_pod_gets_the_zone_and_the_region_of_its_node() {
    let mut server = Server::new();
    let zone = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"});
    let mut labels = zone.clone();
    labels["topology.kubernetes.io/rack"] = json!("k");
    let node = json!({"metadata": {"name": "n", "labels": labels}});
    server.create("nodes", node).unwrap();
    server.pod("bound", &json!({}));
    let binding = json!({"metadata": {"name": "bound",
        "labels": {"topology.kubernetes.io/zone": "other"}}, "target": {"name": "n"}});
    server.act(Act::Bind, "bound", &binding).unwrap();
    server.pod("fixed", &json!({"nodeName": "n"}));
    for name in ["bound", "fixed"] {
        let pod = server.get("pods", name).unwrap();
        assert_eq!(pod["metadata"]["labels"], zone, "{name}");
    }
    server.pod("elsewhere", &json!({"nodeName": "absent"}));
    let pod = server.get("pods", "elsewhere").unwrap();
    assert_eq!(pod["metadata"].get("labels"), None);
}

#[test]
fn an_eviction_is_refused_by_two_budgets_and_a_refused_delete_costs_no_disruption() {
    let mut server = Server::new();
    server.pod("p", &json!({"nodeName": "n"}));
    let running = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    server
        .patch(
            "pods",
            "p",
            Subresource::Status,
            (PatchKind::Merge, running),
        )
        .unwrap();
    let budget = |name: &str| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": {}}})
    };
    server
        .create("poddisruptionbudgets", budget("one"))
        .unwrap();
    let allowed = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1}});
    server
        .patch(
            "poddisruptionbudgets",
            "one",
            Subresource::Status,
            (PatchKind::Merge, allowed),
        )
        .unwrap();
    let left = |server: &Server| {
        let budget = server.get("poddisruptionbudgets", "one").unwrap();
        budget["status"]["disruptionsAllowed"].clone()
    };
    let stale =
        json!({"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": "x"}}});
    assert_eq!(server.act(Act::Evict, "p", &stale).unwrap_err().code, 409);
    assert_eq!(left(&server), 1);
    server
        .create("poddisruptionbudgets", budget("two"))
        .unwrap();
    let body = json!({"metadata": {"name": "p"}});
    let refused = server.act(Act::Evict, "p", &body).unwrap_err();
    assert!(refused.message.contains("more than one"), "{refused}");
    assert_eq!((refused.code, left(&server)), (500, json!(1)));
}

#[test]
fn an_evicted_pod_gets_a_condition() {
    let mut server = Server::new();
    server.pod("p", &json!({"nodeName": "n"}));
    let before = server.get("pods", "p").unwrap();
    let version = &before["metadata"]["resourceVersion"];
    let rehearsed = json!({"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}});
    server.act(Act::Evict, "p", &rehearsed).unwrap();
    assert_eq!(server.get("pods", "p").unwrap(), before);
    let named = json!({"metadata": {"name": "p"},
        "deleteOptions": {"preconditions": {"resourceVersion": version}}});
    server.act(Act::Evict, "p", &named).unwrap();
    let leaving = server.get("pods", "p").unwrap();
    assert!(leaving["metadata"]["deletionTimestamp"].is_string());
    let condition = json!({"type": "DisruptionTarget", "status": "True", "observedGeneration": 1,
        "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:05Z",
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"});
    let conditions = leaving["status"]["conditions"].as_array().unwrap();
    assert!(conditions.contains(&condition), "{conditions:?}");
    assert_eq!(
        leaving["metadata"]["managedFields"],
        before["metadata"]["managedFields"]
    );
    // A second eviction, one second later, does not change the transition time of the condition `DisruptionTarget`.
    server.now += jiff::SignedDuration::from_secs(1);
    let body = json!({"metadata": {"name": "p"}});
    server.act(Act::Evict, "p", &body).unwrap();
    let again = server.get("pods", "p").unwrap();
    assert_eq!(again["status"]["conditions"].as_array().unwrap().len(), 1);
    let since = &again["status"]["conditions"][0]["lastTransitionTime"];
    assert_eq!(since, "2026-01-02T03:04:05Z");
}

#[test]
fn a_log_needs_the_name_of_one_container() {
    let mut server = Server::new();
    let container = |name: &str| json!({"name": name, "image": "registry.example.com/tool:1"});
    let both = json!([container("a"), container("b")]);
    server.pod("p", &json!({"containers": both, "nodeName": "n"}));
    server.pod("waiting", &json!({}));
    let log = |name: &str, container: &str| {
        let registry = &server.registry;
        registry.pod_log("default", name, (container, false))
    };
    assert_eq!(log("p", "b").unwrap().as_deref(), Some(""));
    assert_eq!(log("waiting", "").unwrap(), None);
    let refused = log("p", "").unwrap_err();
    assert_eq!(
        refused.message,
        "a container name must be specified for pod p, choose one of: [a b]"
    );
    // An exec or attach without a container name is refused for a Pod with several containers, as a log is.
    let exec = |name: &str, container: &str| {
        let registry = &server.registry;
        registry.no_connection("pods", "default", name, Some(container))
    };
    assert_eq!(exec("p", "").message, refused.message);
    let unknown = "container x is not valid for pod p";
    assert_eq!(
        (exec("p", "x").code, &*exec("p", "x").message),
        (400, unknown)
    );
    assert_eq!(exec("p", "b").code, 500);
}

/// The log of the previous run of a container is a 400, unless the Pod's status shows that the container was restarted.
#[test]
fn a_previous_log_exists_only_after_a_container_restart() {
    let mut server = Server::new();
    server.pod("p", &json!({"nodeName": "n"}));
    server.pod("waiting", &json!({}));
    let log = |server: &Server, name: &str| {
        let registry = &server.registry;
        registry.pod_log("default", name, ("", true))
    };
    let mut pod = server.get("pods", "p").unwrap();
    let container = pod["spec"]["containers"][0]["name"].clone();
    let refused = log(&server, "p").unwrap_err();
    assert_eq!(refused.code, 400);
    assert_eq!(
        refused.message,
        format!("previous terminated container {container} in pod \"p\" not found")
    );
    assert_eq!(log(&server, "waiting").unwrap(), None);
    pod["status"]["containerStatuses"] = json!([{"name": container, "image": "i", "imageID": "",
        "ready": false, "restartCount": 1, "lastState": {"terminated": {"exitCode": 1}}}]);
    server.put("pods", Subresource::Status, pod).unwrap();
    assert_eq!(log(&server, "p").unwrap().as_deref(), Some(""));
}

#[test]
fn a_token_names_its_account_and_audience() {
    let mut server = Server::new();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}});
    server.create("serviceaccounts", account).unwrap();
    let answer = server.act(Act::Token, "s", &json!({})).unwrap().unwrap();
    assert_eq!(
        answer["status"]["expirationTimestamp"],
        "2026-01-02T04:04:05Z"
    );
    let token = answer["status"]["token"].as_str().unwrap();
    let payload = token.split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
    assert_eq!(claims["sub"], "system:serviceaccount:default:s");
}

#[test]
fn every_connection_is_refused() {
    let mut server = Server::new();
    server.pod("p", &json!({"nodeName": "n"}));
    server.pod("waiting", &json!({}));
    let code = |plural: &str, name: &str| {
        server
            .registry
            .no_connection(plural, "default", name, None)
            .code
    };
    assert_eq!(code("pods", "p"), 500);
    assert_eq!(code("pods", "https:p:443"), 500);
    assert_eq!(code("pods", "waiting"), 400);
    assert_eq!(code("services", "absent"), 404);
    assert_eq!(code("nodes", "absent"), 404);
}

proptest! {
    // SRV-3, SRV-REG-1: no body makes a binding, eviction or token request panic, and a refusal changes nothing.
    #[test]
    fn no_body_breaks_an_act(spec in anything(), options in anything()) {
        let mut server = Server::new();
        server.pod("p", &json!({}));
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "p"}});
        server.create("serviceaccounts", account).unwrap();
        for body in [
            spec.clone(),
            json!({"metadata": {"name": "p"}, "spec": spec, "target": spec, "deleteOptions": options}),
            json!({"metadata": {"name": "p", "annotations": options}, "target": {"name": "n"},
                "spec": {"boundObjectRef": spec, "audiences": options}}),
        ] {
            for act in [Act::Bind, Act::Evict, Act::Token, Act::Log, Act::Connect] {
                drop(server.registry.take_changed());
                let before = server.registry.revision();
                let done = server.act(act, "p", &body);
                prop_assert!(whole(&mut server, before, &done));
            }
        }
    }
}
