//! Tests of open watches and of continued lists of custom resources, after their CRD has changed (a new edition).

use super::*;

const DEFINITIONS: &str = "customresourcedefinitions";
const DEFINITION: &str = "websites.example.com";

/// A change of the spec of a CRD, with a name for assertion messages.
type Change = (&'static str, fn(&mut Value));

/// Changes of all parts of a CRD's spec that the server reads.
const CHANGES: [Change; 9] = [
    ("a schema", |spec| {
        spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] =
            json!({"type": "string"});
    }),
    ("a schema of another version", |spec| {
        spec["versions"][1]["schema"]["openAPIV3Schema"]["description"] = json!("Changed.");
    }),
    ("the storage version", |spec| {
        spec["versions"][0]["storage"] = json!(false);
        spec["versions"][1]["storage"] = json!(true);
    }),
    ("the served versions", |spec| {
        spec["versions"][1]["served"] = json!(false);
    }),
    ("another version", |spec| {
        let mut more = spec["versions"][1].clone();
        more["name"] = json!("v1alpha1");
        spec["versions"].as_array_mut().unwrap().push(more);
    }),
    ("the columns", |spec| {
        spec["versions"][0]["additionalPrinterColumns"] =
            json!([{"name": "Image", "type": "string", "jsonPath": ".spec.image"}]);
    }),
    ("the selectable fields", |spec| {
        spec["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.replicas"}]);
    }),
    ("the conversion", |spec| {
        spec["conversion"] = converted_by("converter");
    }),
    ("the names", |spec| {
        spec["names"]["shortNames"] = json!(["web", "site"]);
    }),
];

fn converted_by(service: &str) -> Value {
    json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "hooks", "name": service}}}})
}

/// Updates the CRD of Websites after `change` was applied to its spec.
fn change(server: &mut Server, change: fn(&mut Value)) {
    let mut crd = server.get(DEFINITIONS, DEFINITION).unwrap();
    change(&mut crd["spec"]);
    server.put(DEFINITIONS, Subresource::Main, crd).unwrap();
}

/// Opens a watch of Websites in one version, from the newest revision on.
fn watch_from_now(server: &Server, version: &str) -> WatchCursor {
    let of = server.registry.resource("example.com", version, "websites");
    let from = ListQuery {
        resource_version: Some(server.registry.revision().to_string()),
        allow_bookmarks: true,
        ..ListQuery::default()
    };
    let watch = server.registry.watch(&of.unwrap(), Some("default"), &from);
    watch.unwrap()
}

/// SRV-WATCH-4: a change of the spec of a CRD ends the open watches of its resources.
#[test]
fn a_changed_definition_ends_the_watches_of_all_its_versions() {
    for (what, by) in CHANGES {
        let mut server = installed();
        server.create("websites", website("seen")).unwrap();
        let mut watches = ["v1", "v1beta1"].map(|version| watch_from_now(&server, version));
        server.create("websites", website("before")).unwrap();
        let seen = server.registry.revision();
        change(&mut server, by);
        server.create("websites", website("after")).unwrap();
        for cursor in &mut watches {
            assert!(server.registry.bookmark(cursor).is_none(), "{what}");
            assert_eq!(server.poll(cursor), ["ADDED before"], "{what}");
            assert!(cursor.is_over(), "{what}");
            assert!(server.registry.bookmark(cursor).is_none(), "{what}");
        }
        // The client cannot resume from before the change: objects that it has may differ in the new edition of the
        // CRD, so it has to list again.
        let options = ListQuery {
            resource_version: Some(seen.to_string()),
            ..ListQuery::default()
        };
        let mut resumed = server.watch("websites", &options).unwrap();
        let events = server.registry.poll(&mut resumed, 100);
        let [WatchEvent::Error(status)] = events.as_slice() else {
            panic!("{what}: {events:?}")
        };
        let message = format!("too old resource version: {seen} ({})", seen + 1);
        assert_eq!((status.code, &status.message), (410, &message), "{what}");
        let mut new = watch_from_now(&server, "v1");
        server.delete("websites", "after").unwrap();
        assert_eq!(server.poll(&mut new), ["DELETED after"], "{what}");
    }
}

