//! Tests of the variable `authorizer` in the expressions of admission policies.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_auth::{Authorization, User};

use super::{Server, config_map};
use crate::{ObjectTarget, RegistryOptions, WriteOptions};

/// Returns the value of an expression for the user ann, from the message with which a policy refuses a write of ann.
fn decision(authorization: Authorization, expression: &str) -> String {
    let mut server = Server::with(RegistryOptions {
        authorization,
        ..RegistryOptions::default()
    });
    for object in [
        json!({"kind": "ClusterRole", "metadata": {"name": "approver"}, "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["approve"]},
            {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get"]},
            {"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]}),
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": "ann"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}]}),
        json!({"kind": "RoleBinding", "metadata": {"name": "robot"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "other"}]}),
    ] {
        let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
        let admin = WriteOptions {
            user: Arc::new(User::admin()),
            ..WriteOptions::default()
        };
        let resource = server.resource(&plural);
        let namespace = Server::namespace(&resource);
        let target = ObjectTarget::collection(&resource, namespace);
        let made = server.registry.create(target, object, &admin, server.now);
        made.unwrap();
    }
    let policy = json!({"metadata": {"name": "tell"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["configmaps"]}]},
        "variables": [{"name": "told", "expression": expression}],
        "validations": [{"expression": "false", "messageExpression": "string(variables.told)"}]}});
    server
        .create("validatingadmissionpolicies", policy)
        .unwrap();
    let binding = json!({"metadata": {"name": "tell"},
        "spec": {"policyName": "tell", "validationActions": ["Deny"]}});
    server
        .create("validatingadmissionpolicybindings", binding)
        .unwrap();
    let options = WriteOptions {
        user: Arc::new(User::new("ann").authenticated()),
        ..WriteOptions::default()
    };
    let resource = server.resource("configmaps");
    let target = ObjectTarget::collection(&resource, Some("default"));
    let mut body = config_map("a");
    body["metadata"]["namespace"] = Value::from("default");
    let done = server.registry.create(target, body, &options, server.now);
    let message = done.unwrap_err().message;
    let (_, decision) = message.split_once("denied request: ").unwrap();
    decision.to_owned()
}

#[test]
fn the_stored_roles_decide() {
    let scale = "authorizer.group('apps').resource('deployments').subresource('scale')";
    for (expression, answer) in [
        (
            "authorizer.requestResource.check('approve').allowed()",
            "true",
        ),
        ("authorizer.requestResource.check('get').allowed()", "false"),
        (
            "authorizer.requestResource.name('b').check('approve').allowed()",
            "false",
        ),
        ("authorizer.path('/healthz').check('get').allowed()", "true"),
        (
            "authorizer.path('/metrics').check('get').allowed()",
            "false",
        ),
        (&format!("{scale}.check('get').allowed()"), "true"),
        (
            &format!("{scale}.subresource('').check('get').allowed()"),
            "false",
        ),
        (
            &format!(
                "{scale}.namespace('a').name('b').labelSelector('a=b').fieldSelector('c=d').check('get').allowed()"
            ),
            "true",
        ),
        (
            &format!(
                "authorizer.serviceAccount('other', 'robot').{}.check('get').allowed()",
                &scale[11..]
            ),
            "false",
        ),
        (
            &format!(
                "authorizer.serviceAccount('other', 'robot').{}.namespace('default').check('get').allowed()",
                &scale[11..]
            ),
            "true",
        ),
        (
            "authorizer.requestResource.check('approve').reason()",
            "RBAC: allowed by ClusterRoleBinding \"ann\" of ClusterRole \"approver\" to User \"ann\"",
        ),
        ("authorizer.requestResource.check('get').errored()", "false"),
        (
            "'<' + authorizer.requestResource.check('get').error() + '>'",
            "<>",
        ),
    ] {
        assert_eq!(
            decision(Authorization::Rbac, expression),
            answer,
            "{expression}"
        );
    }
    let all = "authorizer.group('any').resource('things').check('do').allowed()";
    assert_eq!(decision(Authorization::AlwaysAllow, all), "true");
}

#[test]
fn authorizer_calls_with_invalid_arguments_fail() {
    for expression in [
        "authorizer.path(' ').check('get').allowed()",
        "authorizer.group('').resource('').check('get').allowed()",
        "authorizer.serviceAccount('A', 'b').path('/').check('get').allowed()",
        "authorizer.serviceAccount('a', 'B').path('/').check('get').allowed()",
        "[1, 2, 3].all(i, authorizer.path('/healthz').check('get').allowed())",
    ] {
        // The expression fails, and with it the `messageExpression` of the policy, so the default message is used.
        let decision = decision(Authorization::Rbac, expression);
        assert_eq!(decision, "failed expression: false", "{expression}");
    }
}
