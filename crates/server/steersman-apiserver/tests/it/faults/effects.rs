//! Tests of every effect of a fault, and of the endpoints that control faults over HTTP.

use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use steersman_apiserver::faults::{Answer, Effect, FaultSpec, Restart, Verb};
use steersman_apiserver::{ApiServer, History, User};
use tokio::time::Instant;
use tower::ServiceExt;

use crate::support::{CONFIG_MAPS, Watch, ask, config_map, create_config_maps, get, post, server};

fn exists(server: &ApiServer, name: &str) -> bool {
    server.get("configmaps", "default", name).is_some()
}

/// Sends a request and reads the answer as far as it arrives.
async fn raw(
    server: &ApiServer,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<Vec<u8>, Vec<u8>> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::new(bytes::Bytes::from(body.to_string())))
        .unwrap();
    let Ok(response) = server.service().oneshot(request).await else {
        return Err(Vec::new());
    };
    let mut body = response.into_body();
    let mut came = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => came.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(_) => return Err(came),
        }
    }
    Ok(came)
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_get_lost_before_or_after_the_write() {
    let server = server();
    let lost = Answer::code(504).times(1);
    let _before = server
        .faults()
        .answer(Verb::Create, "configmaps", lost.clone());
    post(&server, CONFIG_MAPS, &config_map("a"))
        .await
        .expect(504);
    assert!(!exists(&server, "a"));
    let _after = server
        .faults()
        .answer(Verb::Create, "configmaps", lost.after_commit());
    post(&server, CONFIG_MAPS, &config_map("a"))
        .await
        .expect(504);
    assert!(exists(&server, "a"));
    // A request that would be refused anyway is refused for its own reason.
    let _again =
        server
            .faults()
            .answer(Verb::Create, "configmaps", Answer::code(500).after_commit());
    post(&server, CONFIG_MAPS, &config_map("a"))
        .await
        .expect(409);
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_before_the_answer_or_in_the_middle_of_it() {
    let server = server();
    for (commit, name) in [(false, "a"), (true, "b")] {
        let cut = FaultSpec::new(Effect::Cut { commit })
            .verb(Verb::Create)
            .times(1);
        let _guard = server.faults().add(cut).unwrap();
        let came = raw(&server, "POST", CONFIG_MAPS, &config_map(name)).await;
        assert_eq!(came, Err(Vec::new()));
        assert_eq!(exists(&server, name), commit);
    }
    let whole = raw(&server, "GET", CONFIG_MAPS, &json!({})).await.unwrap();
    let cut = Effect::CutBody { after_bytes: 10 };
    let _guard = server
        .faults()
        .add(FaultSpec::new(cut).verb(Verb::List))
        .unwrap();
    let came = raw(&server, "GET", CONFIG_MAPS, &json!({})).await;
    assert_eq!(came, Err(whole[..10].to_vec()));
}

#[tokio::test(start_paused = true)]
async fn a_body_can_arrive_slowly_and_in_pieces() {
    let server = server();
    create_config_maps(&server, &["a", "b"]).await;
    let whole = raw(&server, "GET", CONFIG_MAPS, &json!({})).await.unwrap();
    let pieces = u64::try_from(whole.len().div_ceil(7)).unwrap();
    let chunks = FaultSpec::new(Effect::Chunks {
        bytes: 7,
        millis: 1_000,
    });
    let _guard = server.faults().add(chunks.resource("configmaps")).unwrap();
    let asked = Instant::now();
    assert_eq!(
        raw(&server, "GET", CONFIG_MAPS, &json!({})).await.unwrap(),
        whole
    );
    assert!(asked.elapsed() >= Duration::from_secs(pieces));
    // The client joins the pieces of a watch's lines.
    let path = format!("{CONFIG_MAPS}?watch=1");
    let mut watch = Watch::open(&server, &path).await;
    assert_eq!(
        watch.next().await.unwrap()["object"]["metadata"]["name"],
        "a"
    );
    assert_eq!(
        watch.next().await.unwrap()["object"]["metadata"]["name"],
        "b"
    );
}

/// Tests the phases of a restart, from Rust and over HTTP.
#[tokio::test(start_paused = true)]
async fn a_restart_passes_its_phases_and_loses_the_history() {
    for over_http in [false, true] {
        let server = server();
        create_config_maps(&server, &["a", "b"]).await;
        let since = server.revision();
        if over_http {
            let phases = "awayMillis=8000&installingMillis=2000&initializingMillis=1000";
            let path = format!("/steersman/restart?history=lost&{phases}");
            raw(&server, "POST", &path, &json!({})).await.unwrap();
        } else {
            let restart = Restart::new(History::Lost)
                .away(Duration::from_secs(8))
                .installing(Duration::from_secs(2))
                .initializing(Duration::from_secs(1));
            server.restart(restart);
        }
        let silence = raw(&server, "GET", "/readyz", &json!({})).await;
        assert_eq!(silence, Err(Vec::new()));
        server.delete("configmaps", "default", "a").unwrap();

        tokio::time::sleep(Duration::from_secs(8)).await;
        let answer = get(&server, CONFIG_MAPS).await;
        let message = answer.expect(503)["message"].as_str().unwrap().to_owned();
        assert!(message.contains("before all known HTTP paths have been installed"));
        assert_eq!(get(&server, "/readyz").await.status, 500);
        assert_eq!(get(&server, "/version").await.status, 200);

        tokio::time::sleep(Duration::from_secs(2)).await;
        let answer = get(&server, CONFIG_MAPS).await;
        assert_eq!(answer.expect(429)["message"], "storage is (re)initializing");
        assert_eq!(get(&server, &format!("{CONFIG_MAPS}/b")).await.status, 200);
        assert_eq!(get(&server, "/readyz").await.status, 200);

        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(get(&server, CONFIG_MAPS).await.status, 200);
        let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={since}");
        let mut watch = Watch::open(&server, &path).await;
        let error = watch.next().await.unwrap();
        assert_eq!(
            (&error["type"], &error["object"]["code"]),
            (&json!("ERROR"), &json!(410))
        );
    }
}

/// FAULT-2
#[tokio::test(start_paused = true)]
async fn swallowed_requests_wait_until_the_fault_is_removed() {
    let server = server();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut watch = Watch::open(&server, &path).await;
    let link = server.faults().swallow_everything();
    let asked = {
        let server = server.clone();
        tokio::spawn(async move { post(&server, CONFIG_MAPS, &config_map("a")).await })
    };
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!asked.is_finished());
    assert!(!exists(&server, "a"));
    assert_eq!(link.hits(), 1);
    drop(link);
    asked.await.unwrap().expect(201);
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn watches_can_repeat_events_and_expire() {
    let server = server();
    let twice = FaultSpec::new(Effect::DuplicateEvents).times(1);
    let _events = server.faults().add(twice).unwrap();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={}",
        server.revision()
    );
    let mut watch = Watch::open(&server, &path).await;
    create_config_maps(&server, &["a"]).await;
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
    assert_eq!(server.faults().expire_watches(), 1);
    let last = watch.next().await.unwrap();
    assert_eq!(
        (&last["type"], &last["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(watch.next().await, None);

    for effect in [
        Effect::DuplicateBookmarks,
        Effect::LateBookmarks { millis: 30_000 },
    ] {
        server
            .faults()
            .add(FaultSpec::new(effect).times(1))
            .unwrap()
            .keep();
    }
    let mut watch = Watch::open(&server, &path).await;
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
    let opened = Instant::now();
    assert_eq!(watch.next().await.unwrap()["type"], "BOOKMARK");
    assert_eq!(
        opened.elapsed(),
        Duration::from_secs(90),
        "a minute, and half a one late"
    );
    assert_eq!(watch.next().await.unwrap()["type"], "BOOKMARK");
    assert_eq!(opened.elapsed(), Duration::from_secs(90));

    let _expired = server
        .faults()
        .add(FaultSpec::new(Effect::ExpireWatch))
        .unwrap();
    let mut watch = Watch::open(&server, &path).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn stale_lists_are_answered_from_the_past() {
    let server = server();
    create_config_maps(&server, &["a", "b", "c"]).await;
    let stale = FaultSpec::new(Effect::StaleList { revisions: 2 });
    let _guard = server.faults().add(stale).unwrap();
    let past = server.revision() - 2;
    let no_older = format!("?resourceVersionMatch=NotOlderThan&resourceVersion={past}");
    for query in [
        "?resourceVersion=0",
        "?resourceVersion=0&limit=5",
        &format!("?resourceVersion={}", past - 1),
        &no_older,
    ] {
        let list = get(&server, &format!("{CONFIG_MAPS}{query}"))
            .await
            .expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        let version: u64 = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(version, past);
    }
    // A list that names a newer version gets that state; a list without a version gets the newest.
    for query in [
        "".to_owned(),
        "?limit=5".to_owned(),
        "?resourceVersion=".to_owned(),
        format!("?resourceVersion={}", server.revision()),
        format!(
            "?resourceVersionMatch=NotOlderThan&resourceVersion={}",
            past + 1
        ),
    ] {
        let list = get(&server, &format!("{CONFIG_MAPS}{query}"))
            .await
            .expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), 3, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_breaks_watches_and_may_lose_the_past() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut watch = Watch::open(&server, &path).await;
    assert_eq!(server.restart(History::Kept), 1);
    watch.try_next().await.unwrap_err();
    create_config_maps(&server, &["b"]).await;
    let mut watch = Watch::open(&server, &path).await;
    assert_eq!(watch.next_short().await.unwrap(), "ADDED b");
    server.restart(History::Lost);
    watch.try_next().await.unwrap_err();
    let mut watch = Watch::open(&server, &path).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
    assert!(exists(&server, "a"));
}

/// FAULT-3
#[tokio::test(start_paused = true)]
async fn faults_can_be_controlled_over_http_while_all_other_requests_fail() {
    let server = server();
    let admin = |method: &'static str, path: &'static str, body: Value| {
        let server = server.clone();
        async move {
            ask(
                &server,
                method,
                &format!("/steersman/{path}"),
                &[],
                body.to_string(),
            )
            .await
        }
    };
    let swallow = json!({"effect": {"type": "swallow"}});
    let added = admin("POST", "faults", swallow).await.expect(201);
    assert_eq!(added["id"], 0);
    let throttle = json!({
        "verb": "create", "resource": "configmaps", "times": 1,
        "effect": {"type": "answer", "code": 429, "retryAfterSeconds": 3},
    });
    admin("POST", "faults", throttle).await.expect(201);
    let both =
        json!([{"verb": "get", "effect": {"type": "swallow"}}, {"effect": {"type": "swallow"}}]);
    let added = admin("POST", "faults", both).await.expect(201);
    assert_eq!([&added["items"][0]["id"], &added["items"][1]["id"]], [2, 3]);
    admin("DELETE", "faults/2", json!({})).await.expect(200);
    admin("DELETE", "faults/3", json!({})).await.expect(200);
    let listed = admin("GET", "faults", json!({})).await.expect(200);
    assert_eq!(listed["items"][1]["effect"]["code"], 429);
    assert_eq!(listed["items"][1]["verb"], "create");
    admin("DELETE", "faults/0", json!({})).await.expect(200);
    admin("DELETE", "faults/0", json!({})).await.expect(404);
    let refused = post(&server, CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(refused.header("retry-after"), "3");
    refused.expect(429);
    post(&server, CONFIG_MAPS, &config_map("a"))
        .await
        .expect(201);
    let log = admin("GET", "requests?verb=create&resource=configmaps", json!({}))
        .await
        .expect(200);
    let codes: Vec<&Value> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["status"])
        .collect();
    assert_eq!(codes, [429, 201]);
    assert_eq!(
        admin("DELETE", "faults", json!({})).await.expect(200)["removed"],
        1
    );
    admin("POST", "compact", json!({})).await.expect(200);
    admin("POST", "restart?history=lost", json!({}))
        .await
        .expect(200);
    admin("POST", "watches?do=cut&resource=configmaps", json!({}))
        .await
        .expect(200);
    admin("DELETE", "requests", json!({})).await.expect(200);
    assert!(
        server.requests().all().is_empty(),
        "they are not in the log themselves"
    );
}

#[tokio::test(start_paused = true)]
async fn faults_are_for_administrators_alone() {
    let server = server();
    let request = Request::get("/steersman/faults").body(Full::new(bytes::Bytes::new()));
    let ann = server.service_as(User::new("ann"));
    let refused = ann.oneshot(request.unwrap()).await.unwrap();
    assert_eq!(refused.status(), 403);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_fault_over_http_is_refused_with_its_reason() {
    let server = server();
    for (body, reason) in [
        (
            json!({"effect": {"type": "swallow"}, "verbs": "get"}),
            "unknown field `verbs`",
        ),
        (
            json!({"effect": {"type": "delay", "milis": 1}}),
            "unknown field `milis`",
        ),
        (
            json!({"effect": {"type": "explode"}}),
            "unknown variant `explode`",
        ),
        (
            json!({"verb": "read", "effect": {"type": "swallow"}}),
            "unknown variant `read`",
        ),
        (json!({"verb": "get"}), "missing field `effect`"),
        (
            json!({"probability": 2, "effect": {"type": "swallow"}}),
            "from 0 to 1",
        ),
        (
            json!({"effect": {"type": "answer", "code": 200}}),
            "from 400 to 599",
        ),
        (json!(1), "the body is no fault"),
        (
            json!([{"effect": {"type": "swallow"}}, {"effect": {"type": "answer", "code": 200}}]),
            "from 400 to 599",
        ),
    ] {
        let refused = ask(&server, "POST", "/steersman/faults", &[], body.to_string())
            .await
            .expect(400);
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(reason), "{message}");
    }
    for (method, path, code) in [
        ("POST", "restart?history=some", 400),
        ("POST", "restart?awayMillis=soon", 400),
        ("POST", "watches?do=explode", 400),
        ("GET", "requests?verbs=get", 400),
        ("GET", "requests?limit=many", 400),
        ("PUT", "faults", 405),
        ("GET", "compact", 405),
        ("GET", "elsewhere", 404),
        ("DELETE", "faults/x", 404),
    ] {
        ask(
            &server,
            method,
            &format!("/steersman/{path}"),
            &[],
            String::new(),
        )
        .await
        .expect(code);
    }
    assert!(server.faults().planned().is_empty());
}
