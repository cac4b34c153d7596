//! Tests of watches on a paused clock, on which virtual minutes pass at once.

use std::pin::pin;
use std::time::Duration;

use bytes::Buf as _;
use http_body_util::BodyExt as _;
use serde_json::json;
use steersman_apiserver::ApiServer;
use tokio::time::Instant;

use crate::support::{
    CONFIG_MAPS, Watch, config_map, create_config_maps, delete, get, merge, send, server, website,
    website_crd,
};

const WATCH_LIST: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

#[tokio::test(start_paused = true)]
async fn changes_arrive_in_order_as_they_happen() {
    let server = server();
    let since = server.revision();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={since}");
    let mut watch = Watch::open(&server, &path).await;
    create_config_maps(&server, &["a"]).await;
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
    let one = format!("{CONFIG_MAPS}/a");
    let changed = merge(&server, &one, &json!({ "data": { "k": "2" } }))
        .await
        .expect(200);
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]),
        (&json!("MODIFIED"), &changed)
    );
    delete(&server, &one).await.expect(200);
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    // The last state, with the version of the deletion.
    assert_eq!(event["object"]["data"]["k"], "2");
    assert_eq!(
        event["object"]["metadata"]["resourceVersion"],
        server.revision().to_string()
    );
    // A second watch from the same version replays the past.
    let mut replay = Watch::open(&server, &path).await;
    for expected in ["ADDED a", "MODIFIED a", "DELETED a"] {
        assert_eq!(replay.next_short().await.unwrap(), expected);
    }
    assert!(replay.is_quiet().await);
}

