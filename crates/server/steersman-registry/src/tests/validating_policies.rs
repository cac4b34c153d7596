//! Tests of ValidatingAdmissionPolicies: their refusals, and their validation.

use serde_json::{Value, json};

use super::{Server, causes, config_map, refused};
use crate::{RegistryOptions, Subresource};

/// Creates a ValidatingAdmissionPolicy for ConfigMaps, with the fields `with` in its spec.
fn policy(server: &mut Server, name: &str, with: &Value) {
    let mut body = json!({"metadata": {"name": name}, "spec": {"matchConstraints": {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["configmaps"]}]}}});
    for (field, value) in with.as_object().unwrap() {
        body["spec"][field] = value.clone();
    }
    server.create("validatingadmissionpolicies", body).unwrap();
}

fn binding(server: &mut Server, policy: &str, with: &Value) {
    let mut body = json!({"metadata": {"name": format!("{policy}-here")},
        "spec": {"policyName": policy, "validationActions": ["Deny"]}});
    for (field, value) in with.as_object().unwrap() {
        body["spec"][field] = value.clone();
    }
    server
        .create("validatingadmissionpolicybindings", body)
        .unwrap();
}

fn messages(server: &Server) -> Vec<String> {
    server.registry.take_warnings().1
}

/// ADM-4: a policy refuses objects from the creation of a binding to its deletion.
#[test]
fn a_binding_puts_a_policy_into_force() {
    let mut server = Server::new();
    let rules = json!({"validations": [
        {"expression": "object == null || !has(object.data) || size(object.data) < 2"},
        {"expression": "request.operation != 'DELETE'", "reason": "Forbidden",
            "messageExpression": "'keep ' + request.name"}]});
    policy(&mut server, "small", &rules);
    let mut big = config_map("a");
    big["data"] = json!({"a": "1", "b": "2"});
    server.create("configmaps", big.clone()).unwrap();
    binding(&mut server, "small", &json!({}));
    big["metadata"]["name"] = json!("b");
    let status = server.create("configmaps", big).unwrap_err();
    let message = "ValidatingAdmissionPolicy 'small' with binding 'small-here' denied request: failed expression: object == null || !has(object.data) || size(object.data) < 2";
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": 422, "reason": "Invalid",
            "message": format!("configmaps \"b\" is forbidden: {message}"),
            "details": {"name": "b", "kind": "configmaps", "causes": [{"message": message}]}})
    );
    assert_eq!(
        refused(server.delete("configmaps", "a")),
        (
            403,
            "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'small' with binding 'small-here' denied request: keep a".to_owned()
        )
    );
    server
        .delete("validatingadmissionpolicybindings", "small-here")
        .unwrap();
    server.delete("configmaps", "a").unwrap();
}

#[test]
fn policies_evaluate_variables_conditions_and_parameters() {
    let mut server = Server::new();
    policy(
        &mut server,
        "limit",
        &json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConditions": [{"name": "not-params", "expression": "!request.name.startsWith('limits')"}],
            "variables": [
                {"name": "count", "expression": "has(object.data) ? size(object.data) : 0"},
                {"name": "most", "expression": "int(params.data.most)"},
                {"name": "fits", "expression": "variables.count <= variables.most"}],
            "validations": [{"expression": "variables.fits",
                "messageExpression": "string(variables.count) + ' are more than ' + string(variables.most)"}]}),
    );
    let reference = json!({"name": "limits", "parameterNotFoundAction": "Deny"});
    binding(&mut server, "limit", &json!({"paramRef": reference}));
    let lead = "ValidatingAdmissionPolicy 'limit' with binding 'limit-here' denied request";
    assert_eq!(
        refused(server.create("configmaps", config_map("a"))).1,
        format!(
            "configmaps \"a\" is forbidden: {lead}: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        )
    );
    let mut limits = config_map("limits");
    limits["data"] = json!({"most": "1"});
    // The policy also matches the create of its own parameter object, and is evaluated before this exists.
    assert_eq!(refused(server.create("configmaps", limits.clone())).0, 422);
    server
        .delete("validatingadmissionpolicybindings", "limit-here")
        .unwrap();
    let limits = server.create("configmaps", limits).unwrap();
    binding(
        &mut server,
        "limit",
        &json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}}),
    );
    let mut fits = config_map("a");
    fits["data"] = json!({"a": "1"});
    let mut fits = server.create("configmaps", fits).unwrap();
    fits["data"]["b"] = json!("2");
    assert_eq!(
        refused(server.put("configmaps", Subresource::Main, fits)).1,
        format!("configmaps \"a\" is forbidden: {lead}: 2 are more than 1")
    );
    let mut odd = limits;
    odd["data"] = json!({});
    server.put("configmaps", Subresource::Main, odd).unwrap();
    assert_eq!(
        refused(server.create("configmaps", config_map("c"))).1,
        format!(
            "configmaps \"c\" is forbidden: {lead}: expression 'variables.fits' resulted in error: composited variable \"fits\" fails to evaluate: composited variable \"most\" fails to evaluate: no such key: data"
        )
    );
}

