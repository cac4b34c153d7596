//! Tests of the numbers of objects with generated names.

use super::*;

#[test]
fn generated_names_are_compared_by_content() {
    let run = json!([pod("bbbbb", "x"), pod("ccccc", "y"), pod("ddddd", "y")]);
    for (world, differences) in [
        (
            json!([pod("zzzzz", "x"), pod("44444", "y"), pod("55555", "y")]),
            vec![],
        ),
        (
            json!([pod("44444", "y"), pod("zzzzz", "x"), pod("55555", "y")]),
            vec![],
        ),
        // The other Pods keep their numbers if one is missing, or is additional.
        (
            json!([pod("44444", "y"), pod("55555", "y")]),
            vec!["Pod shop/web-*1 is missing"],
        ),
        (
            json!([pod("zzzzz", "x"), pod("44444", "y")]),
            vec!["Pod shop/web-*3 is missing"],
        ),
        (
            json!([
                pod("zzzzz", "a"),
                pod("44444", "x"),
                pod("55555", "y"),
                pod("66666", "y")
            ]),
            vec!["Pod shop/web-*4 is additional"],
        ),
        (
            json!([pod("44444", "y"), pod("55555", "y"), pod("66666", "z")]),
            vec![r#"Pod shop/web-*1: /metadata/labels/a "x" "z""#],
        ),
        (
            json!([]),
            vec![
                "Pod shop/web-*1 is missing", "Pod shop/web-*2 is missing",
                "Pod shop/web-*3 is missing",
            ],
        ),
    ] {
        assert_eq!(compared(&run, &world), differences);
        assert_eq!(
            lines(&expected(std::slice::from_ref(&run)), &world),
            differences
        );
    }
}

#[test]
fn the_number_of_objects_with_a_shared_prefix_is_compared() {
    let job = |name: &str| object("Job", name, json!({}), json!({"spec": {"name": name}}));
    let expected = expected(&[
        json!([job("run-1x"), job("other")]),
        json!([job("run-2y"), job("other")]),
    ]);
    assert_eq!(expected.varying(), NONE);
    assert_eq!(
        lines(&expected, &json!([job("run-3z"), job("other")])),
        NONE
    );
    let world = json!([job("run-3z"), job("run-4"), job("other")]);
    assert_eq!(lines(&expected, &world), ["Job shop/run-*2 is additional"]);
    assert_eq!(
        lines(&expected, &json!([job("run-3z"), job("another")])),
        [
            "Job shop/another is additional",
            "Job shop/other is missing"
        ]
    );
    assert_eq!(
        lines(&expected, &json!([job("other")])),
        ["Job shop/run-*1 is missing"]
    );
}

#[test]
fn a_varying_number_of_objects_is_compared_with_the_largest() {
    let state = |count: usize| -> Value {
        (0..count)
            .map(|at| pod(&"bcdfg"[at..=at].repeat(5), "x"))
            .collect()
    };
    let expected = expected(&[state(1), state(3), state(2)]);
    assert_eq!(expected.varying(), ["Pod shop/web-*2", "Pod shop/web-*3"]);
    for count in 1..=3 {
        assert_eq!(lines(&expected, &state(count)), NONE);
    }
    assert_eq!(lines(&expected, &state(0)), ["Pod shop/web-*1 is missing"]);
    assert_eq!(
        lines(&expected, &state(4)),
        ["Pod shop/web-*4 is additional"]
    );
}

#[test]
fn the_order_of_a_list_with_keys_does_not_decide_the_numbers() {
    let pod = |suffix: &str, conditions: [(&str, i64); 2]| {
        let conditions: Value = conditions
            .map(|(kind, status)| json!({"type": kind, "status": status}))
            .into_iter()
            .collect();
        object(
            "Pod",
            &format!("web-{suffix}"),
            json!({"generateName": "web-"}),
            json!({"status": conditions}),
        )
    };
    let run = json!([
        pod("bbbbb", [("A", 1), ("B", 2)]),
        pod("ccccc", [("B", 1), ("A", 2)])
    ]);
    let world = json!([
        pod("bbbbb", [("B", 2), ("A", 1)]),
        pod("ccccc", [("A", 2), ("B", 1)])
    ]);
    assert_eq!(compared(&run, &world), NONE);
}

#[test]
fn values_that_vary_do_not_decide_the_numbers() {
    let secret = |suffix: &str, password: &str, label: &str| {
        let metadata = json!({"generateName": "key-", "labels": {"a": label}});
        object(
            "Secret",
            &format!("key-{suffix}"),
            metadata,
            json!({"data": {"password": password}}),
        )
    };
    let state = |passwords: [&str; 2]| {
        json!([
            secret("bbbbb", passwords[0], "x"),
            secret("ccccc", passwords[1], "y")
        ])
    };
    let expected = expected(&[state(["1", "2"]), state(["4", "3"]), state(["5", "6"])]);
    let varying = [
        "Secret shop/key-*1: data.password",
        "Secret shop/key-*2: data.password",
    ];
    assert_eq!(expected.varying(), varying);
    assert_eq!(lines(&expected, &state(["9", "8"])), NONE);
}

#[test]
fn objects_in_a_namespace_with_a_generated_name_are_compared() {
    let state = |names: [(&str, &str); 2], own: &str| {
        let mut objects = Vec::new();
        for (suffix, label) in names {
            let name = format!("tenant-{suffix}");
            let mut namespace = object(
                "Namespace",
                &name,
                json!({"generateName": "tenant-", "labels": {"a": label}}),
                json!({}),
            );
            namespace["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("namespace");
            objects.push(namespace);
            for mut inner in [
                object(
                    "ConfigMap",
                    "config",
                    json!({"uid": name}),
                    json!({"data": {"of": label, "in": name}}),
                ),
                object(
                    "Pod",
                    &format!("web-{own}"),
                    json!({"generateName": "web-", "ownerReferences": [{"uid": name}]}),
                    json!({"spec": label}),
                ),
            ] {
                inner["metadata"]["namespace"] = json!(name);
                objects.push(inner);
            }
        }
        Value::Array(objects)
    };
    let run = state([("bbbbb", "x"), ("ccccc", "y")], "bbbbb");
    let world = state([("ddddd", "x"), ("ccccc", "y")], "ccccc");
    assert_eq!(compared(&run, &world), NONE);
    let turned = state([("ccccc", "x"), ("bbbbb", "y")], "bbbbb");
    assert_eq!(compared(&run, &turned), NONE);
    let mut different = turned;
    different[1]["data"]["of"] = json!("y");
    assert_eq!(
        compared(&run, &different),
        [r#"ConfigMap tenant-*1/config: /data/of "x" "y""#]
    );
}

#[test]
fn pods_of_a_stateful_set_keep_their_ordinals() {
    let pod = |ordinal: &str| {
        object(
            "Pod",
            &format!("web-{ordinal}"),
            json!({"generateName": "web-"}),
            json!({}),
        )
    };
    let run = json!([pod("0"), pod("1")]);
    let found = compared(&run, &json!([pod("1"), pod("2")]));
    assert_eq!(
        found,
        ["Pod shop/web-0 is missing", "Pod shop/web-2 is additional"]
    );
}
