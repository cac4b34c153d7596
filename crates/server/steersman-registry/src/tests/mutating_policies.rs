//! Tests of MutatingAdmissionPolicies: their effects, and their validation.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Server, causes, config_map, deployment, refused};
use crate::{ObjectTarget, Subresource, WriteOptions};

/// Creates a MutatingAdmissionPolicy for one resource, with the fields `with` in its spec, and a binding of this
/// policy.
fn policy(server: &mut Server, name: &str, resource: &str, with: &Value) {
    let (group, resource) = resource.split_once(':').unwrap_or(("", resource));
    let mut body = json!({"metadata": {"name": name}, "spec": {"reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [{"apiGroups": [group], "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"], "resources": [resource]}]}}});
    for (field, value) in with.as_object().unwrap() {
        body["spec"][field] = value.clone();
    }
    server.create("mutatingadmissionpolicies", body).unwrap();
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    server
        .create("mutatingadmissionpolicybindings", binding)
        .unwrap();
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// Returns the `mutations` for the spec of a policy that sets a label; `value` is a CEL expression.
fn label(name: &str, value: &str) -> Value {
    json!({"mutations": [apply(&format!(
        "Object{{metadata: Object.metadata{{labels: {{'{name}': {value}}}}}}}"
    ))]})
}

/// ADM-4: a policy changes objects from the creation of a binding to its deletion, and always in its newest form.
#[test]
fn a_binding_puts_a_policy_into_force() {
    let mut server = Server::new();
    policy(&mut server, "team", "configmaps", &label("team", "'a'"));
    let made = server.create("configmaps", config_map("one")).unwrap();
    assert_eq!(made["metadata"]["labels"], json!({"team": "a"}));
    let mut other = server.get("mutatingadmissionpolicies", "team").unwrap();
    other["spec"]["mutations"] = label("team", "'b'")["mutations"].clone();
    let put = |server: &mut Server, plural: &str, body| server.put(plural, Subresource::Main, body);
    put(&mut server, "mutatingadmissionpolicies", other).unwrap();
    let changed = server.merge("configmaps", "one", json!({"data": {"b": "2"}}));
    assert_eq!(changed.unwrap()["metadata"]["labels"], json!({"team": "b"}));
    server
        .delete("mutatingadmissionpolicybindings", "team")
        .unwrap();
    let made = server.create("configmaps", config_map("two")).unwrap();
    assert_eq!(made["metadata"].get("labels"), None);
    server.delete("configmaps", "one").unwrap();
}

/// ADM-4: writes of other objects use the compiled policies; only a write of a policy compiles them again.
#[test]
fn a_policy_is_compiled_once() {
    let mut server = Server::new();
    policy(&mut server, "team", "configmaps", &label("team", "'a'"));
    let compiled = |server: &Server| {
        let registry = &server.registry;
        let mut compiled = registry.compiled.borrow_mut();
        Arc::clone(
            &compiled
                .renewed(&registry.store, &registry.presence)
                .mutating,
        )
    };
    let before = compiled(&server);
    server.create("configmaps", config_map("one")).unwrap();
    assert!(Arc::ptr_eq(&before, &compiled(&server)));
    policy(&mut server, "more", "configmaps", &label("more", "'a'"));
    assert_eq!(compiled(&server).len(), 2);
}

#[test]
fn an_apply_configuration_is_merged_into_the_object() {
    let mut server = Server::new();
    let sidecar =
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
        ?priorityClassName: optional.none(),
        initContainers: [Object.spec.template.spec.initContainers{
            name: 'mesh', image: params.data.image, restartPolicy: 'Always'}]
            + (has(object.spec.template.spec.initContainers) ? [] : [])}}}}";
    let with = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "wanted", "expression": "object.metadata.name != 'plain'"}],
        "mutations": [apply(sidecar)]});
    policy(&mut server, "mesh", "apps:deployments", &with);
    let mut binding = server
        .get("mutatingadmissionpolicybindings", "mesh")
        .unwrap();
    binding["spec"]["paramRef"] = json!({"name": "mesh", "parameterNotFoundAction": "Deny"});
    server
        .put(
            "mutatingadmissionpolicybindings",
            Subresource::Main,
            binding,
        )
        .unwrap();
    assert_eq!(
        refused(server.create("deployments", deployment("a"))),
        (403, "policy 'mesh' with binding 'mesh' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction".to_owned())
    );
    let mut params = config_map("mesh");
    params["data"] = json!({"image": "mesh:1"});
    server.create("configmaps", params).unwrap();
    let mut own = deployment("a");
    own["spec"]["template"]["spec"]["initContainers"] = json!([{"name": "own", "image": "own:1"}]);
    let made = server.create("deployments", own).unwrap();
    let inits = &made["spec"]["template"]["spec"]["initContainers"];
    assert_eq!(
        (&inits[0]["name"], &inits[1]["name"]),
        (&json!("own"), &json!("mesh"))
    );
    assert_eq!(inits[1]["image"], "mesh:1");
    // The container `mesh`, which the policy has added, gets defaults like the containers of the client. No field
    // manager owns its fields.
    assert_eq!(inits[1]["imagePullPolicy"], "IfNotPresent");
    assert!(
        !made["metadata"]["managedFields"]
            .to_string()
            .contains("mesh")
    );
    let plain = server.create("deployments", deployment("plain")).unwrap();
    assert_eq!(
        plain["spec"]["template"]["spec"].get("initContainers"),
        None
    );
}

