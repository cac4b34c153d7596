//! Tests of servers with a write-ahead log that the test keeps: what clients see, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::{FutureExt as _, poll};
use serde_json::json;
use steersman_apiserver::play::{Played, Speed};
use steersman_apiserver::{ApiServer, Recovery, WalGroup, WriteAheadLog};
use tokio::time::Duration;

use crate::support::{
    CONFIG_MAPS, Watch, ask, config_map, create_config_maps, delete, deployment, get, merge, post,
};
use crate::webhooks::{allowed, answer_for, at, validating};

/// Starts a server, and keeps the writes of its start.
fn logged() -> (ApiServer, WriteAheadLog) {
    let log = WriteAheadLog::new();
    let server = ApiServer::builder().log_writes(&log).build();
    keep_all(&log);
    (server, log)
}

/// Takes the transactions that wait, if there are any.
fn take(log: &WriteAheadLog) -> Option<WalGroup> {
    log.next().now_or_never()
}

fn keep_all(log: &WriteAheadLog) {
    while let Some(group) = take(log) {
        log.keep(group);
    }
}

// WAL-1.
#[tokio::test(start_paused = true)]
async fn a_write_is_seen_when_it_is_in_the_log() {
    let (server, log) = logged();
    let since = server.revision();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={since}");
    let mut watch = Watch::open(&server, &path).await;
    let mut event = Box::pin(watch.next_short());
    assert!(poll!(&mut event).is_pending());

    let object = config_map("a");
    let mut write = Box::pin(post(&server, CONFIG_MAPS, &object));
    assert!(poll!(&mut write).is_pending());
    // Nor is it seen by reads, by new watches with their initial objects, or as a conflict.
    let one = at("a");
    let mut read = Box::pin(get(&server, &one));
    let mut list = Box::pin(get(&server, CONFIG_MAPS));
    let mut again = Box::pin(post(&server, CONFIG_MAPS, &object));
    let initial = format!("{CONFIG_MAPS}?watch=1");
    let mut open = Box::pin(Watch::open(&server, &initial));
    assert!(poll!(&mut read).is_pending() && poll!(&mut list).is_pending());
    assert!(poll!(&mut again).is_pending() && poll!(&mut open).is_pending());
    assert!(poll!(&mut event).is_pending());

    let group = take(&log).unwrap();
    assert!(poll!(&mut write).is_pending() && poll!(&mut event).is_pending());
    log.keep(group);
    let written = write.await.expect(201);
    assert_eq!(read.await.expect(200), written);
    let items = list.await.expect(200)["items"].clone();
    assert_eq!(items[0]["metadata"], written["metadata"]);
    again.await.expect(409);
    assert_eq!(open.await.next_short().await.unwrap(), "ADDED a");
    assert_eq!(event.await.unwrap(), "ADDED a");
    assert!(take(&log).is_none(), "reads and refusals write nothing");
}

// WAL-1: a later write does not carry an earlier one with it.
#[tokio::test(start_paused = true)]
async fn writes_are_answered_in_the_order_of_the_log() {
    let (server, log) = logged();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut watch = Watch::open(&server, &path).await;
    let (first, second) = (config_map("a"), config_map("b"));
    let mut first = Box::pin(post(&server, CONFIG_MAPS, &first));
    assert!(poll!(&mut first).is_pending());
    let before = take(&log).unwrap();
    let mut second = Box::pin(post(&server, CONFIG_MAPS, &second));
    assert!(poll!(&mut second).is_pending());
    log.keep(before);
    assert!(poll!(&mut first).is_ready());
    assert!(poll!(&mut second).is_pending());
    // The watch is awake now, and the second write is in memory.
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
    let mut event = Box::pin(watch.next_short());
    assert!(poll!(&mut event).is_pending());
    keep_all(&log);
    second.await.expect(201);
    assert_eq!(event.await.unwrap(), "ADDED b");
}

// WAL-1: a webhook is a client, too.
#[tokio::test(start_paused = true)]
async fn a_webhook_sees_no_object_that_is_not_in_the_log() {
    let (server, log) = logged();
    let judge = answer_for(&server, "judge", |_| allowed());
    server.create(config_map("a")).unwrap();
    validating(&server, "judge", &json!({}));
    let (one, patch) = (at("a"), json!({"data": {"k": "2"}}));
    let mut change = Box::pin(merge(&server, &one, &patch));
    assert!(poll!(&mut change).is_pending());
    assert!(judge.lock().is_empty());
    keep_all(&log);
    assert!(poll!(&mut change).is_pending());
    assert_eq!(judge.lock().len(), 1);
    keep_all(&log);
    change.await.expect(200);
}

