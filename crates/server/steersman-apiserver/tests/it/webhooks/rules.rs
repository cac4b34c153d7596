//! Tests of the rules that select the requests of a webhook.

use super::*;

#[tokio::test(start_paused = true)]
async fn dry_runs_call_only_webhooks_without_side_effects() {
    let server = server();
    let judge = answer_for(&server, "judge", |_| allowed());
    validating(&server, "judge", &json!({"sideEffects": "NoneOnDryRun"}));
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    post(&server, &path, &config_map("a")).await.expect(201);
    assert_eq!(judge.lock()[0]["dryRun"], true);
    // Only objects older than the validation rule can have such a webhook, so the update may be
    // refused; then there is nothing to test.
    let mut found = server.list(
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "",
    );
    found[0]["webhooks"][0]["sideEffects"] = json!("Some");
    if server
        .update(
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
            found.remove(0),
        )
        .is_ok()
    {
        let message = "admission webhook \"judge.example.com\" does not support dry run";
        let refused = refusal(&post(&server, &path, &config_map("a")).await);
        assert_eq!(refused, (400, message.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_filtered_by_selectors() {
    let server = server();
    let chosen = json!({"matchLabels": {"ask": "yes"}});
    let objects = answer_for(&server, "objects", |_| allowed());
    validating(&server, "objects", &json!({"objectSelector": chosen}));
    let spaces = answer_for(&server, "spaces", |_| allowed());
    validating(&server, "spaces", &json!({"namespaceSelector": chosen}));
    create_config_maps(&server, &["a"]).await;
    assert_eq!((objects.lock().len(), spaces.lock().len()), (0, 0));
    let label = json!({"metadata": {"labels": {"ask": "yes"}}});
    merge(&server, &at("a"), &label).await.expect(200);
    assert_eq!(objects.lock().len(), 1);
    // The object had the label before the update that removes it.
    let unlabel = json!({"metadata": {"labels": {"ask": null}}});
    merge(&server, &at("a"), &unlabel).await.expect(200);
    assert_eq!(objects.lock().len(), 2);
    merge(&server, "/api/v1/namespaces/default", &label)
        .await
        .expect(200);
    merge(&server, &at("a"), &json!({"data": {"k": "w"}}))
        .await
        .expect(200);
    assert_eq!((objects.lock().len(), spaces.lock().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_called_for_subresources_their_rules_name() {
    let server = server();
    server.create(deployment("d")).unwrap();
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    let of = |resources: Value| {
        rules(
            &json!({"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
            "resources": resources}),
        )
    };
    let main = answer_for(&server, "main", |_| allowed());
    validating(&server, "main", &of(json!(["deployments"])));
    let parts = answer_for(&server, "parts", |_| allowed());
    validating(
        &server,
        "parts",
        &of(json!(["deployments/status", "deployments/scale"])),
    );
    answer_for(&server, "scaler", |_| {
        patched(&json!([{"op": "replace", "path": "/spec/replicas", "value": 7}]))
    });
    mutating(&server, "scaler", &of(json!(["deployments/scale"])));
    let status = json!({"status": {"replicas": 1}});
    merge(&server, &format!("{path}/status"), &status)
        .await
        .expect(200);
    assert_eq!((main.lock().len(), parts.lock().len()), (0, 1));
    assert_eq!(parts.lock()[0]["subResource"], "status");
    assert_eq!(parts.lock()[0]["object"]["kind"], "Deployment");
    let scale = json!({"spec": {"replicas": 3}});
    let scaled = merge(&server, &format!("{path}/scale"), &scale)
        .await
        .expect(200);
    assert_eq!(scaled["spec"]["replicas"], 7);
    let asked = parts.lock().remove(1);
    assert_eq!(asked["kind"]["kind"], "Scale");
    assert_eq!(asked["resource"]["resource"], "deployments");
    assert_eq!(asked["object"]["spec"]["replicas"], 7);
    assert_eq!(asked["oldObject"]["spec"]["replicas"], 2);
    merge(&server, path, &json!({"spec": {"replicas": 4}}))
        .await
        .expect(200);
    assert_eq!(main.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_not_called_for_webhook_configurations() {
    let server = server();
    let everything = rules(
        &json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["*/*"]}),
    );
    let all = answer_for(&server, "all", |_| json!({"allowed": false}));
    validating(&server, "all", &everything);
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/all";
    merge(&server, path, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .expect(200);
    assert_eq!(
        post(&server, CONFIG_MAPS, &config_map("a")).await.status,
        400
    );
    delete(&server, path).await.expect(200);
    assert_eq!(all.lock().len(), 1);
    post(&server, CONFIG_MAPS, &config_map("a"))
        .await
        .expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_rule_for_one_version_matches_equivalent_versions() {
    let server = server();
    let mut crd = website_crd();
    let mut beta = crd["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().push(beta);
    server.install_crd(crd).unwrap();
    let of = |policy: &str| {
        json!({"matchPolicy": policy, "rules": [{"operations": ["CREATE"],
            "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["websites"]}]})
    };
    let same = answer_for(&server, "same", |_| {
        patched(&json!([{"op": "add", "path": "/spec/replicas", "value": 5}]))
    });
    mutating(&server, "same", &of("Equivalent"));
    let exact = answer_for(&server, "exact", |_| allowed());
    validating(&server, "exact", &of("Exact"));
    let mut body = website("w");
    body["apiVersion"] = json!("example.com/v1beta1");
    let path = "/apis/example.com/v1beta1/namespaces/default/websites";
    let made = post(&server, path, &body).await.expect(201);
    assert_eq!(made["apiVersion"], "example.com/v1beta1");
    assert_eq!(made["spec"]["replicas"], 5);
    let asked = same.lock().remove(0);
    assert_eq!(asked["object"]["apiVersion"], "example.com/v1");
    assert_eq!(asked["resource"]["version"], "v1");
    assert_eq!(asked["requestResource"]["version"], "v1beta1");
    assert!(exact.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_called_for_acts_on_pods() {
    let server = server();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "image": "i"}]}});
    server.create(pod).unwrap();
    let judge = answer_for(&server, "judge", |_| json!({"allowed": false}));
    let evictions = rules(&json!({"operations": ["CREATE"], "apiGroups": ["*"],
        "apiVersions": ["*"], "resources": ["pods/eviction"]}));
    validating(&server, "judge", &evictions);
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let path = "/api/v1/namespaces/default/pods/p";
    let answer = post(&server, &format!("{path}/eviction"), &eviction).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    get(&server, path).await.expect(200);
    let asked = judge.lock().remove(0);
    assert_eq!(asked["kind"]["kind"], "Eviction");
    assert_eq!(
        (&asked["subResource"], &asked["name"]),
        (&json!("eviction"), &json!("p"))
    );
    delete(&server, path).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_called_for_connections_before_the_refusal() {
    let server = server();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "image": "i"}]}});
    server.create(pod).unwrap();
    let judge = answer_for(&server, "judge", |_| json!({"allowed": false}));
    let connections = rules(&json!({"operations": ["CONNECT"], "apiGroups": [""],
        "apiVersions": ["v1"], "resources": ["pods/exec", "pods/proxy"]}));
    validating(&server, "judge", &connections);
    let path = "/api/v1/namespaces/default/pods/p";
    let exec = format!("{path}/exec?command=ls&command=-l&stdin=true&tty=false&container=main");
    let message = "admission webhook \"judge.example.com\" denied the request without explanation";
    assert_eq!(
        refusal(&post(&server, &exec, &json!({})).await),
        (400, message.to_owned())
    );
    let asked = judge.lock().remove(0);
    assert_eq!(
        asked["object"],
        json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true,
            "container": "main", "command": ["ls", "-l"]})
    );
    assert_eq!(
        [
            &asked["operation"], &asked["subResource"], &asked["name"], &asked["options"]
        ],
        [&json!("CONNECT"), &json!("exec"), &json!("p"), &Value::Null]
    );
    assert_eq!(get(&server, &format!("{path}/proxy/a/b")).await.status, 400);
    assert_eq!(judge.lock().remove(0)["object"]["path"], "/a/b");
    // No webhook matches the other subresources.
    assert_eq!(get(&server, &format!("{path}/attach")).await.status, 400);
    assert!(judge.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_apply_is_a_create_or_an_update() {
    let server = server();
    let judge = answer_for(&server, "judge", |_| allowed());
    validating(&server, "judge", &json!({}));
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{}?fieldManager=me", at("a"));
    for text in ["1", "2"] {
        let mut body = config_map("a");
        body["data"]["k"] = json!(text);
        ask(&server, "PATCH", &path, &headers, body.to_string()).await;
    }
    let seen = judge.lock();
    let found: Vec<_> = seen
        .iter()
        .map(|one| (&one["operation"], &one["name"]))
        .collect();
    let name = json!("a");
    assert_eq!(
        found,
        [(&json!("CREATE"), &name), (&json!("UPDATE"), &name)]
    );
    assert_eq!(seen[1]["options"]["kind"], "UpdateOptions");
}

#[tokio::test(start_paused = true)]
async fn match_conditions_filter_requests() {
    let server = server();
    let condition = |expression: &str| {
        json!({"matchConditions": [
            {"name": "others", "expression": "request.userInfo.username != 'nobody'"},
            {"name": "own", "expression": expression},
        ]})
    };
    let judge = answer_for(&server, "judge", |_| allowed());
    let choosy = "object != null && object.data.k == 'ask' || oldObject != null && oldObject.data.k == 'ask'";
    validating(&server, "judge", &condition(choosy));
    create_config_maps(&server, &["a"]).await;
    assert!(judge.lock().is_empty());
    let patch = json!({"data": {"k": "ask"}});
    merge(&server, &at("a"), &patch).await.expect(200);
    delete(&server, &at("a")).await.expect(200);
    assert_eq!(judge.lock().len(), 2);
    let plural = "validatingwebhookconfigurations.admissionregistration.k8s.io";
    server.delete(plural, "", "judge").unwrap();

    // A condition that cannot be evaluated refuses the request, or lets it pass if failures are
    // ignored.
    let broken = "object.data.absent == 'x'";
    let mut failing = condition(broken);
    validating(&server, "failing", &failing);
    let (code, message) = refusal(&post(&server, CONFIG_MAPS, &config_map("b")).await);
    assert_eq!(code, 403);
    assert_eq!(
        message,
        format!(
            "configmaps \"b\" is forbidden: expression '{broken}' resulted in error: no such key: absent"
        )
    );
    server.delete(plural, "", "failing").unwrap();
    failing["failurePolicy"] = json!("Ignore");
    let seen = answer_for(&server, "ignoring", |_| allowed());
    validating(&server, "ignoring", &failing);
    post(&server, CONFIG_MAPS, &config_map("b"))
        .await
        .expect(201);
    assert!(seen.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_called_for_reviews() {
    let server = server();
    let judge = answer_for(&server, "judge", |_| json!({"allowed": false}));
    let reviews = rules(
        &json!({"operations": ["CREATE"], "apiGroups": ["authorization.k8s.io"],
        "apiVersions": ["v1"], "resources": ["*"]}),
    );
    validating(&server, "judge", &reviews);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes}});
    assert_eq!(post(&server, path, &review).await.status, 400);
    assert_eq!(judge.lock()[0]["object"]["spec"], review["spec"]);
}

/// ADM-4: the current match conditions apply.
#[tokio::test(start_paused = true)]
async fn changed_match_conditions_apply_at_once() {
    let server = server();
    let judge = answer_for(&server, "judge", |_| allowed());
    let named = |name: &str| json!([{"name": "n", "expression": format!("object.metadata.name == '{name}'")}]);
    validating(&server, "judge", &json!({"matchConditions": named("a")}));
    create_config_maps(&server, &["a", "b"]).await;
    assert_eq!(judge.lock().len(), 1);
    let plural = "validatingwebhookconfigurations.admissionregistration.k8s.io";
    let mut found = server.list(plural, "");
    found[0]["webhooks"][0]["matchConditions"] = named("c");
    server.update(plural, found.remove(0)).unwrap();
    create_config_maps(&server, &["c", "d"]).await;
    assert_eq!(judge.lock().len(), 2);
    assert_eq!(judge.lock()[1]["name"], "c");
}

/// Mutating policies run before mutating webhooks, and again after them with `reinvocationPolicy:
/// IfNeeded`.
#[tokio::test(start_paused = true)]
async fn mutating_policies_and_webhooks_are_reinvoked() {
    let server = server();
    let expression =
        "Object{metadata: Object.metadata{annotations: {'seen': string(size(object.data))}}}";
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": {
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["configmaps"]}]},
            "mutations": [{"patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": expression}}]}});
    server.create(policy).unwrap();
    server
        .create(json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "p"},
            "spec": {"policyName": "p"}}))
        .unwrap();
    let hook = answer_for(&server, "hook", |_| {
        patched(&json!([{"op": "add", "path": "/data/more", "value": "1"}]))
    });
    mutating(&server, "hook", &json!({}));
    let made = post(&server, CONFIG_MAPS, &config_map("a")).await;
    let made = made.expect(201);
    let count = made["data"].as_object().unwrap().len();
    let before = (count - 1).to_string();
    assert_eq!(
        hook.lock()[0]["object"]["metadata"]["annotations"]["seen"],
        before
    );
    assert_eq!(hook.lock().len(), 1);
    assert_eq!(made["metadata"]["annotations"]["seen"], count.to_string());
}
