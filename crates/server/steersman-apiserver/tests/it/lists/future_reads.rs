//! Tests of reads and watches of a revision that the server has not reached.

use std::time::Duration;

use steersman_apiserver::ApiServer;

use crate::support::{Answer, CONFIG_MAPS, Watch, config_map, create_config_maps, get, server};

/// Returns the reads of the ConfigMap `a` at a revision.
fn reads(revision: u64) -> [String; 4] {
    [
        format!("{CONFIG_MAPS}?resourceVersion={revision}"),
        format!("{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan"),
        format!("{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact"),
        format!("{CONFIG_MAPS}/a?resourceVersion={revision}"),
    ]
}

fn watch_of_objects(revision: u64) -> String {
    format!(
        "{CONFIG_MAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan&resourceVersion={revision}"
    )
}

/// Sends a request, writes an object a second later, and returns the answer and its time.
async fn get_amid_a_write(server: &ApiServer, path: &str) -> (Answer, Duration) {
    let begun = server.now();
    let write = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.create(config_map("b")).unwrap();
    };
    let (answer, ()) = tokio::join!(get(server, path), write);
    let took = server.now().duration_since(begun);
    (answer, took.unsigned_abs())
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_future_revision_is_refused_after_three_seconds() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let current = server.revision();
    for path in reads(current + 1000) {
        let begun = server.now();
        let refused = get(&server, &path).await;
        assert_eq!(server.now().duration_since(begun).as_secs(), 3, "{path}");
        let status = refused.expect(504);
        let (wanted, cause) = (current + 1000, &status["details"]["causes"][0]["reason"]);
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        assert_eq!(status["message"], message, "{path}");
        assert_eq!(
            (refused.header("retry-after"), cause.as_str()),
            ("1", Some("ResourceVersionTooLarge"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_the_revision_that_it_asks_for() {
    for number in 0..4 {
        let server = server();
        create_config_maps(&server, &["a"]).await;
        let path = &reads(server.revision() + 1)[number];
        let (answer, took) = get_amid_a_write(&server, path).await;
        answer.expect(200);
        assert_eq!(took, Duration::from_secs(1), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_initial_objects_waits_for_the_revision_that_it_asks_for() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let write = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.create(config_map("b")).unwrap();
    };
    let path = watch_of_objects(server.revision() + 1);
    let (mut watch, ()) = tokio::join!(Watch::open(&server, &path), write);
    for expected in ["ADDED a", "ADDED b", "BOOKMARK "] {
        assert_eq!(watch.next_short().await.unwrap(), expected);
    }
    let begun = server.now();
    let mut ahead = Watch::open(&server, &watch_of_objects(server.revision() + 9)).await;
    assert_eq!(server.now().duration_since(begun).as_secs(), 3);
    let event = ahead.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&"ERROR".into(), &504.into())
    );
    assert!(ahead.next().await.is_none());
}

/// Such a watch gives neither older events nor bookmarks, which would say that the server has
/// reached the revision.
#[tokio::test(start_paused = true)]
async fn a_watch_of_changes_is_silent_until_its_revision() {
    let server = server();
    let path = format!(
        "{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={}",
        server.revision() + 2
    );
    let mut watch = Watch::open(&server, &path).await;
    assert!(watch.is_quiet().await);
    create_config_maps(&server, &["a", "b", "c"]).await;
    assert_eq!(watch.next_short().await.unwrap(), "ADDED c");
    assert_eq!(watch.next_short().await.unwrap(), "BOOKMARK ");
}
