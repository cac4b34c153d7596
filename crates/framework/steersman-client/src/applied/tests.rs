//! Tests of `AppliedIntents`, which remembers the last applies and deletes of a client.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_object::Kind;

use super::*;

fn gvk() -> Gvk {
    Kind::of::<ConfigMap>().gvk().clone()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("a", name)
}

fn state(uid: &str, version: &str) -> AppliedState {
    AppliedState {
        uid: Uid::new(uid),
        version: ResourceVersion::new(version),
    }
}

fn digest(document: &Value) -> ApplyDigest {
    ApplyDigest::of("m", &gvk(), document)
}

fn never(_: &Gvk, _: Remembered<'_>) -> bool {
    false
}

/// Records an apply and the server's answer, which says that the object has the state `left`.
fn apply(applied: &mut AppliedIntents, key: &ObjectKey, intent: Intent, left: AppliedState) {
    applied.begin(&gvk(), key, intent, never);
    applied.answered(&gvk(), key, intent, left);
}

fn last(applied: &AppliedIntents, name: &str, intent: Intent) -> LastApply {
    applied.last(&gvk(), &key(name), intent)
}

/// CLIENT-10: only an apply with the same manager, options and document is equal to the last apply.
#[test]
fn an_intent_is_known_by_manager_options_and_document() {
    let (mut applied, keys) = (AppliedIntents::default(), IntentKey::default());
    let document = json!({"data": {"k": "1"}});
    let intent = keys.intent("m", true, digest(&document));
    assert_eq!(last(&applied, "a", intent), LastApply::Unsent);
    apply(&mut applied, &key("a"), intent, state("u", "7"));
    assert_eq!(
        last(&applied, "a", intent),
        LastApply::Equal(state("u", "7"))
    );
    assert_eq!(last(&applied, "b", intent), LastApply::Unsent);
    assert_eq!(keys.intent("m", true, digest(&document)), intent);
    for other in [
        keys.intent("m", false, digest(&document)),
        keys.intent("m", true, digest(&json!({"data": {"k": "2"}}))),
    ] {
        assert_eq!(last(&applied, "a", other), LastApply::Other);
    }
    let theirs = keys.intent("n", true, digest(&document));
    assert_eq!(last(&applied, "a", theirs), LastApply::Unsent);
}

/// CLIENT-10: after a delete, and until an apply is answered, no apply counts as repeated.
#[test]
fn an_apply_without_an_answer_and_a_deleted_object_have_no_known_state() {
    let (mut applied, keys) = (AppliedIntents::default(), IntentKey::default());
    let [ours, next, theirs] = [("m", 1), ("m", 2), ("n", 1)]
        .map(|(manager, options)| keys.intent(manager, options, digest(&json!({}))));
    apply(&mut applied, &key("a"), ours, state("u", "1"));
    apply(&mut applied, &key("a"), theirs, state("u", "2"));
    applied.begin(&gvk(), &key("a"), next, never);
    assert_eq!(last(&applied, "a", ours), LastApply::Other);
    assert_eq!(last(&applied, "a", next), LastApply::Other);
    assert_eq!(
        last(&applied, "a", theirs),
        LastApply::Equal(state("u", "2"))
    );
    applied.answered(&gvk(), &key("a"), next, state("u", "3"));
    assert_eq!(last(&applied, "a", next), LastApply::Equal(state("u", "3")));
    assert_eq!(applied.len, 2);
    applied.deleted(&gvk(), &key("a"), never);
    for intent in [ours, next, theirs] {
        assert_eq!(last(&applied, "a", intent), LastApply::Other);
    }
    assert_eq!(applied.len, 1);
    apply(&mut applied, &key("a"), ours, state("v", "5"));
    assert_eq!(last(&applied, "a", ours), LastApply::Equal(state("v", "5")));
    assert_eq!(last(&applied, "a", theirs), LastApply::Unsent);
    assert_eq!(applied.len, 1);
}

#[test]
fn the_objects_of_a_namespace_or_of_a_kind_are_deleted_together() {
    let (mut applied, keys) = (AppliedIntents::default(), IntentKey::default());
    let [first, second] = ["m", "n"].map(|manager| keys.intent(manager, (), digest(&json!({}))));
    let elsewhere = ObjectKey::namespaced("b", "x");
    let fill = |applied: &mut AppliedIntents| {
        for key in [&key("x"), &key("y"), &elsewhere] {
            for intent in [first, second] {
                apply(applied, key, intent, state("u", "1"));
            }
        }
    };
    fill(&mut applied);
    applied.deleted_in(&gvk(), Some("a"), never);
    assert_eq!(applied.len, 3);
    // `z` was never applied, but the delete of all objects of the namespace concerns every name.
    for name in ["x", "z"] {
        assert_eq!(last(&applied, name, first), LastApply::Other);
    }
    let left = applied.last(&gvk(), &elsewhere, first);
    assert_eq!(left, LastApply::Equal(state("u", "1")));
    fill(&mut applied);
    assert_eq!(
        last(&applied, "x", first),
        LastApply::Equal(state("u", "1"))
    );
    assert_eq!(applied.len, 7);
    applied.deleted_in(&gvk(), None, never);
    assert_eq!(applied.len, 2);
    assert_eq!(applied.last(&gvk(), &elsewhere, first), LastApply::Other);
}