// WAL-4.
#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_written_refuses_writes_until_it_can() {
    let (server, log) = logged();
    let create = async || create_config_maps(&server, &["old"]).await;
    let mut old = Box::pin(create());
    assert!(poll!(&mut old).is_pending());
    keep_all(&log);
    old.await;
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut watch = Watch::open(&server, &path).await;
    let mut event = Box::pin(watch.next_short());
    assert!(poll!(&mut event).is_pending());

    let doubtful = config_map("doubtful");
    let mut write = Box::pin(post(&server, CONFIG_MAPS, &doubtful));
    assert!(poll!(&mut write).is_pending());
    let group = take(&log).unwrap();
    log.fail("the disk is full");
    let refused = write.await;
    let message = "the write is not in the write-ahead log, so it is lost if the server ends now: the \
                   disk is full";
    assert!(
        refused.expect(500)["message"]
            .as_str()
            .unwrap()
            .ends_with(message),
        "{refused:?}"
    );

    // Later writes change nothing, and a client may repeat them.
    let revision = server.revision();
    let new = post(&server, CONFIG_MAPS, &config_map("new")).await;
    let message = "the write-ahead log cannot be written: the disk is full";
    assert_eq!(new.expect(503)["message"], message);
    assert_eq!(new.header("retry-after"), "1");
    assert_eq!(delete(&server, &at("old")).await.status, 503);
    assert_eq!(server.revision(), revision);
    // A read would show the write that may be lost.
    assert_eq!(
        get(&server, CONFIG_MAPS).await.expect(503)["message"],
        message
    );
    assert!(poll!(&mut event).is_pending());
    for endpoint in ["/livez", "/readyz", "/healthz"] {
        let health = get(&server, endpoint).await;
        assert_eq!(health.status, 500);
        assert!(
            health.text.contains("[-]etcd failed: the disk is full\n"),
            "{}",
            health.text
        );
    }
    assert_eq!(get(&server, "/version").await.status, 200);

    log.keep(group);
    assert_eq!(event.await.unwrap(), "ADDED doubtful");
    assert_eq!(
        get(&server, CONFIG_MAPS).await.expect(200)["items"][0]["metadata"]["name"],
        "doubtful"
    );
    assert_eq!(get(&server, "/readyz").await.text, "ok");
}

// WAL-4: what was in the log before the failure is served.
#[tokio::test(start_paused = true)]
async fn reads_go_on_while_no_write_is_in_doubt() {
    let (server, log) = logged();
    log.fail("the disk is full");
    get(&server, CONFIG_MAPS).await.expect(200);
    Watch::open(&server, &format!("{CONFIG_MAPS}?watch=1")).await;
    let compact = ask(&server, "POST", "/steersman/compact", &[], "").await;
    compact.expect(500);
}

// WAL-1, WAL-4: with appends on the threads of the requests.
#[tokio::test(start_paused = true)]
async fn requests_append_at_once_unless_the_log_cannot_be_written() {
    let (server, log) = logged();
    let (is_full, appended) = <(Arc<AtomicBool>, Arc<AtomicU64>)>::default();
    let (full, last) = (Arc::clone(&is_full), Arc::clone(&appended));
    log.append_at_once(move |group| {
        if full.load(Ordering::Relaxed) {
            return Err("the disk is full".to_owned());
        }
        assert_eq!(
            last.swap(group.last(), Ordering::Relaxed) + 1,
            group.first()
        );
        Ok(())
    });
    create_config_maps(&server, &["a", "b"]).await;
    assert!(take(&log).is_none());

    is_full.store(true, Ordering::Relaxed);
    post(&server, CONFIG_MAPS, &config_map("c"))
        .await
        .expect(500);
    post(&server, CONFIG_MAPS, &config_map("d"))
        .await
        .expect(503);
    is_full.store(false, Ordering::Relaxed);
    // A write inside the server waits behind the one that failed.
    server.create(config_map("e")).unwrap();
    let failed = appended.load(Ordering::Relaxed) + 1;
    let group = take(&log).unwrap();
    assert_eq!((group.first(), group.last()), (failed, failed + 1));
    appended.store(group.last(), Ordering::Relaxed);
    log.keep(group);
    create_config_maps(&server, &["f"]).await;
    let list = get(&server, CONFIG_MAPS).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 5);
}

// WAL-5.
#[tokio::test(start_paused = true)]
async fn the_player_does_not_run_ahead_of_the_log() {
    let log = WriteAheadLog::new();
    let played = Played::everything().speed(Speed::brisk());
    let server = ApiServer::builder().play(played).log_writes(&log).build();
    let _service = server.service();
    let mut big = deployment("big");
    big["spec"]["replicas"] = json!(500);
    server.create(big).unwrap();
    let hour = Duration::from_secs(3600);
    tokio::time::sleep(hour).await;
    let pods = server.list("pods", "default").len();
    assert!(
        pods < 130,
        "{pods} Pods were created before anything was in the log"
    );
    let kept = tokio::spawn({
        let log = log.clone();
        async move {
            loop {
                log.keep(log.next().await);
            }
        }
    });
    tokio::time::sleep(hour).await;
    assert_eq!(server.list("pods", "default").len(), 500);
    kept.abort();
}

// WAL-3.
#[tokio::test(start_paused = true)]
async fn a_watch_continues_on_the_server_that_replayed_the_log() {
    let (server, log) = logged();
    let base = server.snapshot();
    let since = server.revision();
    server.create(config_map("a")).unwrap();
    server.create(config_map("b")).unwrap();
    let mut text = Vec::new();
    let group = take(&log).unwrap();
    assert!(group.starts_file(), "a snapshot was taken before");
    group.write(&mut text).unwrap();
    let mut recovery = Recovery::from(base);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        recovery.add(line).unwrap();
    }
    let again = ApiServer::builder().recover(recovery).build();
    assert_eq!(again.revision(), server.revision());
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", since + 1);
    let mut watch = Watch::open(&again, &path).await;
    assert_eq!(watch.next_short().await.unwrap(), "ADDED b");
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", since - 1);
    let mut watch = Watch::open(&again, &path).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
}
