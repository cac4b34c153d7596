//! Tests of what is dropped, replaced and sorted inside of objects.

use super::*;

#[test]
fn what_each_write_changes_is_not_compared() {
    for (one, other) in [
        (
            json!({"resourceVersion": "7"}),
            json!({"resourceVersion": "8"}),
        ),
        (json!({"uid": "1"}), json!({"uid": "2"})),
        (
            json!({"creationTimestamp": "x"}),
            json!({"creationTimestamp": "y"}),
        ),
        (json!({"generation": 1}), json!({"generation": 2})),
        (json!({"selfLink": "/a"}), json!({})),
        (json!({"managedFields": [{"manager": "a"}]}), json!({})),
        (
            json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}),
            json!({}),
        ),
        (
            json!({"deletionTimestamp": "x"}),
            json!({"deletionTimestamp": "y"}),
        ),
    ] {
        assert_eq!(
            compared(&site(one, json!({})), &site(other, json!({}))),
            NONE
        );
    }
}

#[test]
fn what_each_write_changes_is_not_shown() {
    let metadata = json!({
        "uid": "1", "resourceVersion": "7", "creationTimestamp": "x", "generation": 2, "managedFields": [],
    });
    let differences = expected(&[json!([])]).differences(&map(&site(metadata, json!({"spec": 1}))));
    let shown = object("Site", "a", json!({}), json!({"spec": 1}));
    assert_eq!(differences[0].found, Some(shown));
}

#[test]
fn other_metadata_is_compared() {
    let annotations = json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}});
    for (one, other, line) in [
        (
            json!({"labels": {"a": "b"}}),
            json!({}),
            r#"Site shop/a: /metadata/labels {"a":"b"} "-""#,
        ),
        (
            annotations,
            json!({}),
            r#"Site shop/a: /metadata/annotations {"a":"b"} "-""#,
        ),
        (
            json!({"deletionTimestamp": "2026-01-02T03:04:05Z"}),
            json!({}),
            r#"Site shop/a: /metadata/deletionTimestamp "<time>" "-""#,
        ),
        (
            json!({"generateName": "a-"}),
            json!({}),
            r#"Site shop/a: /metadata/generateName "a-" "-""#,
        ),
    ] {
        assert_eq!(
            compared(&site(one, json!({})), &site(other, json!({}))),
            [line]
        );
    }
}

#[test]
fn leases_and_events_are_not_compared_but_other_kinds_of_these_names_are() {
    let of_group = |group: &str, kind: &str| {
        let metadata = json!({"name": "a", "namespace": "shop"});
        json!({"apiVersion": format!("{group}v1"), "kind": kind, "metadata": metadata})
    };
    let dropped = [
        ("coordination.k8s.io/", "Lease"),
        ("", "Event"),
        ("events.k8s.io/", "Event"),
    ];
    let world: Value = dropped
        .map(|(group, kind)| of_group(group, kind))
        .into_iter()
        .collect();
    assert_eq!(compared(&json!([]), &world), NONE);
    let other = json!([
        of_group("example.com/", "Event"),
        of_group("example.com/", "Lease")
    ]);
    assert_eq!(
        compared(&json!([]), &other),
        ["Event shop/a is additional", "Lease shop/a is additional"]
    );
}

#[test]
fn times_are_not_compared() {
    let status = |text: &str| {
        site(
            json!({}),
            json!({"status": {"conditions": [{"lastTransitionTime": text}]}}),
        )
    };
    for time in [
        "2026-01-02T03:04:06Z", "2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05+02:00",
    ] {
        assert_eq!(
            compared(&status("2026-01-02T03:04:05Z"), &status(time)),
            NONE
        );
    }
    for other in [
        "", "2026-01-02", "since 2026-01-02T03:04:05Z", "2026-01-02T03:04:05",
        "2026-13-02T03:04:05Z",
    ] {
        assert_eq!(
            compared(&status("2026-01-02T03:04:05Z"), &status(other)).len(),
            1,
            "{other}"
        );
    }
}

