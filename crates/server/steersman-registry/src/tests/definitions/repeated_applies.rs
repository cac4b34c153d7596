//! Tests of server-side applies of a CRD that change nothing, or little.

use super::*;

fn apply(server: &mut Server, crd: &Value, manager: &str, dry: bool) -> Done<Value> {
    let resource = server.resource("customresourcedefinitions");
    let options = WriteOptions {
        field_manager: Some(manager.to_owned()),
        dry_run: if dry {
            vec!["All".to_owned()]
        } else {
            Vec::new()
        },
        ..WriteOptions::default()
    };
    let name = crd["metadata"]["name"].as_str().unwrap();
    let target = ObjectTarget::object(&resource, None, name);
    let (body, now) = (crd.to_string(), server.now);
    let written =
        server
            .registry
            .patch(target, PatchKind::Apply, body.as_bytes(), &options, now)?;
    Ok(written.object.value().clone())
}

fn stored(server: &Server) -> Value {
    let found = server.get("customresourcedefinitions", "websites.example.com");
    found.unwrap()
}

/// SRV-REG-4: a second apply of the same CRD creates no revision, and its response is the stored CRD.
#[test]
fn a_repeated_apply_of_a_definition_answers_what_is_stored() {
    let mut server = Server::new();
    let mut crd = websites();
    apply(&mut server, &crd, "m", false).unwrap();
    let first = stored(&server);
    server.now += jiff::SignedDuration::from_mins(1);
    for dry in [false, true] {
        assert_eq!(apply(&mut server, &crd, "m", dry).unwrap(), first);
    }
    crd["metadata"]["creationTimestamp"] = Value::Null;
    assert_eq!(apply(&mut server, &crd, "m", false).unwrap(), first);
    // Also for a configuration with a field that is not stored, the second apply changes nothing.
    crd["spec"]["preserveUnknownFields"] = json!(false);
    apply(&mut server, &crd, "m", false).unwrap();
    let second = stored(&server);
    assert_eq!(apply(&mut server, &crd, "m", false).unwrap(), second);
    assert_eq!(second["spec"], first["spec"]);
    assert_eq!(stored(&server), second);
}

/// SRV-REG-4: an apply of a CRD is written if it changes the owners of fields, or a field.
#[test]
fn an_apply_by_another_manager_or_of_fewer_fields_is_written() {
    let mut server = Server::new();
    let mut crd = websites();
    apply(&mut server, &crd, "m", false).unwrap();
    let first = stored(&server);
    let second = apply(&mut server, &crd, "n", false).unwrap();
    assert_ne!(
        first["metadata"]["resourceVersion"],
        second["metadata"]["resourceVersion"]
    );
    let managers = |crd: &Value| {
        let all = crd["metadata"]["managedFields"].as_array().unwrap();
        let all = all.iter().filter(|one| one["operation"] == "Apply");
        all.map(|one| one["manager"].clone()).collect::<Vec<_>>()
    };
    // The managedFields entry of an apply that changed no field has no time, so it is sorted before other entries.
    assert_eq!(managers(&second), ["n", "m"]);
    crd["spec"]["names"]
        .as_object_mut()
        .unwrap()
        .remove("shortNames");
    apply(&mut server, &crd, "m", false).unwrap();
    let third = apply(&mut server, &crd, "n", false).unwrap();
    assert_eq!(third["spec"]["names"]["shortNames"], Value::Null);
    assert_eq!(
        stored(&server)["status"]["acceptedNames"]["shortNames"],
        Value::Null
    );
}

/// SRV-REG-4: policies are evaluated even for an apply of a CRD that changes nothing, and can refuse it.
#[test]
fn a_policy_refuses_a_repeated_apply_of_a_definition() {
    let mut server = Server::new();
    let crd = websites();
    apply(&mut server, &crd, "m", false).unwrap();
    let policy = json!({"metadata": {"name": "frozen"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": ["apiextensions.k8s.io"],
            "apiVersions": ["v1"], "operations": ["UPDATE"],
            "resources": ["customresourcedefinitions"]}]},
        "validations": [{"expression": "false", "message": "frozen"}]}});
    server
        .create("validatingadmissionpolicies", policy)
        .unwrap();
    let binding = json!({"metadata": {"name": "frozen"},
        "spec": {"policyName": "frozen", "validationActions": ["Deny"]}});
    server
        .create("validatingadmissionpolicybindings", binding)
        .unwrap();
    let status = apply(&mut server, &crd, "m", false).unwrap_err();
    assert!(
        status.message.ends_with("denied request: frozen"),
        "{}",
        status.message
    );
}

/// ADM-3: on a server with a conversion webhook and without admission webhooks, a verb skips the steps of admission.
#[test]
fn a_conversion_webhook_sees_no_write_of_other_kinds() {
    let mut server = Server::new();
    let mut crd = websites();
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "conversionReviewVersions": ["v1"]}});
    server.create("customresourcedefinitions", crd).unwrap();
    let asks = |server: &mut Server| {
        let asks = server
            .registry
            .attempt(&mut Attempt::default(), |registry| {
                assert!(registry.is_attended());
                (registry.is_changed(), registry.is_judged())
            });
        asks.unwrap_or_else(|calls| panic!("{calls:?}"))
    };
    assert_eq!(asks(&mut server), (false, false));
    let hooks = json!({"metadata": {"name": "hooks"}});
    server
        .create("validatingwebhookconfigurations", hooks)
        .unwrap();
    assert_eq!(asks(&mut server), (true, true));
}