/// SRV-WATCH-4: a watch returns the changes before the first change of the CRD, and none after it.
#[test]
fn a_watch_ends_at_the_first_of_several_changes() {
    let mut server = installed();
    let mut cursor = watch_from_now(&server, "v1");
    let name = |server: &mut Server, short: &str| {
        let names = json!({"spec": {"names": {"shortNames": [short]}}});
        server.merge(DEFINITIONS, DEFINITION, names).unwrap();
    };
    server.create("websites", website("before")).unwrap();
    for (short, website_name) in [("one", "between"), ("two", "after")] {
        name(&mut server, short);
        server.create("websites", website(website_name)).unwrap();
    }
    assert_eq!(server.poll(&mut cursor), ["ADDED before"]);
    assert!(cursor.is_over());
}

/// SRV-WATCH-5: the end of an edition of a CRD is forgotten only after the change that ended it was compacted.
#[test]
fn the_ends_of_editions_are_forgotten_with_the_changes_that_made_them() {
    let mut server = installed();
    let name = |server: &mut Server, number: u32| {
        let names = json!({"spec": {"names": {"shortNames": [format!("web{number}")]}}});
        server.merge(DEFINITIONS, DEFINITION, names).unwrap();
    };
    let mut slow = watch_from_now(&server, "v1");
    let of = server.registry.resource("example.com", "v1", "websites");
    let ahead = ListQuery {
        resource_version: Some("1000000".to_owned()),
        ..ListQuery::default()
    };
    let mut waiting = server.registry.watch(&of.unwrap(), None, &ahead).unwrap();
    server.create("websites", website("before")).unwrap();
    for number in 0..10 {
        name(&mut server, number);
    }
    assert_eq!(server.registry.catalogue.ended(), 10);
    let mut at_end = watch_from_now(&server, "v1");
    name(&mut server, 10);
    for number in 11..100 {
        server.registry.compact();
        name(&mut server, number);
        assert_eq!(server.registry.catalogue.ended(), 1);
    }
    for (what, cursor) in [
        ("behind the compaction", &mut slow),
        ("with nothing unseen", &mut at_end),
        ("from the future", &mut waiting),
    ] {
        assert!(server.registry.bookmark(cursor).is_none(), "{what}");
        assert!(server.poll(cursor).is_empty(), "{what}");
        assert!(cursor.is_over(), "{what}");
    }
}

/// SRV-WATCH-4: changes of labels and conditions of a CRD, and its delete, do not end watches of its resources.
#[test]
fn a_change_beside_the_spec_of_a_definition_ends_no_watch() {
    let mut server = installed();
    server.create("websites", website("seen")).unwrap();
    let mut cursor = watch_from_now(&server, "v1");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    server.merge(DEFINITIONS, DEFINITION, labels).unwrap();
    let mut crd = server.get(DEFINITIONS, DEFINITION).unwrap();
    crd["status"]["conditions"].as_array_mut().unwrap().push(
        json!({"type": "Mine", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}),
    );
    server.put(DEFINITIONS, Subresource::Status, crd).unwrap();
    // After its delete, a CRD still serves its custom resources until the last one is removed.
    let held = json!({"metadata": {"finalizers": ["g.example.com/hold"]}});
    server.merge("websites", "seen", held).unwrap();
    server.delete(DEFINITIONS, DEFINITION).unwrap();
    assert_eq!(server.poll(&mut cursor), ["MODIFIED seen", "MODIFIED seen"]);
    assert!(!cursor.is_over());
    assert!(server.registry.bookmark(&mut cursor).is_some());
}

/// If another CRD has a name of a CRD, this name is accepted when the other CRD is deleted. This changes the accepted
/// names, and so ends the watches.
#[test]
fn names_that_are_accepted_later_end_the_watches() {
    let mut server = Server::new();
    let mut other = websites();
    other["metadata"]["name"] = json!("sites.example.com");
    other["spec"]["names"] = json!({"plural": "sites", "kind": "Site", "shortNames": ["web"]});
    server.registry.install_crd(other, server.now).unwrap();
    let mut crd = websites();
    crd["spec"]["names"]["shortNames"] = json!([]);
    server.registry.install_crd(crd, server.now).unwrap();
    // The CRD is already established, so it stays served, even if it now asks for a name that another CRD has.
    change(&mut server, |spec| {
        spec["names"]["shortNames"] = json!(["web"])
    });
    let mut cursor = watch_from_now(&server, "v1");
    server.delete(DEFINITIONS, "sites.example.com").unwrap();
    assert!(server.poll(&mut cursor).is_empty());
    assert!(cursor.is_over());
}

