//! Tests of all rules together, on states with random names and on random values.

use fastrand::Rng;

use super::*;

const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

fn suffix(rng: &mut Rng) -> String {
    (0..5)
        .map(|_| char::from(LETTERS[rng.usize(..LETTERS.len())]))
        .collect()
}

/// Returns the final state of an operator of Sites: equal for each `rng`, but for what a server and chance decide.
/// `shape` decides what is equal.
fn state(shape: u64, rng: &mut Rng) -> Value {
    let mut shape = Rng::with_seed(shape);
    let mut objects = Vec::new();
    let mut version = rng.u32(100..1000);
    let mut add = |rng: &mut Rng, kind: &str, name: &str, metadata: Value, members: Value| {
        version += rng.u32(1..9);
        let mut object = object(kind, name, metadata, members);
        object["metadata"]["uid"] = json!(format!("{}-{name}-{kind}", rng.u64(..)));
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        object["metadata"]["creationTimestamp"] =
            json!(format!("2026-01-02T03:04:{:02}Z", rng.u32(0..60)));
        object
    };
    for at in 0..shape.usize(1..4) {
        let site_name = format!("site-{at}");
        let mut site = add(rng, "Site", &site_name, json!({"generation": 1}), json!({}));
        let owners = json!([{"kind": "Site", "name": site_name, "uid": site["metadata"]["uid"]}]);
        let metadata = json!({"generateName": format!("{site_name}-"), "ownerReferences": owners});
        let mut pods = Vec::new();
        let (labelled, linked, claimed) = (shape.bool(), shape.bool(), shape.bool());
        let count = shape.usize(0..6);
        for number in 0..count {
            let pod_name = format!("{site_name}-{}", suffix(rng));
            let claim_name = format!("{site_name}-{}", suffix(rng));
            let address = format!("10.244.{}.{}", rng.u8(..), pods.len() * 10 + at);
            let mut pod = add(
                rng,
                "Pod",
                &pod_name,
                metadata.clone(),
                json!({"status": {"podIP": address}}),
            );
            let mut claim = add(
                rng,
                "Claim",
                &claim_name,
                metadata.clone(),
                json!({"spec": {"size": number / 2}}),
            );
            if labelled {
                pod["metadata"]["labels"] = json!({"number": number / 3, "self": pod_name});
            }
            if linked {
                pod["spec"] = json!({"volumes": [{"name": "data", "claim": claim_name}]});
            }
            if claimed {
                claim["spec"]["pod"] = pod["metadata"]["uid"].clone();
            }
            pod["status"]["secret"] = json!(rng.u64(..).to_string());
            pods.push((pod_name, address));
            objects.extend([pod, claim]);
        }
        let main = (count > 0).then(|| pods[shape.usize(..count)].0.clone());
        pods.sort();
        let endpoints: Value = pods
            .iter()
            .map(|(name, address)| json!({"addresses": [address], "target": {"pod": name}}))
            .collect();
        let names: Value = pods.iter().map(|(name, _)| json!(name)).collect();
        let mut conditions = vec![
            json!({"type": "Ready", "observedGeneration": 1}),
            json!({"type": "Stalled"}),
        ];
        rng.shuffle(&mut conditions);
        site["status"] = json!({"main": main, "pods": names, "conditions": conditions});
        let slice_name = format!("{site_name}-{}", suffix(rng));
        let slice = add(
            rng,
            "EndpointSlice",
            &slice_name,
            metadata,
            json!({"endpoints": endpoints}),
        );
        objects.extend([site, slice]);
    }
    Value::Array(objects)
}