/// SRV-2 with real threads: the writer waits until the watch has seen its last change, so that no
/// later change hides a lost wake-up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_wakes_its_watch() {
    const ROUNDS: u32 = 1_000;
    let server = server();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut watch = Watch::open(&server, &path).await;
    let (saw, seen) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        server.create(config_map("m")).unwrap();
        for round in 1..=ROUNDS {
            seen.recv_timeout(Duration::from_secs(20))
                .unwrap_or_else(|_| panic!("the watch missed change {round}"));
            // Delays vary, so that changes hit every step of the watch's way to waiting.
            for _ in 0..round % 256 {
                std::hint::spin_loop();
            }
            let patch = json!({ "data": { "round": round.to_string() } });
            server
                .merge_patch("configmaps", "default", "m", &patch)
                .unwrap();
        }
    });
    let reader = tokio::spawn(async move {
        assert_eq!(watch.next_short().await.unwrap(), "ADDED m");
        for round in 1..=ROUNDS {
            // The writer may have given up.
            let _ = saw.send(());
            let event = watch.next().await.unwrap();
            assert_eq!(event["object"]["data"]["round"], round.to_string());
        }
    });
    tokio::task::spawn_blocking(|| writer.join())
        .await
        .unwrap()
        .unwrap();
    reader.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_updates_into_added_and_deleted_events() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let since = server.revision();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={since}&labelSelector=on%3Dyes");
    let mut watch = Watch::open(&server, &path).await;
    let one = format!("{CONFIG_MAPS}/a");
    for value in [json!("yes"), json!("no")] {
        let labels = json!({ "metadata": { "labels": { "on": value } } });
        merge(&server, &one, &labels).await.expect(200);
    }
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
    assert_eq!(watch.next_short().await.unwrap(), "DELETED a");
    // The old path form watches one object.
    let old = format!("/api/v1/watch/namespaces/default/configmaps/b?resourceVersion={since}");
    let mut watch = Watch::open(&server, &old).await;
    create_config_maps(&server, &["other", "b"]).await;
    assert_eq!(watch.next_short().await.unwrap(), "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn the_initial_objects_end_with_a_bookmark() {
    let server = server();
    create_config_maps(&server, &["a", "b"]).await;
    let mut watch = Watch::open(&server, &format!("{CONFIG_MAPS}?{WATCH_LIST}")).await;
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
    assert_eq!(watch.next_short().await.unwrap(), "ADDED b");
    let end = watch.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    let metadata = &end["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(metadata["resourceVersion"], server.revision().to_string());
    assert_eq!(end["object"]["kind"], "ConfigMap");
    assert_eq!(server.requests().watch_lists("configmaps"), 1);
    assert_eq!(server.requests().watches("configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn without_watch_list_the_initial_objects_are_refused() {
    let server = ApiServer::builder().watch_list(false).build();
    let refused = get(&server, &format!("{CONFIG_MAPS}?{WATCH_LIST}"))
        .await
        .expect(422);
    assert_eq!(refused["reason"], "Invalid");
    assert_eq!(
        refused["details"]["causes"][0]["field"],
        "sendInitialEvents"
    );
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut watch = Watch::open(&server, &path).await;
    create_config_maps(&server, &["a"]).await;
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn allowed_bookmarks_come_every_minute() {
    let server = server();
    let since = server.revision();
    let query = format!("watch=1&resourceVersion={since}");
    let allowed = format!("{CONFIG_MAPS}?{query}&allowWatchBookmarks=true");
    let mut watch = Watch::open(&server, &allowed).await;
    // Another write moves the revision: the bookmark carries it.
    server
        .create(json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } }))
        .unwrap();
    let opened = Instant::now();
    for minute in 1..=3 {
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(
            event["object"]["metadata"]["resourceVersion"],
            server.revision().to_string()
        );
        assert_eq!(opened.elapsed().as_secs(), 60 * minute);
    }
    let mut without = Watch::open(&server, &format!("{CONFIG_MAPS}?{query}")).await;
    assert!(without.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_over() {
    let server = server();
    let query = format!(
        "watch=1&resourceVersion={}&timeoutSeconds=300",
        server.revision()
    );
    let opened = Instant::now();
    let mut watch = Watch::open(&server, &format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(watch.next().await, None);
    assert_eq!(opened.elapsed(), Duration::from_secs(300));
    // With bookmarks, the last one comes shortly before the end.
    let opened = Instant::now();
    let path = format!("{CONFIG_MAPS}?{query}&allowWatchBookmarks=true");
    let mut watch = Watch::open(&server, &path).await;
    let mut last = Duration::ZERO;
    while let Some(event) = watch.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        last = opened.elapsed();
    }
    assert_eq!(last, Duration::from_secs(298));
    assert_eq!(opened.elapsed(), Duration::from_secs(300));
}

#[tokio::test(start_paused = true)]
async fn resuming_before_a_compaction_is_expired_in_the_stream() {
    let server = server();
    let since = server.revision();
    create_config_maps(&server, &["a", "b"]).await;
    server.compact();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={since}");
    let mut watch = Watch::open(&server, &path).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(
        (&event["object"]["code"], &event["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert!(
        event["object"]["message"]
            .as_str()
            .unwrap()
            .starts_with("too old resource version")
    );
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_definition_ends_its_watches_with_deletes() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    server.create(website("one")).unwrap();
    let path = format!(
        "/apis/example.com/v1/websites?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut watch = Watch::open(&server, &path).await;
    server
        .delete(
            "customresourcedefinitions.apiextensions.k8s.io",
            "",
            "websites.example.com",
        )
        .unwrap();
    assert_eq!(watch.next_short().await.unwrap(), "DELETED one");
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn bad_parameters_are_refused_before_the_stream() {
    let server = server();
    let refused = get(
        &server,
        &format!("{CONFIG_MAPS}?watch=1&fieldSelector=data%3Dx"),
    )
    .await;
    let refused = refused.expect(400);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("\"data\" is not a known field selector")
    );
    let refused = get(
        &server,
        &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=soon"),
    )
    .await;
    assert_eq!(
        refused.expect(400)["message"],
        "strconv.ParseInt: parsing \"soon\": invalid syntax"
    );
    let refused = get(
        &server,
        &format!("{CONFIG_MAPS}?watch=1&resourceVersion=abc"),
    )
    .await;
    assert_eq!(refused.status, 500);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_ends_watches_and_refuses_requests() {
    let server = server();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut watch = Watch::open(&server, &path).await;
    assert_eq!(server.faults().open_watches("configmaps"), 1);
    server.shut_down();
    assert_eq!(watch.next().await, None);
    drop(watch);
    assert_eq!(server.faults().open_watches("configmaps"), 0);
    assert_eq!(get(&server, CONFIG_MAPS).await.status, 503);
}

/// SRV-WATCH-2
#[tokio::test(start_paused = true)]
async fn a_slow_reader_has_a_bounded_buffer() {
    const LARGE: usize = 20_000;
    let server = server();
    for number in 0..60 {
        let mut object = config_map(&format!("c{number}"));
        object["data"] = json!({"a": "x".repeat(LARGE)});
        server.create(object).unwrap();
    }
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1");
    let (_, _, body) = send(&server, "GET", &path, &[], "").await;
    let mut body = pin!(body);
    let (mut most, mut all) = (0, 0);
    while let Some(piece) = body.as_mut().frame().await {
        let length = piece.unwrap().into_data().unwrap().remaining();
        (most, all) = (most.max(length), all + length);
    }
    assert!(all > 60 * LARGE, "{all}");
    assert!(most < 64 * 1024 + 2 * LARGE, "{most}");
}

/// SRV-WATCH-3
#[tokio::test(start_paused = true)]
async fn many_watches_see_every_change_within_one_round() {
    const CROWD: u32 = 100;
    let server = server();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(Watch::open(&server, &path).await);
    }
    let round = CROWD * Duration::from_micros(20);
    for _ in 0..3 {
        create_config_maps(&server, &["a", "b", "c"]).await;
        let begins = Instant::now();
        for (place, watch) in crowd.iter_mut().enumerate() {
            assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
            if place == 0 {
                assert_eq!(
                    begins.elapsed(),
                    Duration::ZERO,
                    "the first change wakes the watches at once"
                );
            }
            assert_eq!(watch.next_short().await.unwrap(), "ADDED b");
            assert_eq!(watch.next_short().await.unwrap(), "ADDED c");
        }
        // A paused clock advances by whole milliseconds.
        let late = begins.elapsed();
        assert!(late <= round + Duration::from_millis(1), "{late:?}");
        for name in ["a", "b", "c"] {
            delete(&server, &format!("{CONFIG_MAPS}/{name}"))
                .await
                .expect(200);
        }
        for watch in &mut crowd {
            for name in ["a", "b", "c"] {
                let gone = format!("DELETED {name}");
                assert_eq!(watch.next_short().await.unwrap(), gone);
            }
        }
        tokio::time::sleep(round).await;
    }
}
