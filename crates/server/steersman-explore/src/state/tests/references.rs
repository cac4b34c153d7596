//! Tests of references between objects with generated names.

use super::*;

#[test]
fn references_by_name_are_compared_by_object() {
    let state = |main: &str, other: &str, named: &str, key: &str| {
        let name = |suffix: &str| format!("web-{suffix}");
        let mut keys = json!({});
        keys[name(key)] = json!("Running");
        json!([
            pod(main, "main"),
            pod(other, "other"),
            object(
                "Site",
                "a",
                json!({}),
                json!({"status": {"main": name(named), "pods": keys}})
            ),
        ])
    };
    let run = state("bbbbb", "ccccc", "bbbbb", "bbbbb");
    assert_eq!(
        compared(&run, &state("zzzzz", "44444", "zzzzz", "zzzzz")),
        NONE
    );
    let line = r#"Site shop/a: /status/main "web-*1" "web-*2""#;
    assert_eq!(
        compared(&run, &state("zzzzz", "44444", "44444", "zzzzz")),
        [line]
    );
    let line =
        r#"Site shop/a: /status/pods/web-*1 "Running" "-", /status/pods/web-*2 "-" "Running""#;
    assert_eq!(
        compared(&run, &state("zzzzz", "44444", "zzzzz", "44444")),
        [line]
    );
    let line = r#"Site shop/a: /status/main "web-*1" "web-bbbbb""#;
    assert_eq!(
        compared(&run, &state("zzzzz", "44444", "bbbbb", "zzzzz")),
        [line]
    );
}

