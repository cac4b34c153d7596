//! Tests of watches: initial events, selectors, bookmarks, compaction.

use super::*;

fn from(version: u64) -> ListQuery {
    ListQuery {
        resource_version: Some(version.to_string()),
        ..ListQuery::default()
    }
}

fn streaming() -> ListQuery {
    ListQuery {
        allow_bookmarks: true,
        send_initial_events: Some(true),
        resource_version_match: Some("NotOlderThan".to_owned()),
        ..ListQuery::default()
    }
}

/// SRV-WATCH-1: a watch returns one event for each change, in the order of the revisions.
#[test]
fn a_watch_sees_each_change_once_in_order() {
    let mut server = Server::new();
    let first = server.create("configmaps", config_map("a")).unwrap();
    let mut cursor = server.watch("configmaps", &from(version(&first))).unwrap();
    assert!(server.poll(&mut cursor).is_empty());
    server.create("configmaps", config_map("b")).unwrap();
    server
        .merge("configmaps", "a", json!({"data": {"a": "2"}}))
        .unwrap();
    server.merge("configmaps", "a", json!({})).unwrap();
    server
        .create("secrets", json!({"metadata": {"name": "s"}}))
        .unwrap();
    server.delete("configmaps", "b").unwrap();
    assert_eq!(
        server.poll(&mut cursor),
        ["ADDED b", "MODIFIED a", "DELETED b"]
    );
    assert!(server.poll(&mut cursor).is_empty());
    let mut again = server.watch("configmaps", &from(version(&first))).unwrap();
    let mut one_by_one = Vec::new();
    loop {
        let events = server.registry.poll(&mut again, 1);
        if events.is_empty() {
            break;
        }
        assert_eq!(events.len(), 1);
        one_by_one.extend(events.iter().map(said));
    }
    assert_eq!(one_by_one, ["ADDED b", "MODIFIED a", "DELETED b"]);
}

#[test]
fn a_watch_without_a_version_starts_with_all_objects() {
    let mut server = Server::new();
    server.create("configmaps", config_map("a")).unwrap();
    for version in [None, Some("".to_owned()), Some("0".to_owned())] {
        let mut options = ListQuery {
            resource_version: version,
            ..ListQuery::default()
        };
        let mut cursor = server.watch("configmaps", &options).unwrap();
        assert_eq!(server.poll(&mut cursor), ["ADDED a"]);
        options.allow_bookmarks = true;
        let mut cursor = server.watch("configmaps", &options).unwrap();
        assert_eq!(server.poll(&mut cursor), ["ADDED a", "BOOKMARK end"]);
    }
    let mut cursor = server.watch("configmaps", &streaming()).unwrap();
    server.create("configmaps", config_map("b")).unwrap();
    assert_eq!(
        server.poll(&mut cursor),
        ["ADDED a", "BOOKMARK end", "ADDED b"]
    );
    let mut cursor = server.watch("secrets", &streaming()).unwrap();
    assert_eq!(server.poll(&mut cursor), ["BOOKMARK end"]);
    let only_new = ListQuery {
        send_initial_events: Some(false),
        ..streaming()
    };
    let mut cursor = server.watch("configmaps", &only_new).unwrap();
    assert!(server.poll(&mut cursor).is_empty());
}

#[test]
fn selectors_turn_changes_into_additions_and_deletions() {
    let mut server = Server::new();
    let first = server.create("configmaps", config_map("a")).unwrap();
    let mut options = from(version(&first));
    options.label_selector = Some("on=yes".to_owned());
    let mut cursor = server.watch("configmaps", &options).unwrap();
    let label = |on: &str| json!({"metadata": {"labels": {"on": on}}});
    server.merge("configmaps", "a", label("yes")).unwrap();
    server
        .merge("configmaps", "a", json!({"data": {"a": "2"}}))
        .unwrap();
    let left = server.merge("configmaps", "a", label("no")).unwrap();
    server
        .merge("configmaps", "a", json!({"data": {"a": "4"}}))
        .unwrap();
    server.delete("configmaps", "a").unwrap();
    let events = server.registry.poll(&mut cursor, 100);
    let said: Vec<_> = events.iter().map(said).collect();
    assert_eq!(said, ["ADDED a", "MODIFIED a", "DELETED a"]);
    let last = events[2].object().unwrap().value();
    assert_eq!(last["metadata"]["labels"]["on"], "yes");
    assert_eq!(version(last), version(&left));
}

#[test]
fn a_delete_with_a_finalizer_is_a_change_and_then_a_deletion() {
    let mut server = Server::new();
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["g.example.com/hold"]);
    let first = server.create("configmaps", body).unwrap();
    let mut cursor = server.watch("configmaps", &from(version(&first))).unwrap();
    server.delete("configmaps", "a").unwrap();
    server
        .merge("configmaps", "a", json!({"metadata": {"finalizers": []}}))
        .unwrap();
    assert_eq!(server.poll(&mut cursor), ["MODIFIED a", "DELETED a"]);
}

#[test]
fn a_compacted_start_is_an_error_event() {
    let mut server = Server::new();
    let first = server.create("configmaps", config_map("a")).unwrap();
    server
        .merge("configmaps", "a", json!({"data": {"a": "2"}}))
        .unwrap();
    server.registry.compact();
    let mut cursor = server.watch("configmaps", &from(version(&first))).unwrap();
    let events = server.registry.poll(&mut cursor, 100);
    let [WatchEvent::Error(status)] = events.as_slice() else {
        panic!("{events:?}")
    };
    let oldest = server.registry.revision();
    let message = format!("too old resource version: {} ({oldest})", version(&first));
    assert_eq!(
        (status.code, status.message.as_str()),
        (410, message.as_str())
    );
    assert!(cursor.is_over());
    assert!(server.poll(&mut cursor).is_empty());
}

