//! Tests of faults on demand, and of the request log.

mod effects;

use std::time::Duration;

use serde_json::json;
use steersman_apiserver::faults::{Answer, Verb};
use tokio::time::Instant;

use crate::support::{CONFIG_MAPS, Watch, ask, config_map, create_config_maps, get, post, server};

#[tokio::test(start_paused = true)]
async fn open_watches_can_be_cut_and_broken() {
    let server = server();
    let since = server.revision();
    let maps = format!("{CONFIG_MAPS}?watch=1&resourceVersion={since}");
    let secrets = format!("/api/v1/secrets?watch=1&resourceVersion={since}");
    let mut map_watch = Watch::open(&server, &maps).await;
    let mut secret_watch = Watch::open(&server, &secrets).await;
    assert_eq!(server.faults().open_watches("*"), 2);
    assert_eq!(server.faults().cut_watches_of("configmaps"), 1);
    assert_eq!(map_watch.next().await, None);
    assert!(secret_watch.is_quiet().await);
    let mut map_watch = Watch::open(&server, &maps).await;
    assert_eq!(server.faults().break_watches(), 2);
    map_watch.try_next().await.unwrap_err();
    secret_watch.try_next().await.unwrap_err();
    // Later watches are not affected.
    let mut map_watch = Watch::open(&server, &maps).await;
    create_config_maps(&server, &["a"]).await;
    assert_eq!(map_watch.next_short().await.unwrap(), "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn an_ended_watch_is_not_resumed() {
    let server = server();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut watch = Watch::open(&server, &path).await;
    assert_eq!(server.faults().cut_watches_of("configmaps"), 1);
    server.faults().resume_watches();
    create_config_maps(&server, &["a"]).await;
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn silent_watches_end_with_the_server() {
    let server = server();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut silent = Watch::open(&server, &path).await;
    let mut live = Watch::open(&server, &path).await;
    assert_eq!(server.faults().silence_watches(), 2);
    assert_eq!(server.faults().resume_watches(), 2);
    assert_eq!(server.faults().silence_watches(), 2);
    server.shut_down();
    // A watch that ended is not resumed.
    server.faults().resume_watches();
    assert_eq!(silent.next().await, None);
    assert_eq!(live.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn silent_watches_stay_open_and_say_nothing() {
    let server = server();
    let query = format!(
        "watch=1&resourceVersion={}&allowWatchBookmarks=true",
        server.revision()
    );
    let path = format!("{CONFIG_MAPS}?{query}&timeoutSeconds=60");
    let mut watch = Watch::open(&server, &path).await;
    assert_eq!(server.faults().silence_watches(), 1);
    create_config_maps(&server, &["a"]).await;
    // Not even its timeout ends it, as on a connection that died unnoticed.
    assert!(watch.is_quiet().await);
    assert_eq!(server.faults().open_watches("configmaps"), 1);
    drop(watch);
    assert_eq!(server.faults().open_watches("configmaps"), 0);

    let guard = server.faults().silence_new_watches("configmaps");
    let mut watch = Watch::open(&server, &format!("{CONFIG_MAPS}?{query}")).await;
    create_config_maps(&server, &["b"]).await;
    assert!(watch.is_quiet().await);
    assert_eq!(server.faults().resume_watches(), 1);
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
    assert_eq!(watch.next_short().await.unwrap(), "ADDED b");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn requests_can_be_answered_with_failures() {
    let server = server();
    let answer = Answer::code(429).retry_after(7).times(2);
    let guard = server.faults().answer(Verb::List, "configmaps", answer);
    for _ in 0..2 {
        let refused = get(&server, CONFIG_MAPS).await;
        assert_eq!(refused.header("retry-after"), "7");
        let refused = refused.expect(429);
        assert_eq!(refused["reason"], "TooManyRequests");
        assert_eq!(refused["details"]["retryAfterSeconds"], 7);
    }
    get(&server, CONFIG_MAPS).await.expect(200);
    assert_eq!(guard.hits(), 2);

    let forbidden = Answer::code(403).message("secrets is forbidden");
    let guard = server.faults().answer(None, "secrets", forbidden);
    let refused = get(&server, "/api/v1/secrets").await.expect(403);
    assert_eq!(refused["message"], "secrets is forbidden");
    drop(guard);
    get(&server, "/api/v1/secrets").await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_expired_by_its_http_status() {
    let server = server();
    let expired = Answer::code(410).times(1);
    let _guard = server.faults().answer(Verb::Watch, "configmaps", expired);
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    assert_eq!(get(&server, &path).await.expect(410)["reason"], "Expired");
    let mut watch = Watch::open(&server, &path).await;
    create_config_maps(&server, &["a"]).await;
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn requests_can_be_delayed() {
    let server = server();
    let _guard = server.faults().delay(None, "*", Duration::from_secs(30));
    let asked = Instant::now();
    get(&server, CONFIG_MAPS).await.expect(200);
    assert_eq!(asked.elapsed(), Duration::from_secs(30));
    // Documents are no resources.
    get(&server, "/version").await.expect(200);
    assert_eq!(asked.elapsed(), Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn the_log_records_requests() {
    let server = server();
    let agent = [
        ("user-agent", "tests/1"),
        (
            "accept",
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        ),
        ("accept", "application/json"),
    ];
    ask(
        &server,
        "GET",
        &format!("{CONFIG_MAPS}?limit=1"),
        &agent,
        "",
    )
    .await
    .expect(200);
    create_config_maps(&server, &["a", "b"]).await;
    let first = get(&server, &format!("{CONFIG_MAPS}?limit=1"))
        .await
        .expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    get(&server, &format!("{CONFIG_MAPS}?limit=1&continue={token}"))
        .await
        .expect(200);
    get(&server, &format!("{CONFIG_MAPS}/absent"))
        .await
        .expect(404);
    let log = server.requests();
    assert_eq!(log.lists("configmaps"), 2, "pages of one list are one list");
    assert_eq!(log.count(|request| request.does(Verb::List)), 3);
    assert_eq!(
        log.count(|request| request.does(Verb::Create) && request.is_for("configmaps")),
        2
    );
    let all = log.all();
    assert_eq!(all[0].user_agent, "tests/1");
    let both = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
    assert_eq!(all[0].accept, both);
    assert!(all[0].is_metadata_only() && !all[1].is_metadata_only());
    assert_eq!(all[0].parameter("limit"), Some("1"));
    assert_eq!(all[0].namespace.as_deref(), Some("default"));
    let missed = log.matching(|request| request.does(Verb::Get));
    assert_eq!(
        (missed[0].name.as_deref(), missed[0].status),
        (Some("absent"), Some(404))
    );
    assert!(all.is_sorted_by_key(|request| request.sequence));
    log.clear();
    assert!(log.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_log_can_be_waited_for_and_is_bounded() {
    let server = steersman_apiserver::ApiServer::builder()
        .log_capacity(3)
        .build();
    let waiting = {
        let log = server.requests().clone();
        tokio::spawn(async move { log.wait_for(2, |request| request.does(Verb::Create)).await })
    };
    for name in ["a", "b"] {
        post(&server, CONFIG_MAPS, &config_map(name))
            .await
            .expect(201);
    }
    waiting.await.unwrap();
    for _ in 0..4 {
        get(&server, CONFIG_MAPS).await.expect(200);
    }
    assert_eq!(server.requests().all().len(), 3);
    assert_eq!(server.requests().forgotten(), 3);
}

#[tokio::test(start_paused = true)]
async fn resources_are_named_as_kubectl_names_them() {
    let server = server();
    let path = "/apis/apps/v1/namespaces/default/deployments/d/status";
    ask(
        &server,
        "PATCH",
        path,
        &[("content-type", "application/merge-patch+json")],
        json!({}).to_string(),
    )
    .await;
    let request = &server.requests().all()[0];
    for name in ["deployments/status", "deployments.apps/status", "*"] {
        assert!(request.is_for(name), "{name}");
    }
    for name in [
        "deployments", "deployments.apps", "deployments.batch/status", "pods",
    ] {
        assert!(!request.is_for(name), "{name}");
    }
}