#[test]
fn bindings_warn_and_select() {
    let mut server = Server::with(RegistryOptions::default());
    policy(
        &mut server,
        "never",
        &json!({"validations": [{"expression": "false", "message": "no more"}]}),
    );
    binding(
        &mut server,
        "never",
        &json!({"validationActions": ["Warn", "Audit"],
            "matchResources": {"objectSelector": {"matchLabels": {"a": "b"}},
                "excludeResourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                    "operations": ["*"], "resources": ["configmaps"], "resourceNames": ["spared"]}]}}),
    );
    let labelled = |name: &str| {
        let mut map = config_map(name);
        map["metadata"]["labels"] = json!({"a": "b"});
        map
    };
    server.create("configmaps", config_map("plain")).unwrap();
    server.create("configmaps", labelled("spared")).unwrap();
    assert!(messages(&server).is_empty());
    server.create("configmaps", labelled("told")).unwrap();
    assert_eq!(
        messages(&server),
        [
            "Validation failed for ValidatingAdmissionPolicy 'never' with binding 'never-here': no more"
        ]
    );
}

#[test]
fn expressions_are_checked_when_a_policy_is_written() {
    let mut server = Server::new();
    let body = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["pods"]}]},
        "matchConditions": [{"name": "c", "expression": "1"}],
        "variables": [{"name": "v", "expression": "object."}],
        "validations": [{"expression": "params.a == 1", "messageExpression": "1"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "2"}]}});
    let causes = causes(server.create("validatingadmissionpolicies", body));
    assert_eq!(causes.len(), 5, "{causes:#?}");
    assert_eq!(
        causes[0],
        "spec.matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int"
    );
    assert!(causes[1].starts_with(
        "spec.variables[0].expression: Invalid value: \"object.\": compilation failed: ERROR: <input>:1:8: Syntax error"
    ), "{}", causes[1]);
    assert_eq!(
        causes[2],
        "spec.validations[0].expression: Invalid value: \"params.a == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.a == 1\n | ^"
    );
    assert_eq!(
        causes[3],
        "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int"
    );
    assert_eq!(
        causes[4],
        "spec.auditAnnotations[0].valueExpression: Invalid value: \"2\": must evaluate to one of [string null_type] but got int"
    );
}

#[test]
fn a_policy_that_cannot_be_evaluated_passes_if_failures_are_ignored() {
    let mut server = Server::new();
    let odd = json!([{"name": "odd", "expression": "object.none.none == 1"}]);
    policy(
        &mut server,
        "odd",
        &json!({"failurePolicy": "Ignore", "matchConditions": odd,
            "validations": [{"expression": "false"}]}),
    );
    binding(&mut server, "odd", &json!({}));
    server.create("configmaps", config_map("a")).unwrap();
}

#[test]
fn a_message_beyond_the_limit_is_replaced() {
    let mut server = Server::new();
    let long = format!("'{}'", "x".repeat(6_000));
    policy(
        &mut server,
        "long",
        &json!({"validations": [{"expression": "false", "messageExpression": long}]}),
    );
    binding(&mut server, "long", &json!({}));
    let message = refused(server.create("configmaps", config_map("a"))).1;
    assert!(message.ends_with("failed expression: false"), "{message}");
}

#[test]
fn parameters_may_be_in_another_namespace() {
    let mut server = Server::new();
    let params = json!({"metadata": {"name": "limits"}, "data": {"most": "0"}});
    let resource = server.resource("configmaps");
    let target = crate::ObjectTarget::collection(&resource, Some("kube-system"));
    let options = crate::WriteOptions::default();
    let now = server.now;
    server
        .registry
        .create(target, params, &options, now)
        .unwrap();
    policy(
        &mut server,
        "limit",
        &json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "size(object.data) <= int(params.data.most)"}]}),
    );
    let place = json!({"name": "limits", "namespace": "kube-system",
        "parameterNotFoundAction": "Allow"});
    binding(&mut server, "limit", &json!({"paramRef": place}));
    assert_eq!(refused(server.create("configmaps", config_map("a"))).0, 422);
}

/// CEL-1: all match conditions of a policy share one cost budget. It is enough for three conditions with two costly
/// calls of the authorizer each, but not for four.
#[test]
fn conditions_share_a_budget() {
    let mut server = Server::new();
    let twice = "authorizer.path('/a').check('get').allowed() && authorizer.path('/b').check('get').allowed()";
    let condition = |at: usize| json!({"name": format!("c{at}"), "expression": twice});
    for (count, passes) in [(3, true), (4, false)] {
        let name = format!("p{count}");
        let conditions: Vec<Value> = (0..count).map(condition).collect();
        let with = json!({"matchConditions": conditions, "validations": [{"expression": "true"}]});
        policy(&mut server, &name, &with);
        binding(&mut server, &name, &json!({}));
        let made = server.create("configmaps", config_map(&name));
        assert_eq!(made.is_ok(), passes, "{count}: {made:?}");
    }
}