/// A watch from a revision before a compaction gets 410, because the server no longer knows whether the compacted
/// revisions had a change of the watched kind.
#[test]
fn a_start_before_a_compaction_expires_even_if_no_change_was_lost() {
    let mut server = Server::new();
    server.create("configmaps", config_map("a")).unwrap();
    server.registry.compact();
    let now = server.registry.revision();
    let mut late = server.watch("secrets", &from(now - 1)).unwrap();
    assert_eq!(server.poll(&mut late), ["ERROR 410"]);
    assert!(late.is_over());
    let mut timely = server.watch("secrets", &from(now)).unwrap();
    assert!(server.poll(&mut timely).is_empty());
    assert!(!timely.is_over());
}

#[test]
fn an_open_watch_survives_a_compaction_of_changes_it_has_seen() {
    let mut server = Server::new();
    let first = server.create("configmaps", config_map("a")).unwrap();
    let mut cursor = server.watch("configmaps", &from(version(&first))).unwrap();
    assert!(server.poll(&mut cursor).is_empty());
    server
        .create("secrets", json!({"metadata": {"name": "s"}}))
        .unwrap();
    server.registry.compact();
    server.delete("configmaps", "a").unwrap();
    assert_eq!(server.poll(&mut cursor), ["DELETED a"]);
    server.create("configmaps", config_map("b")).unwrap();
    server.registry.compact();
    assert_eq!(server.poll(&mut cursor), ["ERROR 410"]);
}

#[test]
fn bookmarks_are_at_the_newest_revision_when_nothing_is_pending() {
    let mut server = Server::new();
    let mut cursor = server.watch("configmaps", &streaming()).unwrap();
    assert!(server.registry.bookmark(&mut cursor).is_none());
    server.poll(&mut cursor);
    server
        .create("secrets", json!({"metadata": {"name": "s"}}))
        .unwrap();
    let bookmark = server.registry.bookmark(&mut cursor).unwrap();
    assert_eq!(
        said(&bookmark),
        format!("BOOKMARK {}", server.registry.revision())
    );
    server.create("configmaps", config_map("a")).unwrap();
    assert!(server.registry.bookmark(&mut cursor).is_none());
    assert_eq!(server.poll(&mut cursor), ["ADDED a"]);
}

#[test]
fn a_future_start_waits() {
    let mut server = Server::new();
    let mut cursor = server.watch("configmaps", &from(999_999)).unwrap();
    server.create("configmaps", config_map("a")).unwrap();
    assert!(server.poll(&mut cursor).is_empty());
    // No bookmark at the future revision, because this would tell the client that the server has reached the revision.
    assert!(server.registry.bookmark(&mut cursor).is_none());
    assert_eq!(cursor.position(), 999_999);
}

/// A watch that asks for the initial objects at a future revision opens, and its only event is an error.
#[test]
fn the_objects_of_a_future_start_are_refused_in_an_event() {
    let mut server = Server::new();
    server.create("configmaps", config_map("a")).unwrap();
    let future = ListQuery {
        resource_version: Some("999".to_owned()),
        ..streaming()
    };
    let mut cursor = server.watch("configmaps", &future).unwrap();
    assert!(server.registry.bookmark(&mut cursor).is_none());
    let current = server.registry.revision();
    let events = server.registry.poll(&mut cursor, 1000);
    let [WatchEvent::Error(status)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(**status, Status::too_large_resource_version(999, current));
    assert!(cursor.is_over());
    server.create("configmaps", config_map("b")).unwrap();
    assert!(server.poll(&mut cursor).is_empty());
}

/// An expired watch reports its error before any other event, even if it missed no change of its kind.
#[test]
fn an_expired_watch_gets_no_bookmark_before_its_error() {
    let mut server = Server::new();
    let first = server.create("configmaps", config_map("a")).unwrap();
    server
        .create("secrets", json!({"metadata": {"name": "s"}}))
        .unwrap();
    server.registry.compact();
    let mut cursor = server.watch("configmaps", &from(version(&first))).unwrap();
    assert!(server.registry.bookmark(&mut cursor).is_none());
    assert_eq!(server.poll(&mut cursor), ["ERROR 410"]);
}

#[test]
fn parameters_are_refused_before_the_watch() {
    let server = Server::new();
    let about = |options: ListQuery| refused(server.watch("configmaps", &options));
    let invalid = |text: &str| {
        (
            422,
            format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: {text}"),
        )
    };
    assert_eq!(
        about(ListQuery {
            send_initial_events: Some(true),
            ..ListQuery::default()
        }),
        invalid(
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    );
    assert_eq!(
        about(ListQuery {
            send_initial_events: None,
            ..streaming()
        }),
        invalid(
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )
    );
    let version = |text: &str| ListQuery {
        resource_version: Some(text.to_owned()),
        ..ListQuery::default()
    };
    assert_eq!(
        about(version("-5")),
        (
            500,
            "resourceVersion: Invalid value: \"-5\": strconv.ParseUint: parsing \"-5\": invalid syntax"
                .to_owned()
        )
    );
}