#[test]
fn all_operations_of_a_policys_patch_apply_or_none() {
    let mut server = Server::new();
    let operations = "[
        JSONPatch{op: 'test', path: '/data/a', value: '1'},
        JSONPatch{op: 'add', path: '/metadata/labels', value: {}},
        JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/b'), value: 'c'},
        JSONPatch{op: 'add', path: '/data', value: Object.data{a: '1', d: string(variables.count)}}]";
    policy(
        &mut server,
        "patch",
        "configmaps",
        &json!({"variables": [{"name": "count", "expression": "size(object.data)"}],
            "matchConditions": [{"name": "own", "expression": "!has(object.metadata.labels)"}],
            "mutations": [patch(operations)]}),
    );
    let made = server.create("configmaps", config_map("a")).unwrap();
    assert_eq!(made["metadata"]["labels"], json!({"example.com/b": "c"}));
    assert_eq!(made["data"], json!({"a": "1", "d": "1"}));
    // If the `test` operation of a JSON patch does not hold, the policy leaves the object unchanged.
    let mut other = config_map("b");
    other["data"]["a"] = json!("2");
    let made = server.create("configmaps", other).unwrap();
    assert_eq!(made["data"], json!({"a": "2"}));
    assert_eq!(made["metadata"].get("labels"), None);
}

#[test]
fn failures_of_a_policy_deny_or_are_ignored() {
    let why = |expression: Value, ignored: bool| {
        let mut server = Server::new();
        let failure = if ignored { "Ignore" } else { "Fail" };
        let with = json!({"failurePolicy": failure, "mutations": [expression]});
        policy(&mut server, "p", "configmaps", &with);
        server.create("configmaps", config_map("a"))
    };
    let lead = "policy 'p' with binding 'p' denied request: ";
    for (expression, expected) in [
        (
            apply("Object{data: {'a': string(object.data.none)}}"),
            "expression 'Object{data: {'a': string(object.data.none)}}' resulted in error: no such key: none",
        ),
        (
            apply("Object{metadata: Object.meta{}}"),
            "type mismatch: unexpected type name \"Object.meta\", expected \"Object.metadata\", which matches field name path from root Object type",
        ),
        (
            apply("Object{dat: {'a': 'b'}}"),
            "error applying patch: failed to convert patch object to typed object: .dat: field not declared in schema",
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/data/none'}]"),
            "JSONPath: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value",
        ),
    ] {
        let status = why(expression.clone(), false).unwrap_err();
        let message = format!("{lead}{expected}");
        assert_eq!(status.message, message);
        assert_eq!((status.code, status.reason.as_str()), (403, "Invalid"));
        assert_eq!(status.details.unwrap().causes[0].message, message);
        assert!(why(expression.clone(), true).is_ok(), "{expression}");
    }
    // As upstream, a JSON patch with a result that is no object of the kind is a 500, with any `failurePolicy`.
    let odd = patch("[JSONPatch{op: 'add', path: '/odd', value: 1}]");
    assert_eq!(
        refused(why(odd, true)),
        (
            500,
            "Internal error occurred: strict decoding error: unknown field \"odd\"".to_owned()
        )
    );
}

/// An apply configuration with an atomic list or map is refused, because it would replace the whole list or map.
#[test]
fn an_apply_configuration_cannot_replace_an_atomic_value() {
    let mut server = Server::new();
    let args =
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
        containers: [Object.spec.template.spec.containers{name: 'main', args: ['x']}],
        nodeSelector: {'a': 'b'}}}}}";
    let with = json!({"mutations": [apply(args)]});
    policy(&mut server, "p", "apps:deployments", &with);
    let (code, message) = refused(server.create("deployments", deployment("a")));
    assert_eq!(code, 403);
    assert!(
        message.ends_with("error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.template.spec.containers[0].args, .spec.template.spec.nodeSelector"),
        "{message}"
    );
}