#[test]
fn an_observed_generation_is_current_or_stale() {
    let observed = |generation: i64, observed: i64| {
        let conditions = json!([{"type": "Ready", "observedGeneration": observed}]);
        let status = json!({"observedGeneration": observed, "conditions": conditions});
        site(json!({"generation": generation}), json!({"status": status}))
    };
    assert_eq!(compared(&observed(1, 1), &observed(3, 3)), NONE);
    assert_eq!(compared(&observed(2, 1), &observed(5, 3)), NONE);
    let found = compared(&observed(1, 1), &observed(2, 1));
    assert!(
        found[0].ends_with(r#"/status/observedGeneration "current" "stale""#),
        "{found:?}"
    );
    let of_spec = |number: i64| {
        site(
            json!({"generation": number}),
            json!({"spec": {"observedGeneration": number}}),
        )
    };
    assert_eq!(compared(&of_spec(1), &of_spec(2)).len(), 1);
}

#[test]
fn a_uid_is_compared_by_the_object_that_has_it() {
    let state = |site: &str, owner: &str, other: &str| {
        let owners = json!({"ownerReferences": [{"kind": "Site", "name": "a", "uid": owner}]});
        json!([
            object("Site", "a", json!({"uid": site}), json!({})),
            object(
                "ConfigMap",
                "pages",
                owners,
                json!({"data": {"site": other, "empty": ""}})
            ),
        ])
    };
    let run = state("1", "1", "1");
    assert_eq!(compared(&run, &state("2", "2", "2")), NONE);
    // The Site was created again, and the ConfigMap belongs to the old Site.
    let owners = |uid: &str| json!([{"kind": "Site", "name": "a", "uid": uid}]);
    let (site, gone) = (
        owners("<uid of Site shop/a>"),
        owners("<uid of an object that is gone>"),
    );
    let line = format!("ConfigMap shop/pages: /metadata/ownerReferences {site} {gone}");
    assert_eq!(compared(&run, &state("2", "1", "2")), [line]);
    let line = r#"ConfigMap shop/pages: /data/site "<uid of Site shop/a>" "1""#;
    assert_eq!(compared(&run, &state("2", "2", "1")), [line]);
}

#[test]
fn addresses_and_node_ports_of_the_server_are_compared_by_their_service() {
    let state = |address: &str, host: &str, port: i64, managed: Value| {
        let ports = json!([{"port": 80, "nodePort": port}]);
        let spec = json!({
            "clusterIP": address, "clusterIPs": [address], "ports": ports, "healthCheckNodePort": port,
        });
        json!([
            object(
                "Service",
                "web",
                json!({"managedFields": managed}),
                json!({"spec": spec})
            ),
            object(
                "ConfigMap",
                "host",
                json!({}),
                json!({"data": {"host": host}})
            ),
        ])
    };
    let free = json!([]);
    let run = state("10.96.0.1", "10.96.0.1", 30_001, free.clone());
    assert_eq!(
        compared(&run, &state("10.96.0.2", "10.96.0.2", 30_002, free.clone())),
        NONE
    );
    let line = r#"ConfigMap shop/host: /data/host "<address of Service shop/web>" "10.96.0.1""#;
    assert_eq!(
        compared(&run, &state("10.96.0.2", "10.96.0.1", 30_001, free)),
        [line]
    );
    let chosen =
        json!([{"fieldsV1": {"f:spec": {"f:ports": {"k:{\"port\":80}": {"f:nodePort": {}}}}}}]);
    let run = state("10.96.0.1", "10.96.0.1", 30_001, chosen.clone());
    let found = compared(&run, &state("10.96.0.1", "10.96.0.1", 30_002, chosen));
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_recorded_version_is_current_or_not() {
    let state = |version: &str, recorded: &str| {
        json!([
            object(
                "ConfigMap",
                "pages",
                json!({"resourceVersion": version}),
                json!({})
            ),
            object(
                "Site",
                "a",
                json!({"annotations": {"pages-version": recorded}}),
                json!({})
            ),
        ])
    };
    assert_eq!(compared(&state("7", "7"), &state("9", "9")), NONE);
    let line = r#"Site shop/a: /metadata/annotations/pages-version "<version of ConfigMap shop/pages>" "7""#;
    // A number that is a version of an object in the world by chance.
    assert_eq!(compared(&state("7", "8"), &state("8", "8")), NONE);
    assert_eq!(compared(&state("7", "7"), &state("9", "7")), [line]);
}

#[test]
fn a_list_with_keys_has_no_order() {
    let status = |conditions: Value| site(json!({}), json!({"status": {"conditions": conditions}}));
    let run = status(json!([{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]));
    let turned = status(json!([{"type": "B", "status": "False"}, {"type": "A", "status": "True"}]));
    assert_eq!(compared(&run, &turned), NONE);
    let other = status(json!([{"type": "B", "status": "True"}, {"type": "A", "status": "True"}]));
    assert_eq!(compared(&run, &other).len(), 1);
    let finalizers = |list: Value| site(json!({"finalizers": list}), json!({}));
    assert_eq!(
        compared(
            &finalizers(json!(["a", "b"])),
            &finalizers(json!(["b", "a"]))
        ),
        NONE
    );
    let spec = |list: Value| site(json!({}), json!({"spec": {"list": list}}));
    assert_eq!(
        compared(&spec(json!(["a", "b"])), &spec(json!(["b", "a"]))).len(),
        1
    );
}

#[test]
fn ignored_kinds_and_fields_are_not_compared() {
    let ignored = |kind: &str, path: &str| IgnoredPart {
        kind: kind.to_owned(),
        field: (!path.is_empty()).then(|| FieldPattern::parse(path).unwrap()),
    };
    let rules = ScenarioRules {
        ignore: vec![
            ignored("Pod", ""),
            ignored("Site", "status.seen"),
            ignored("Site", "metadata.annotations[\"a.b/c\"]"),
            ignored("Site", "spec.ports[*].node"),
        ],
        ..ScenarioRules::default()
    };
    let of_map = |seen: i64| {
        object(
            "ConfigMap",
            "a",
            json!({}),
            json!({"status": {"seen": seen}}),
        )
    };
    let spec = |other: Value| json!({"ports": [{"port": 1}], "empty": {}, "other": other});
    let run = json!([
        of_map(1),
        object("Site", "a", json!({}), json!({"spec": spec(json!(1))}))
    ]);
    let expected = Expected::learn(&[map(&run)], &rules);
    let annotations = json!({"annotations": {"a.b/c": "x"}});
    let mut members = json!({"status": {"seen": 3}, "spec": spec(json!(1))});
    members["spec"]["ports"][0]["node"] = json!(2);
    let pod = object("Pod", "a", json!({}), json!({}));
    let world = json!([of_map(1), object("Site", "a", annotations, members), pod]);
    assert_eq!(lines(&expected, &world), NONE);
    // The field of another kind, and another field of the kind.
    let world = json!([
        of_map(2),
        object("Site", "a", json!({}), json!({"spec": spec(json!(2))}))
    ]);
    let found = [
        "ConfigMap shop/a: /status/seen 1 2",
        "Site shop/a: /spec/other 1 2",
    ];
    assert_eq!(lines(&expected, &world), found);
    // A member that was empty from the start is compared.
    let mut world = run;
    world[1]["spec"].as_object_mut().unwrap().remove("empty");
    assert_eq!(
        lines(&expected, &world),
        [r#"Site shop/a: /spec/empty {} "-""#]
    );
}

#[test]
fn a_reference_to_an_ignored_object_has_no_random_name() {
    let rules = ScenarioRules {
        ignore: vec![IgnoredPart {
            kind: "Pod".to_owned(),
            field: None,
        }],
        ..ScenarioRules::default()
    };
    let state = |suffix: &str| {
        let name = format!("web-{suffix}");
        let pods = if suffix < "c" {
            ["a", &name]
        } else {
            [&name, "a"]
        };
        let status = json!({"pod": name, "uid": suffix, "pods": pods});
        json!([
            object(
                "Pod",
                &name,
                json!({"generateName": "web-", "uid": suffix}),
                json!({})
            ),
            object("Site", "a", json!({}), json!({"status": status})),
        ])
    };
    let expected = Expected::learn(&[map(&state("bbbbb"))], &rules);
    assert_eq!(lines(&expected, &state("ccccc")), NONE);
    let mut gone = state("ccccc");
    gone[1]["status"]["pod"] = json!("web-ddddd");
    assert_eq!(
        lines(&expected, &gone),
        [r#"Site shop/a: /status/pod "web-*" "web-ddddd""#]
    );
}