/// If a change of the CRD removes its conversion webhook, objects from before the change cannot be converted for a
/// watch. The watch then ends without an error.
#[test]
fn an_earlier_edition_that_cannot_convert_ends_without_an_error() {
    let mut server = installed();
    change(&mut server, |spec| spec["conversion"] = converted_by("old"));
    let mut cursor = watch_from_now(&server, "v1beta1");
    server.create("websites", website("before")).unwrap();
    change(&mut server, |spec| {
        spec["conversion"] = json!({"strategy": "None"})
    });
    assert!(server.poll(&mut cursor).is_empty());
    assert!(cursor.is_over());
}

/// If the CRD changes while a watch has initial objects left to return, the watch returns these and then ends.
#[test]
fn a_change_amid_the_initial_objects_ends_the_watch_after_them() {
    let mut server = installed();
    for name in ["a", "b"] {
        server.create("websites", website(name)).unwrap();
    }
    let options = ListQuery {
        send_initial_events: Some(true),
        resource_version_match: Some("NotOlderThan".to_owned()),
        allow_bookmarks: true,
        ..ListQuery::default()
    };
    let mut cursor = server.watch("websites", &options).unwrap();
    assert_eq!(server.registry.poll(&mut cursor, 1).len(), 1);
    change(&mut server, |spec| {
        spec["names"]["shortNames"] = json!(["site"])
    });
    assert_eq!(server.poll(&mut cursor), ["ADDED b", "BOOKMARK end"]);
    assert!(cursor.is_over());
}

/// If a CRD changes between two pages of a list, the second page has the objects at the revision of the first page, but
/// with the schema of the present CRD.
#[test]
fn a_list_continues_with_the_present_conversion() {
    let mut server = installed();
    for name in ["a", "b"] {
        server.create("websites", website(name)).unwrap();
    }
    let mut page = ListQuery {
        limit: 1,
        ..ListQuery::default()
    };
    let first = server.list("websites", &page).unwrap();
    page.continue_token = first.continue_token;
    server.delete("websites", "b").unwrap();
    change(&mut server, |spec| {
        spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["late"] =
            json!({"type": "string", "default": "d"});
    });
    let second = server.list("websites", &page).unwrap();
    assert_eq!(second.revision, first.revision);
    let objects: Vec<_> = second.items.iter().map(|one| one.value()).collect();
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0]["metadata"]["name"], "b");
    assert_eq!(objects[0]["spec"]["late"], "d");
}

/// A snapshot has no history, so on a server that starts from it the edition of each CRD begins at the snapshot.
#[test]
fn a_restored_definition_begins_a_new_edition() {
    let mut server = installed();
    server.create("websites", website("w")).unwrap();
    let mut cursor = watch_from_now(&server, "v1");
    let snapshot = server.registry.snapshot();
    server.registry.restore(&snapshot);
    assert!(server.poll(&mut cursor).is_empty());
    assert!(cursor.is_over());
}

/// As on a kube-apiserver, the deletion of a namespace does not end watches in this namespace; only a change of the CRD
/// ends watches.
#[test]
fn a_deleted_namespace_ends_no_watch() {
    let mut server = Server::new();
    server
        .create("namespaces", json!({"metadata": {"name": "gone"}}))
        .unwrap();
    let maps = server.resource("configmaps");
    let from = ListQuery {
        resource_version: Some(server.registry.revision().to_string()),
        ..ListQuery::default()
    };
    let mut cursor = server.registry.watch(&maps, Some("gone"), &from).unwrap();
    let create = |server: &mut Server| {
        let target = ObjectTarget::collection(&maps, Some("gone"));
        let options = WriteOptions::default();
        let made = server
            .registry
            .create(target, config_map("a"), &options, server.now);
        made.unwrap();
    };
    create(&mut server);
    server.delete("namespaces", "gone").unwrap();
    assert_eq!(server.poll(&mut cursor), ["ADDED a", "DELETED a"]);
    assert!(!cursor.is_over());
    server
        .create("namespaces", json!({"metadata": {"name": "gone"}}))
        .unwrap();
    create(&mut server);
    assert_eq!(server.poll(&mut cursor), ["ADDED a"]);
}