#[test]
fn a_policy_with_reinvocation_sees_later_changes() {
    for (again, counted) in [("Never", "1"), ("IfNeeded", "2")] {
        let mut server = Server::new();
        let mut counts = label("count", "string(size(object.metadata.labels))");
        counts["reinvocationPolicy"] = json!(again);
        counts["mutations"][0]["applyConfiguration"]["expression"] = json!(
            "Object{metadata: Object.metadata{annotations: {'count': string(size(object.metadata.?labels.orValue({})))}}}"
        );
        policy(&mut server, "a", "configmaps", &counts);
        policy(&mut server, "b", "configmaps", &label("b", "'1'"));
        let mut map = config_map("one");
        map["metadata"]["labels"] = json!({"own": "1"});
        let made = server.create("configmaps", map).unwrap();
        assert_eq!(made["metadata"]["annotations"]["count"], counted, "{again}");
        assert_eq!(made["metadata"]["labels"]["b"], "1");
    }
}

#[test]
fn policies_change_subresources_that_their_rules_name() {
    let mut server = Server::new();
    let most = "Object{spec: Object.spec{replicas: 2}}";
    let with = json!({"matchConditions": [{"name": "many", "expression": "object.spec.replicas > 2"}],
        "mutations": [apply(most)]});
    policy(&mut server, "few", "apps:deployments/scale", &with);
    let mut many = deployment("a");
    many["spec"]["replicas"] = json!(5);
    server.create("deployments", many).unwrap();
    let mut scale = server
        .get_part("deployments", "a", Subresource::Scale)
        .unwrap();
    assert_eq!(scale["spec"]["replicas"], 5);
    scale["spec"]["replicas"] = json!(7);
    server
        .put("deployments", Subresource::Scale, scale)
        .unwrap();
    let found = server.get("deployments", "a").unwrap();
    assert_eq!(found["spec"]["replicas"], 2);
}

#[test]
fn expressions_are_checked_when_a_policy_is_written() {
    let mut server = Server::new();
    let body = json!({"metadata": {"name": "p"}, "spec": {"reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["pods"]}]},
        "mutations": [apply("[]"), patch("Object{}"), apply("Object{spec: Other{}}"), patch(" ")]}});
    assert_eq!(
        causes(server.create("mutatingadmissionpolicies", body)),
        [
            "spec.mutations[0].applyConfiguration.expression: Invalid value: \"[]\": must evaluate to Object but got list(dyn)",
            "spec.mutations[1].jsonPatch.expression: Invalid value: \"Object{}\": must evaluate to list(JSONPatch) but got Object",
            "spec.mutations[2].applyConfiguration.expression: Invalid value: \"Object{spec: Other{}}\": compilation failed: ERROR: <input>:1:19: undeclared reference to 'Other' (in container '')\n | Object{spec: Other{}}\n | ..................^",
            "spec.mutations[3].jsonPatch.expression: Required value: expression is not specified",
        ]
    );
}

/// SRV-3: CEL variables that nest values in each other are refused before the depth of nesting overflows a stack.
#[test]
fn nesting_of_expression_values_is_bounded() {
    let mut server = Server::new();
    let mut variables = vec![json!({"name": "v0", "expression": "[1]"})];
    for at in 1..30 {
        let expression = format!("{}variables.v{}{}", "[".repeat(20), at - 1, "]".repeat(20));
        variables.push(json!({"name": format!("v{at}"), "expression": expression}));
    }
    let with = json!({"variables": variables, "mutations": [
        patch("[JSONPatch{op: 'add', path: '/data', value: variables.v29}]")]});
    policy(&mut server, "deep", "configmaps", &with);
    let (code, message) = refused(server.create("configmaps", config_map("a")));
    assert_eq!(code, 403);
    assert!(message.contains("nested too deep"), "{}", &message[..200]);
}

/// A policy for all resources does not match writes of policies and bindings, because it could refuse its own removal.
/// It does not match reviews, either.
#[test]
fn policies_do_not_match_policies_and_reviews() {
    let mut server = Server::new();
    let everything = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["*/*"]}]);
    let mut with = label("own", "string(object.none)");
    with["matchConstraints"] = json!({"resourceRules": everything});
    policy(&mut server, "all", "configmaps", &with);
    policy(&mut server, "more", "configmaps", &with);
    let lead = "policy 'all' with binding 'all' denied request: ";
    let hooks = json!({"metadata": {"name": "hooks"}});
    for (plural, body) in [
        ("configmaps", config_map("a")),
        ("validatingwebhookconfigurations", hooks),
    ] {
        let (code, message) = refused(server.create(plural, body));
        assert_eq!((code, message.starts_with(lead)), (403, true), "{message}");
    }
    let resource = server.resource("selfsubjectreviews");
    let target = ObjectTarget::collection(&resource, None);
    let options = WriteOptions::default();
    let review = server
        .registry
        .review(target, json!({}), &options, server.now);
    assert!(review.is_ok(), "{review:?}");
}