#[test]
fn states_that_differ_by_chance_alone_are_the_same() {
    for seed in 0..100 {
        let mut rng = Rng::with_seed(seed);
        let runs: Vec<Value> = (0..3).map(|_| state(seed, &mut rng)).collect();
        let expected = expected(&runs);
        assert!(
            expected
                .varying()
                .iter()
                .all(|line| line.ends_with(": status.secret")),
            "{:?}",
            expected.varying()
        );
        for _ in 0..5 {
            assert_eq!(
                lines(&expected, &state(seed, &mut rng)),
                NONE,
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_lost_or_changed_object_is_the_only_difference() {
    for seed in 0..100 {
        let mut rng = Rng::with_seed(seed);
        let runs: Vec<Value> = (0..3).map(|_| state(seed, &mut rng)).collect();
        let expected = expected(&runs);
        let mut world = state(seed, &mut rng);
        let objects = world.as_array_mut().unwrap();
        let at = rng.usize(..objects.len());
        objects[at]["data"] = json!("changed");
        let found = lines(&expected, &world);
        assert!(
            found
                .iter()
                .any(|line| line.contains(r#"/data "-" "changed""#)),
            "seed {seed}: {found:?}"
        );
        let mut world = state(seed, &mut rng);
        let objects = world.as_array_mut().unwrap();
        let lost = objects.swap_remove(rng.usize(..objects.len()));
        let found = lines(&expected, &world);
        let missing: Vec<&String> = found
            .iter()
            .filter(|line| line.ends_with("is missing"))
            .collect();
        assert_eq!(missing.len(), 1, "seed {seed}: {found:?}");
        assert!(missing[0].starts_with(lost["kind"].as_str().unwrap()));
    }
}

fn value(rng: &mut Rng, depth: usize) -> Value {
    let texts = [
        "", "a", "b-bcdfg", "a-x", "2026-01-02T03:04:05Z", "10.0.0.1", "7", "web-*1", "é",
    ];
    let names = [
        "uid", "name", "type", "key", "namespace", "version", "metadata", "status", "a-x",
        "observedGeneration",
    ];
    match rng.usize(..if depth == 0 { 4 } else { 7 }) {
        0 => Value::Null,
        1 => json!(rng.i8(..)),
        2 | 3 => json!(texts[rng.usize(..texts.len())]),
        4 => (0..rng.usize(..4)).map(|_| value(rng, depth - 1)).collect(),
        _ => {
            let mut members = json!({});
            for _ in 0..rng.usize(..4) {
                members[names[rng.usize(..names.len())]] = value(rng, depth - 1);
            }
            members
        }
    }
}

fn any_state(rng: &mut Rng) -> ObjectMap {
    let kinds = ["Pod", "Service", "Namespace", "Site"];
    let any = |rng: &mut Rng| {
        let mut object = value(rng, 3);
        if object.is_object() {
            object["kind"] = json!(kinds[rng.usize(..kinds.len())]);
            for member in ["metadata", "spec", "status"] {
                object[member] = value(rng, 3);
            }
            if object["metadata"].is_object() {
                for member in [
                    "name", "namespace", "generateName", "uid", "annotations", "ownerReferences",
                    "finalizers",
                ] {
                    object["metadata"][member] = value(rng, 2);
                }
            }
        }
        object
    };
    (0..rng.usize(..8))
        .map(|_| any(rng))
        .map(|object| (ObjectId::of(&object), object))
        .collect()
}

#[test]
fn a_run_never_differs_from_what_it_teaches() {
    for seed in 0..3000 {
        let mut rng = Rng::with_seed(seed);
        let runs: Vec<ObjectMap> = (0..rng.usize(1..4)).map(|_| any_state(&mut rng)).collect();
        let part = |kind: &str, path: &str| IgnoredPart {
            kind: kind.to_owned(),
            field: Some(FieldPattern::parse(path).unwrap()),
        };
        let rules = ScenarioRules {
            ignore: vec![
                part("Pod", "status[0]"),
                part("Site", "metadata.name"),
                part("Service", "spec.*"),
            ],
            ..ScenarioRules::default()
        };
        let expected = Expected::learn(&runs, &rules);
        for run in &runs {
            assert_eq!(expected.differences(run), [], "seed {seed}");
        }
        let _ = (
            expected.differences(&any_state(&mut rng)),
            expected.varying(),
        );
    }
}

#[test]
fn no_runs_and_no_objects_are_no_states_to_fail_on() {
    let none = Expected::learn(&[], &ScenarioRules::default());
    assert_eq!(
        lines(&none, &json!([object("Site", "a", json!({}), json!({}))])),
        ["Site shop/a is additional"]
    );
    assert_eq!(compared(&json!([]), &json!([])), NONE);
    // Values that are no objects all have the same empty identity.
    assert_eq!(
        compared(&json!([null, 1]), &json!([[], "a"])),
        [r#" :  1 "a""#]
    );
}

#[test]
fn an_object_with_five_hundred_levels_is_compared() {
    let deep = |leaf: &str, list: bool| {
        let mut value = json!(leaf);
        for _ in 0..500 {
            value = if list {
                json!([value])
            } else {
                json!({"a": value})
            };
        }
        json!([object(
            "Site",
            "a-bbbbb",
            json!({"generateName": "a-"}),
            json!({"spec": value, "status": value})
        )])
    };
    for list in [false, true] {
        let expected = expected(&[deep("x", list), deep("y", list)]);
        assert_eq!(expected.varying().len(), 2);
        assert_eq!(lines(&expected, &deep("z", list)), NONE);
        assert_eq!(compared(&deep("x", list), &deep("z", list)).len(), 1);
    }
}
