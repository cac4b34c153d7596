//! Tests of ResourceQuotas: the counting of their usage, and the refusal of writes that exceed them.

use serde_json::{Value, json};

use super::{Server, config_map, refused};
use crate::{ObjectTarget, RegistryOptions, Subresource, WriteOptions};

fn quota(server: &mut Server, spec: Value) {
    let mut body = json!({"metadata": {"name": "q"}});
    body["spec"] = spec;
    server.create("resourcequotas", body).unwrap();
}

fn used(server: &Server) -> Value {
    server.get("resourcequotas", "q").unwrap()["status"]["used"].clone()
}

fn pod(name: &str, resources: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pod["spec"]["containers"][0]["resources"] = resources;
    pod
}

/// QUOTA-1: the usage changes with creates, deletes and the end of Pods. QUOTA-2: refused writes are not counted.
#[test]
fn quotas_count_objects() {
    let mut server = Server::new();
    server.create("configmaps", config_map("before")).unwrap();
    quota(
        &mut server,
        json!({"hard": {"configmaps": "2", "count/deployments.apps": "1", "pods": "1"}}),
    );
    let status = server.get("resourcequotas", "q").unwrap()["status"].clone();
    assert_eq!(
        status,
        json!({"hard": {"configmaps": "2", "count/deployments.apps": "1", "pods": "1"},
            "used": {"configmaps": "1", "count/deployments.apps": "0", "pods": "0"}})
    );
    server.create("configmaps", config_map("a")).unwrap();
    assert_eq!(
        refused(server.create("configmaps", config_map("b"))),
        (
            403,
            "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2".to_owned()
        )
    );
    assert_eq!(used(&server)["configmaps"], "2");
    server.delete("configmaps", "before").unwrap();
    server.create("configmaps", config_map("b")).unwrap();
    assert_eq!(used(&server)["configmaps"], "2");

    let mut done = server.create("pods", pod("done", json!({}))).unwrap();
    assert_eq!(used(&server)["pods"], "1");
    let (code, _) = refused(server.create("pods", pod("next", json!({}))));
    assert_eq!(code, 403);
    done["status"]["phase"] = json!("Succeeded");
    server.put("pods", Subresource::Status, done).unwrap();
    assert_eq!(used(&server)["pods"], "0");
    server.create("pods", pod("next", json!({}))).unwrap();
}