#[test]
fn a_name_is_replaced_in_its_namespace_and_where_it_is_unique() {
    let in_namespace = |namespace: &str, mut object: Value| {
        object["metadata"]["namespace"] = json!(namespace);
        object
    };
    let volume = |name: &str| {
        let mut volume = object(
            "PersistentVolume",
            name,
            json!({"generateName": "pv-"}),
            json!({}),
        );
        volume["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("namespace");
        volume
    };
    let state = |pod_name: &str, volume_suffix: &str| {
        let volume_name = format!("pv-{volume_suffix}");
        let spec = json!({"spec": {"pod": format!("web-{pod_name}"), "volume": volume_name}});
        json!([
            pod(pod_name, ""),
            volume(&volume_name),
            object("Claim", "a", json!({}), spec.clone()),
            in_namespace("other", object("Claim", "a", json!({}), spec)),
        ])
    };
    assert_eq!(
        compared(&state("bbbbb", "ccccc"), &state("ddddd", "fffff")),
        NONE
    );
    // Two Pods with one name: a text in a third namespace names neither.
    let twice = |name: &str| {
        let both = [pod(name, ""), in_namespace("other", pod(name, ""))];
        let named = in_namespace(
            "third",
            object(
                "Claim",
                "a",
                json!({}),
                json!({"spec": format!("web-{name}")}),
            ),
        );
        json!([both[0], both[1], named])
    };
    let line = r#"Claim third/a: /spec "web-bbbbb" "web-ccccc""#;
    assert_eq!(compared(&twice("bbbbb"), &twice("ccccc")), [line]);
}

#[test]
fn equal_objects_are_told_apart_by_their_references() {
    // Each Pod has a volume. The volumes differ, and the Site names a Pod.
    let state = |pods: [&str; 2], volumes: [&str; 2], main: usize| {
        let name = |prefix: &str, suffix: &str| format!("{prefix}-{suffix}");
        let pod = |at: usize| {
            let spec = json!({"spec": {"volume": name("data", volumes[at])}});
            object(
                "Pod",
                &name("web", pods[at]),
                json!({"generateName": "web-"}),
                spec,
            )
        };
        let volume = |at: usize| {
            let spec = json!({"spec": {"size": at, "pod": name("web", pods[at])}});
            object(
                "Volume",
                &name("data", volumes[at]),
                json!({"generateName": "data-"}),
                spec,
            )
        };
        let mut all = pods.map(|suffix| name("web", suffix));
        all.sort();
        let status = json!({"status": {"main": name("web", pods[main]), "pods": all}});
        json!([
            pod(0),
            pod(1),
            volume(0),
            volume(1),
            object("Site", "a", json!({}), status)
        ])
    };
    let run = state(["bbbbb", "ccccc"], ["bbbbb", "ccccc"], 0);
    for (pods, volumes) in [
        (["ccccc", "bbbbb"], ["bbbbb", "ccccc"]),
        (["bbbbb", "ccccc"], ["ccccc", "bbbbb"]),
        (["zzzzz", "ddddd"], ["zzzzz", "ddddd"]),
    ] {
        assert_eq!(compared(&run, &state(pods, volumes, 0)), NONE);
        assert_eq!(compared(&run, &state(pods, volumes, 1)).len(), 1);
    }
}

#[test]
fn the_direction_of_references_tells_objects_apart() {
    // A ring: the Pod x names a Pod without a label, which names the Pod y, which names another without a label.
    let state = |suffixes: [&str; 4]| {
        let ring = ["x", "", "y", ""]
            .into_iter()
            .enumerate()
            .map(|(at, label)| {
                let mut pod = pod(&suffixes[at].repeat(5), label);
                pod["spec"] = json!({"next": format!("web-{}", suffixes[(at + 1) % 4].repeat(5))});
                pod
            });
        let ring: Value = ring.collect();
        ring
    };
    let run = state(["b", "c", "d", "f"]);
    for suffixes in [
        ["b", "f", "d", "c"],
        ["z", "c", "b", "d"],
        ["z", "d", "b", "c"],
    ] {
        assert_eq!(compared(&run, &state(suffixes)), NONE);
    }
}

#[test]
fn a_missing_object_does_not_turn_the_references_of_others() {
    // Pods with the same content, each with a volume of its own.
    let state = |numbers: &[usize]| {
        let pairs = numbers.iter().flat_map(|number| {
            let suffix = "bcdf"[*number..=*number].repeat(5);
            let (web, data) = (format!("web-{suffix}"), format!("data-{suffix}"));
            let spec = json!({"spec": {"volume": data}});
            [
                object("Pod", &web, json!({"generateName": "web-"}), spec),
                object(
                    "Volume",
                    &data,
                    json!({"generateName": "data-"}),
                    json!({"size": number}),
                ),
            ]
        });
        let pairs: Value = pairs.collect();
        pairs
    };
    let expected = expected(&[state(&[0, 1, 2])]);
    for (missing, left) in [(0, [1, 2]), (1, [0, 2]), (2, [0, 1])] {
        let found = lines(&expected, &state(&left));
        let [pod, volume] = found.as_slice() else {
            panic!("without {missing}: {found:?}");
        };
        assert!(
            pod.starts_with("Pod ") && pod.ends_with("is missing"),
            "{found:?}"
        );
        assert_eq!(
            *volume,
            format!("Volume shop/data-*{} is missing", missing + 1)
        );
    }
}

#[test]
fn objects_keep_their_numbers_if_references_to_them_are_missing() {
    let state = |labels: &[&str], listed: bool| {
        let pods = labels.iter().map(|label| pod(&label.repeat(5), label));
        let names: Vec<String> = labels
            .iter()
            .map(|label| format!("web-{}", label.repeat(5)))
            .collect();
        let site = object(
            "Site",
            "a",
            json!({}),
            json!({"pods": if listed { json!(names) } else { json!([]) }}),
        );
        let objects: Value = pods.chain([site]).collect();
        objects
    };
    let found = lines(
        &expected(&[state(&["b", "c", "d"], true)]),
        &state(&["c", "d"], false),
    );
    assert_eq!(
        found,
        [
            "Pod shop/web-*1 is missing",
            r#"Site shop/a: /pods ["web-*1","web-*2","web-*3"] []"#
        ]
    );
}

#[test]
fn a_list_of_generated_names_has_no_order() {
    // The runs agree by chance that the Pod with the label x has the first name.
    let state = |x: &str, y: &str| {
        let uid = |mut pod: Value, uid: &str| {
            pod["metadata"]["uid"] = json!(uid);
            pod
        };
        let mut names = [x, y].map(|suffix| format!("web-{suffix}"));
        names.sort();
        let uids = if x < y { ["1", "2"] } else { ["2", "1"] };
        let items: Value = names
            .iter()
            .map(|name| json!({"of": {"pod": name}}))
            .collect();
        let status = json!({"pods": names, "uids": uids, "items": items});
        json!([
            uid(pod(x, "x"), "1"),
            uid(pod(y, "y"), "2"),
            object("Site", "a", json!({}), status)
        ])
    };
    let runs = [state("bbbbb", "ccccc"), state("ddddd", "fffff")];
    assert_eq!(lines(&expected(&runs), &state("ggggg", "bbbbb")), NONE);
    let mut other = state("ggggg", "bbbbb");
    other[2]["status"]["pods"] = json!(["web-ggggg", "web-ggggg"]);
    assert_eq!(lines(&expected(&runs), &other).len(), 1);
}

#[test]
fn objects_of_two_kinds_with_one_name_keep_their_own_numbers() {
    let state = |labels: [&str; 2]| {
        let both = ["bbbbb", "ccccc"]
            .into_iter()
            .zip(labels)
            .enumerate()
            .flat_map(|(at, (suffix, label))| {
                let mut claim = pod(suffix, label);
                claim["kind"] = json!("Claim");
                [claim, pod(suffix, &at.to_string())]
            });
        let both: Value = both.collect();
        both
    };
    let expected = expected(&[state(["y", "x"])]);
    assert_eq!(lines(&expected, &state(["y", "x"])), NONE);
    let differences = expected.differences(&map(&state(["y", "z"])));
    for difference in &differences {
        assert_eq!(
            difference.expected.as_ref().unwrap()["metadata"]["name"],
            difference.object.name
        );
        assert_eq!(
            difference.found.as_ref().unwrap()["metadata"]["name"],
            difference.object.name
        );
    }
    let expected = expected.differences(&map(&json!([])));
    assert_eq!(expected.len(), 4);
    assert!(
        expected
            .iter()
            .all(|one| one.expected.as_ref().unwrap()["metadata"]["name"] == one.object.name)
    );
}

#[test]
fn equal_namespaces_are_told_apart_by_their_objects() {
    let state = |names: [&str; 2]| {
        let mut objects = Vec::new();
        for (at, suffix) in names.into_iter().enumerate() {
            let name = format!("tenant-{suffix}");
            let metadata = json!({"name": name, "generateName": "tenant-"});
            objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
            let generate = ["web-", "db-"][at];
            let inner = object(
                "Pod",
                &format!("{generate}{suffix}"),
                json!({"generateName": generate}),
                json!({}),
            );
            objects.push(inner);
            objects.push(object("Pod", ["first", "second"][at], json!({}), json!({})));
            for object in &mut objects[at * 3 + 1..] {
                object["metadata"]["namespace"] = json!(name);
            }
        }
        objects
    };
    for skipped in ["first-second", "web-db"] {
        let without = |names| -> Value {
            let objects = state(names).into_iter();
            let kept = |object: &Value| {
                let name = object["metadata"]["name"].as_str().unwrap();
                !skipped
                    .split('-')
                    .any(|skipped| name.split('-').next() == Some(skipped))
            };
            objects.filter(kept).collect()
        };
        let run = without(["bbbbb", "ccccc"]);
        for names in [
            ["bbbbb", "ccccc"],
            ["ccccc", "bbbbb"],
            ["ddddd", "fffff"],
            ["zzzzz", "ggggg"],
        ] {
            assert_eq!(compared(&run, &without(names)), NONE);
        }
    }
}

#[test]
fn a_name_without_a_prefix_is_replaced_where_the_object_can_be_meant() {
    let state = |name: &str| {
        let volume =
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}});
        json!([
            volume,
            object("Claim", "a", json!({}), json!({"volume": name}))
        ])
    };
    let expected = expected(&[state("x1"), state("y2")]);
    assert_eq!(expected.varying(), NONE);
    assert_eq!(lines(&expected, &state("z3")), NONE);
}
