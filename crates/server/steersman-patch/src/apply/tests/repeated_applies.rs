//! Property tests of applies that repeat the last apply of their manager.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{LATER, NOW, World, manager, pod};
use crate::apply::managed_fields::ManagerOperation;
use crate::apply::merge_values::{holds, merge};
use crate::apply::owners::{apply, apply_fields};
use crate::apply::typed_value::{complete, fields_of};

/// Generates an object with those of the given members that are present.
fn object(members: Vec<(&'static str, Option<Value>)>) -> Value {
    let members = members.into_iter();
    let members = members.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(members.collect::<Map<_, _>>())
}

/// Generates a list of containers with lists in them, in any order, sometimes with one container twice.
fn containers() -> impl Strategy<Value = Value> {
    let variable =
        ("[a-b]", "[xy]").prop_map(|(name, value)| json!({"name": name, "value": value}));
    let container = (
        "[a-c]",
        of("[xy]"),
        of(vec(variable, 0..3)),
        of(vec("[ab]", 0..3)),
    );
    let container = container.prop_map(|(name, image, env, args)| {
        object(vec![
            ("name", Some(json!(name))),
            ("image", image.map(Value::from)),
            ("env", env.map(Value::from)),
            ("args", args.map(Value::from)),
        ])
    });
    vec(container, 0..4).prop_map(Value::from)
}

/// Generates a part of a Pod with granular and atomic maps and lists, some of them empty or null.
fn part() -> impl Strategy<Value = Value> {
    let metadata = (
        of(btree_map("[a-c]", "[xy]", 0..3)),
        of(btree_set("[a-c]", 0..3)),
        of(Just(Value::Null)),
    );
    let spec = (
        of(containers()),
        of(btree_map("[ab]", "[xy]", 0..2)),
        of("[xy]"),
    );
    (of(metadata), of(spec)).prop_map(|(metadata, spec)| {
        let metadata = metadata.map(|(labels, finalizers, annotations)| {
            object(vec![
                ("labels", labels.map(|labels| json!(labels))),
                ("finalizers", finalizers.map(|all| json!(all))),
                ("annotations", annotations),
            ])
        });
        let spec = spec.map(|(containers, selector, node)| {
            object(vec![
                ("containers", containers),
                ("nodeSelector", selector.map(|selector| json!(selector))),
                ("nodeName", node.map(Value::from)),
            ])
        });
        object(vec![("metadata", metadata), ("spec", spec)])
    })
}

proptest! {
    /// APPLY-1: an object that holds a configuration is not changed by the merge.
    #[test]
    fn a_merge_leaves_an_object_that_holds_the_configuration(live in part(), configured in part()) {
        for configured in [&configured, &live, &json!({})] {
            if holds(pod(), &live, configured) {
                prop_assert_eq!(&merge(pod(), &live, configured), &live);
            }
        }
        let (mut live, mut merged) = (live.clone(), merge(pod(), &live, &configured));
        complete(pod(), &mut live);
        complete(pod(), &mut merged);
        let again = merge(pod(), &merged, &configured);
        prop_assert!(!holds(pod(), &merged, &configured) || again == merged);
    }

    /// APPLY-1: an apply that counts as a repetition has the same result as a comparison of all fields.
    #[test]
    fn a_repeated_apply_gives_what_the_comparison_of_all_fields_gives(
        first in part(),
        other in of(part()),
        updated in of(part()),
        last in of(part()),
    ) {
        let mut world = World::new(pod());
        world.apply("m", &first, true, NOW);
        if let Some(other) = other {
            world.apply("other", &other, true, NOW);
        }
        if let Some(updated) = updated {
            let object = merge(pod(), &world.object, &updated);
            world.update("u", object);
        }
        let configured = last.unwrap_or(first);
        let m = manager("m", ManagerOperation::Apply);
        let states = (&world.object, &configured);
        World::reach(pod(), |reach| {
            let (mut short, mut full) = (world.entries.clone(), world.entries.clone());
            let applied = apply(reach, &mut short, &m, states, false, LATER);
            let previous = full.remove(&m);
            let fields = fields_of(pod(), &configured);
            let compared =
                apply_fields(reach, &mut full, &m, states, (previous, fields), (false, LATER));
            prop_assert_eq!(&applied, &compared);
            if applied.is_ok() {
                prop_assert_eq!(short.write(), full.write());
            }
            Ok(())
        })?;
    }
}

/// APPLY-1: without the check for repetitions, most applies would copy the object several times.
#[test]
fn an_object_holds_what_was_applied_and_nothing_else() {
    let live = json!({
        "metadata": {"creationTimestamp": NOW, "labels": {"a": "x", "b": "y"}, "finalizers": ["p", "q"]},
        "spec": {"containers": [{"name": "a", "image": "x", "args": ["1"]}, {"name": "b"}]},
    });
    let named = |containers: Value| json!({"spec": {"containers": containers}});
    for (configured, is_held) in [
        (live.clone(), true),
        (json!({}), true),
        (
            json!({"metadata": {"creationTimestamp": null, "labels": {"a": "x"}}}),
            true,
        ),
        (json!({"metadata": {"labels": null}}), false),
        (json!({"metadata": {"finalizers": ["q"]}}), true),
        (json!({"metadata": {"finalizers": ["q", "p"]}}), false),
        (named(json!([{"name": "b"}])), true),
        (named(json!([{"name": "a", "args": ["1"]}])), true),
        (named(json!([{"name": "a", "args": []}])), false),
        (named(json!([{"name": "b"}, {"name": "a"}])), false),
        (named(json!([{"name": "c"}])), false),
        (named(json!([{"image": "x"}])), false),
        (json!({"spec": {"nodeName": "n"}}), false),
    ] {
        assert_eq!(holds(pod(), &live, &configured), is_held, "{configured}");
    }
}