#[test]
fn containers_must_name_the_resources_a_quota_limits() {
    let mut server = Server::new();
    quota(
        &mut server,
        json!({"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}}),
    );
    assert_eq!(
        refused(server.create("pods", pod("a", json!({})))).1,
        "pods \"a\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
    );
    let asked = json!({"requests": {"cpu": "600m"}, "limits": {"memory": "512Mi"}});
    server.create("pods", pod("a", asked.clone())).unwrap();
    assert_eq!(
        used(&server),
        json!({"requests.cpu": "600m", "limits.memory": "512Mi"})
    );
    assert_eq!(
        refused(server.create("pods", pod("b", asked))).1,
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
}

#[test]
fn a_quota_counts_only_objects_in_its_scopes() {
    let mut server = Server::new();
    quota(
        &mut server,
        json!({"hard": {"pods": "0"}, "scopes": ["Terminating"]}),
    );
    server.create("pods", pod("a", json!({}))).unwrap();
    let mut ending = pod("b", json!({}));
    ending["spec"]["activeDeadlineSeconds"] = json!(5);
    assert_eq!(refused(server.create("pods", ending)).0, 403);
}

#[test]
fn services_are_counted_by_their_type() {
    let mut server = Server::new();
    quota(
        &mut server,
        json!({"hard": {"services.nodeports": "1", "services.loadbalancers": "1"}}),
    );
    let service = |name: &str, kind: &str| {
        json!({"metadata": {"name": name}, "spec": {"type": kind, "selector": {"a": "b"},
            "ports": [{"name": "p", "port": 80}, {"name": "q", "port": 81}]}})
    };
    let mut made = server
        .create("services", service("a", "ClusterIP"))
        .unwrap();
    made["spec"]["type"] = json!("NodePort");
    assert_eq!(
        refused(server.put("services", Subresource::Main, made)).1,
        "services \"a\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1"
    );
    let mut balanced = service("b", "LoadBalancer");
    balanced["spec"]["allocateLoadBalancerNodePorts"] = json!(false);
    server.create("services", balanced).unwrap();
    assert_eq!(
        used(&server),
        json!({"services.nodeports": "0", "services.loadbalancers": "1"})
    );
    server.delete("services", "b").unwrap();
    assert_eq!(used(&server)["services.loadbalancers"], "0");
}

/// Without the quota controller, a quota limits nothing until its status is written, and its usage only grows.
#[test]
fn a_quota_without_its_controller_limits_nothing_until_its_status_is_written() {
    let mut server = Server::with(RegistryOptions {
        count_quotas: false,
        ..RegistryOptions::default()
    });
    quota(&mut server, json!({"hard": {"configmaps": "0"}}));
    server.create("configmaps", config_map("a")).unwrap();
    let mut own = server.get("resourcequotas", "q").unwrap();
    assert_eq!(own["status"], json!({}));
    own["status"] = json!({"hard": {"configmaps": "1"}});
    server
        .put("resourcequotas", Subresource::Status, own)
        .unwrap();
    assert_eq!(
        refused(server.create("configmaps", config_map("b"))).1,
        "configmaps \"b\" is forbidden: status unknown for quota: q, resources: configmaps"
    );
    let mut own = server.get("resourcequotas", "q").unwrap();
    own["status"]["used"] = json!({"configmaps": "0"});
    server
        .put("resourcequotas", Subresource::Status, own)
        .unwrap();
    server.create("configmaps", config_map("b")).unwrap();
    assert_eq!(used(&server), json!({"configmaps": "1"}));
    server.delete("configmaps", "b").unwrap();
    assert_eq!(used(&server), json!({"configmaps": "1"}));
    assert_eq!(refused(server.create("configmaps", config_map("c"))).0, 403);
}

/// ADM-3: webhooks, policies and quotas apply from the write that creates the first object of their
/// kind to the write that deletes the last one.
#[test]
fn webhooks_policies_and_quotas_apply_exactly_while_they_exist() {
    let mut server = Server::new();
    assert!(!server.registry.presence.quotas && !server.registry.has_webhooks());
    quota(&mut server, json!({"hard": {"configmaps": "0"}}));
    assert!(server.registry.presence.quotas);
    assert_eq!(refused(server.create("configmaps", config_map("a"))).0, 403);
    server.delete("resourcequotas", "q").unwrap();
    assert!(!server.registry.presence.quotas);
    server.create("configmaps", config_map("a")).unwrap();
    let hooks = json!({"metadata": {"name": "h"}});
    server
        .create("validatingwebhookconfigurations", hooks)
        .unwrap();
    assert!(server.registry.has_webhooks());
    let snapshot = server.registry.snapshot();
    let mut again = Server::new();
    again.registry.restore(&snapshot);
    assert!(again.registry.has_webhooks() && !again.registry.presence.quotas);
    again
        .delete("validatingwebhookconfigurations", "h")
        .unwrap();
    assert!(!again.registry.has_webhooks());
}

/// QUOTA-2: a dry run is checked against the quota, but does not change its usage.
#[test]
fn a_dry_run_is_not_counted() {
    let mut server = Server::new();
    quota(&mut server, json!({"hard": {"configmaps": "1"}}));
    let options = WriteOptions {
        dry_run: vec!["All".to_owned()],
        ..WriteOptions::default()
    };
    let resource = server.resource("configmaps");
    let target = ObjectTarget::collection(&resource, Some("default"));
    let now = server.now;
    for _ in 0..2 {
        let body = json!({"metadata": {"name": "a"}});
        server.registry.create(target, body, &options, now).unwrap();
    }
    assert_eq!(used(&server)["configmaps"], "0");
}

/// An update that does not increase an amount is accepted, even if the quota has become too small for this amount.
#[test]
fn an_update_counts_only_its_increase() {
    let mut server = Server::new();
    quota(&mut server, json!({"hard": {"services.nodeports": "2"}}));
    let service = json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort",
        "selector": {"a": "b"}, "ports": [{"name": "p", "port": 80}, {"name": "q", "port": 81}]}});
    server.create("services", service).unwrap();
    let label = |server: &mut Server, value: &str| {
        let labels = json!({"metadata": {"labels": {"a": value}}});
        server.merge("services", "a", labels)
    };
    label(&mut server, "1").unwrap();
    let less = json!({"spec": {"hard": {"services.nodeports": "1"}}});
    server.merge("resourcequotas", "q", less).unwrap();
    // The quota controller has copied the new limit from the spec to the status.
    let status = server.get("resourcequotas", "q").unwrap()["status"].clone();
    assert_eq!(
        status,
        json!({"hard": {"services.nodeports": "1"}, "used": {"services.nodeports": "2"}})
    );
    label(&mut server, "2").unwrap();
}

#[test]
fn quotas_count_a_resize() {
    let mut server = Server::new();
    quota(&mut server, json!({"hard": {"requests.cpu": "1"}}));
    let asked = json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "3"}});
    let mut made = server.create("pods", pod("a", asked)).unwrap();
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    let (code, message) = refused(server.put("pods", Subresource::Resize, made.clone()));
    assert_eq!(code, 403, "{message}");
    assert!(
        message.contains("requested: requests.cpu=1500m"),
        "{message}"
    );
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
    server.put("pods", Subresource::Resize, made).unwrap();
    assert_eq!(used(&server)["requests.cpu"], "1");
}