#[test]
fn an_answer_without_uid_or_version_leaves_no_state() {
    let mut applied = AppliedIntents::default();
    let intent = IntentKey::default().intent("m", (), digest(&json!({})));
    for left in [state("", "1"), state("u", ""), state("u", "0")] {
        apply(&mut applied, &key("a"), intent, left);
        assert_eq!(last(&applied, "a", intent), LastApply::Other);
    }
}

#[test]
fn outdated_entries_are_dropped_when_their_number_has_doubled() {
    let mut applied = AppliedIntents::default();
    let intent = IntentKey::default().intent("m", (), digest(&json!({})));
    // The entries of objects with an even number are outdated.
    let is_outdated = |_: &Gvk, known: Remembered<'_>| match known {
        Remembered::Applied(key, _) | Remembered::Deleted(key, _) => {
            key.name().ends_with(['0', '2', '4', '6', '8'])
        }
        Remembered::DeletedIn(..) => false,
    };
    let mut most = 0;
    for number in 0..10_000 {
        let key = key(&format!("object-{}", number % 3000));
        match number % 3 {
            0 => applied.deleted(&gvk(), &key, is_outdated),
            _ => {
                applied.begin(&gvk(), &key, intent, is_outdated);
                applied.answered(&gvk(), &key, intent, state("u", "1"));
            }
        }
        most = most.max(applied.len);
    }
    assert!(most > SWEEP_AT_LEAST && most <= 3000, "{most}");
    applied.sweep_at = 0;
    while applied.len < SWEEP_AT_LEAST {
        let key = key(&format!("filler-{}", applied.len));
        applied.deleted(&gvk(), &key, never);
    }
    applied.deleted(&gvk(), &key("last"), is_outdated);
    let of_kind = &applied.of[&gvk()];
    let none = &None;
    assert!(
        of_kind
            .keys()
            .all(|key| !is_outdated(&gvk(), Remembered::Deleted(key, none)))
    );
    let entries = of_kind.values().map(ObjectRequests::len);
    assert_eq!(applied.len, entries.sum::<usize>());
}

/// CLIENT-13: the number of remembered deletes is bounded, however many namespaces come and go.
#[test]
fn namespaces_that_are_gone_are_dropped_too() {
    let mut applied = AppliedIntents::default();
    let namespace = |number: usize| format!("job-{number}");
    // Only the newest hundred namespaces have objects; the deletes in other namespaces are outdated.
    for number in 0..10_000_usize {
        let is_outdated = |_: &Gvk, known: Remembered<'_>| {
            let Remembered::DeletedIn(Some(name), _) = known else {
                panic!("{known:?}");
            };
            !(number.saturating_sub(100)..number).any(|recent| name == namespace(recent))
        };
        // Each delete is recorded twice, as the client does: before the request and after the answer.
        for _ in 0..2 {
            applied.deleted_in(&gvk(), Some(&namespace(number)), is_outdated);
        }
        assert!(applied.len <= SWEEP_AT_LEAST, "{}", applied.len);
    }
    let intent = IntentKey::default().intent("m", (), digest(&json!({})));
    let last = |number| {
        let key = ObjectKey::namespaced(namespace(number), "x");
        applied.last(&gvk(), &key, intent)
    };
    assert_eq!(last(9_999), LastApply::Other);
    assert_eq!(last(0), LastApply::Unsent);
}

/// CLIENT-13: a delete stays remembered until the cache has passed this version.
#[test]
fn a_delete_remembers_the_newest_version_that_the_cache_may_still_show() {
    let (mut applied, keys) = (AppliedIntents::default(), IntentKey::default());
    let [ours, theirs] = ["m", "n"].map(|manager| keys.intent(manager, (), digest(&json!({}))));
    let after = |applied: &mut AppliedIntents| {
        let mut after = Vec::new();
        applied.sweep_at = 0;
        applied.len += SWEEP_AT_LEAST;
        applied.make_room(|_, known| {
            let (Remembered::Deleted(_, version) | Remembered::DeletedIn(_, version)) = known
            else {
                return false;
            };
            after.push(version.as_ref().map(ToString::to_string));
            false
        });
        after
    };
    applied.deleted(&gvk(), &key("a"), never);
    assert_eq!(after(&mut applied), [None]);
    apply(&mut applied, &key("a"), ours, state("u", "10"));
    apply(&mut applied, &key("a"), theirs, state("u", "9"));
    applied.deleted(&gvk(), &key("a"), never);
    assert_eq!(after(&mut applied), [Some("10".to_owned())]);
    // The answer to an apply that another task sent before the delete arrives after the delete.
    applied.answered(&gvk(), &key("a"), ours, state("u", "11"));
    assert_eq!(after(&mut applied), [Some("11".to_owned())]);
    applied.deleted_in(&gvk(), Some("a"), never);
    assert_eq!(after(&mut applied), [Some("11".to_owned())]);
    applied.answered(&gvk(), &key("b"), ours, state("v", "12"));
    assert_eq!(after(&mut applied), [Some("12".to_owned())]);
    assert_eq!(last(&applied, "a", ours), LastApply::Other);
}
