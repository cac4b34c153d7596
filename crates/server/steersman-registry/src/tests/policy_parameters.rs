//! Tests that the author of an admission policy or binding must have the permission to read its parameter objects.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_auth::{Authorization, User};

use super::{Done, Server, causes};
use crate::{ObjectTarget, RegistryOptions, WriteOptions};

/// Creates a server with RBAC and a ClusterRole with these rules for the user ann. The helper `write` checks no
/// permission for the write itself, so ann may write all policies and bindings.
fn server(rules: &Value) -> Server {
    let mut server = Server::with(RegistryOptions {
        authorization: Authorization::Rbac,
        ..RegistryOptions::default()
    });
    let role = json!({"metadata": {"name": "reader"}, "rules": rules});
    let binding = json!({"metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}]});
    for (plural, body) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        write(&mut server, User::admin(), plural, body).unwrap();
    }
    server
}

fn write(server: &mut Server, user: User, plural: &str, body: Value) -> Done<Value> {
    let options = WriteOptions {
        user: Arc::new(user),
        ..WriteOptions::default()
    };
    let resource = server.resource(plural);
    let name = body["metadata"]["name"].as_str().unwrap().to_owned();
    let now = server.now;
    let written = if body["metadata"]["resourceVersion"].is_null() {
        let target = ObjectTarget::collection(&resource, None);
        server.registry.create(target, body, &options, now)?
    } else {
        let target = ObjectTarget::object(&resource, None, &name);
        server.registry.update(target, body, &options, now)?
    };
    Ok(written.object.value().clone())
}

fn ann() -> User {
    User::new("ann").group("devs").authenticated()
}

fn policy(name: &str, kind: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "paramKind": {"apiVersion": "v1", "kind": kind},
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["pods"]}]},
        "validations": [{"expression": "params != null"}]}})
}

fn binding(name: &str, policy: &str, reference: &Value) -> Value {
    let mut body = json!({"metadata": {"name": name},
        "spec": {"policyName": policy, "validationActions": ["Deny"], "paramRef": reference}});
    body["spec"]["paramRef"]["parameterNotFoundAction"] = json!("Deny");
    body
}

const ANN: &str = "&{ann  [devs system:authenticated] map[]}";

#[test]
fn a_policys_author_must_be_able_to_read_its_parameters() {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let mut server = server(&rules);
    let policies = "validatingadmissionpolicies";
    let refused = write(&mut server, ann(), policies, policy("p", "Secret"));
    assert_eq!(
        causes(refused),
        [format!(
            "spec.paramKind: Forbidden: user {ANN} must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"
        )]
    );
    let mut made = write(&mut server, ann(), policies, policy("p", "ConfigMap")).unwrap();
    made["spec"]["paramKind"]["kind"] = json!("Secret");
    assert!(write(&mut server, ann(), policies, made.clone()).is_err());
    // A write without a user is one of the program that embeds the server, which needs no permission.
    assert!(server.create(policies, policy("direct", "Secret")).is_ok());
    // Ann may update a policy in which another user has set `paramKind`, as long as this field stays unchanged.
    let mut secret = write(&mut server, User::admin(), policies, made).unwrap();
    secret["metadata"]["labels"] = json!({"a": "b"});
    write(&mut server, ann(), policies, secret).unwrap();
}

#[test]
fn a_bindings_author_must_be_able_to_read_its_parameters() {
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["limits"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}]);
    let mut server = server(&rules);
    let policies = "validatingadmissionpolicies";
    for (name, kind) in [("p", "ConfigMap"), ("q", "Nothing")] {
        write(&mut server, User::admin(), policies, policy(name, kind)).unwrap();
    }
    let bindings = "validatingadmissionpolicybindings";
    let mut message = |policy: &str, reference: Value| {
        causes(write(
            &mut server,
            ann(),
            bindings,
            binding("b", policy, &reference),
        ))
    };
    assert_eq!(
        message("p", json!({"name": "other"})),
        [format!(
            "spec.paramRef: Forbidden: user {ANN} does not have \"get\" permission on the object referenced by paramRef"
        )]
    );
    assert_eq!(
        message("p", json!({"selector": {}})),
        [format!(
            "spec.paramRef: Forbidden: user {ANN} does not have \"list\" permission on the object referenced by paramRef"
        )]
    );
    assert_eq!(
        message("q", json!({"name": "limits"})),
        [format!(
            "spec.paramRef: Forbidden: unable to resolve paramKind &{{v1 Nothing}} to determine minimum required permissions and user {ANN} does not have \"get\" permission for all groups, versions and resources"
        )]
    );
    // For a binding of a policy that does not exist, the kind of the parameters is unknown, so ann lacks a permission.
    assert_eq!(message("none", json!({"name": "limits"})).len(), 1);
    let body = binding("b", "p", &json!({"name": "limits"}));
    let mut made = write(&mut server, ann(), bindings, body).unwrap();
    made["spec"]["paramRef"]["name"] = json!("other");
    assert!(write(&mut server, ann(), bindings, made).is_err());
}
