//! Tests of creates that stop for a webhook and continue with its answer.

use super::*;

/// Lets a mutating webhook do something to the server before it answers with a patch.
fn acting(server: &ApiServer, act: impl Fn(&ApiServer) + Clone + Send + Sync + 'static) -> Seen {
    let behind = server.clone();
    let seen = answer_for(server, "changer", move |_| {
        act(&behind);
        patched(&json!([{"op": "add", "path": "/data/added", "value": "1"}]))
    });
    mutating(server, "changer", &json!({}));
    seen
}

#[tokio::test(start_paused = true)]
async fn a_create_continues_at_the_webhook_it_stopped_for() {
    let server = server();
    let mut all = Vec::new();
    for service in ["first", "second"] {
        let path = format!("/data/{service}");
        all.push(answer_for(&server, service, move |request| {
            assert!(request["object"]["metadata"].get("uid").is_none());
            let patch = json!([{"op": "add", "path": path, "value": "1"}]);
            let mut response = patched(&patch);
            response["warnings"] = json!(["mutated"]);
            response
        }));
        mutating(&server, service, &json!({}));
    }
    let judge = answer_for(
        &server,
        "judge",
        |_| json!({"allowed": true, "warnings": ["judged"]}),
    );
    validating(&server, "judge", &json!({}));
    let body = json!({"metadata": {"generateName": "g-"}, "data": {"k": "v"}, "odd": 1});
    let answer = post(&server, CONFIG_MAPS, &body).await;
    let warnings: Vec<_> = answer.headers.get_all("warning").iter().collect();
    assert_eq!(
        warnings,
        [
            "299 - \"unknown field \\\"odd\\\"\"",
            "299 - \"mutated\"",
            "299 - \"judged\""
        ]
    );
    let made = answer.expect(201);
    assert_eq!(made["data"], json!({"k": "v", "first": "1", "second": "1"}));
    for seen in all {
        assert_eq!(seen.lock().len(), 1);
    }
    let judged = judge.lock();
    assert_eq!(judged.len(), 1);
    for field in ["name", "uid", "creationTimestamp", "managedFields"] {
        let (judged, made) = (&judged[0]["object"]["metadata"], &made["metadata"]);
        assert_eq!(judged[field], made[field], "{field}");
    }
}

/// ADM-1
#[tokio::test(start_paused = true)]
async fn a_webhook_configured_meanwhile_reviews_the_create_too() {
    let server = server();
    let judge = answer_for(&server, "judge", |_| json!({"allowed": false}));
    acting(&server, |server| validating(server, "judge", &json!({})));
    let answer = post(&server, CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    assert_eq!(judge.lock()[0]["object"]["data"]["added"], "1");
    assert!(server.get("configmaps", "default", "a").is_none());
}

/// ADM-1
#[tokio::test(start_paused = true)]
async fn a_create_sees_what_was_written_during_its_review() {
    let server = server();
    let taken = acting(&server, |server| {
        server.create(config_map("a")).unwrap();
    });
    let answer = post(&server, CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(answer.status, 409, "{}", answer.text);
    assert_eq!(taken.lock().len(), 1);
    let stored = server.get("configmaps", "default", "a").unwrap();
    assert!(stored["data"].get("added").is_none());
}

/// ADM-1
#[tokio::test(start_paused = true)]
async fn a_create_is_refused_if_its_namespace_is_deleted_during_the_review() {
    let server = server();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}});
    server.create(namespace).unwrap();
    acting(&server, |server| {
        server.delete("namespaces", "", "gone").unwrap();
    });
    let path = "/api/v1/namespaces/gone/configmaps";
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let answer = post(&server, path, &body).await;
    assert_eq!(answer.status, 404, "{}", answer.text);
    assert!(server.get("configmaps", "gone", "a").is_none());
}
