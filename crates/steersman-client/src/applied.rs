//! Machine: remembers the last applies and deletes of a client, and the states that the applies left.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, Hash, RandomState};

use steersman_api::ApplyDigest;
use steersman_object::{Gvk, ObjectKey, ResourceVersion, Uid};

/// The smallest number of remembered applies at which outdated ones are swept.
const SWEEP_AT_LEAST: usize = 1024;

/// Identifies an apply by its field manager and by everything that decides its effect on one object: the options and the
/// fields with their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    manager: u64,
    options: u64,
    /// Identifies the fields, also in an object that the cache holds (CLIENT-12).
    pub(crate) digest: ApplyDigest,
}

/// An object at one version: the state that an apply left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedState {
    pub(crate) uid: Uid,
    pub(crate) version: ResourceVersion,
}

/// What this program knows of its last apply to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastApply {
    /// It has applied and deleted nothing since it started.
    Unsent,
    /// It was an equal apply, which left this state.
    Equal(AppliedState),
    /// It was another apply, or one without an answer, or the object was deleted.
    Other,
}

/// The last apply of one field manager to one object.
#[derive(Debug)]
struct AppliedIntent {
    intent: Intent,
    /// `None` until the server has answered.
    left: Option<AppliedState>,
}

/// The requests of this program about one object.
#[derive(Debug, Default)]
struct ObjectRequests {
    last: Vec<AppliedIntent>,
    /// Whether a delete was sent after the last apply.
    is_deleted: bool,
}

/// The applies of all clients that were made from one another, the last of each field manager to each object.
///
/// An entry is useful only while the cache shows the object. Other entries are swept whenever the number of entries has
/// doubled, so the number is at most twice that of the cached objects that were applied, or [`SWEEP_AT_LEAST`].
#[derive(Debug, Default)]
pub(crate) struct AppliedIntents {
    of: HashMap<Gvk, HashMap<ObjectKey, ObjectRequests>>,
    /// The namespaces in which all objects of a kind may have been deleted; `None` stands for all namespaces.
    emptied: HashMap<Gvk, HashSet<Option<String>>>,
    len: usize,
    sweep_at: usize,
}

/// The key of the hashes of managers and options.
#[derive(Debug, Default)]
pub(crate) struct IntentKey(RandomState);

impl IntentKey {
    /// Returns the intent of an apply. `options` are those that decide what the server does with the document.
    pub(crate) fn intent(&self, manager: &str, options: impl Hash, digest: ApplyDigest) -> Intent {
        Intent {
            manager: self.0.hash_one(manager),
            options: self.0.hash_one(options),
            digest,
        }
    }
}

impl AppliedIntents {
    /// Returns what is known of the last apply of the manager of `intent` to an object.
    pub(crate) fn last(&self, gvk: &Gvk, key: &ObjectKey, intent: Intent) -> LastApply {
        let requests = self.of.get(gvk).and_then(|of_kind| of_kind.get(key));
        let last = requests.and_then(|requests| requests.of(intent.manager));
        match last {
            Some(AppliedIntent {
                intent: sent,
                left: Some(left),
            }) if *sent == intent => LastApply::Equal(left.clone()),
            Some(_) => LastApply::Other,
            None if requests.is_some_and(|requests| requests.is_deleted) => LastApply::Other,
            None if self.is_emptied(gvk, key) => LastApply::Other,
            None => LastApply::Unsent,
        }
    }

    /// Notes that an apply is about to be sent: until it is answered, the state of the object is unknown. If there are
    /// many entries, drops those that `is_outdated`.
    pub(crate) fn begin(
        &mut self,
        gvk: &Gvk,
        key: &ObjectKey,
        intent: Intent,
        is_outdated: impl FnMut(&Gvk, &ObjectKey, Option<&AppliedState>) -> bool,
    ) {
        self.make_room(is_outdated);
        let requests = self.requests(gvk, key);
        let before = requests.len();
        requests
            .last
            .retain(|known| known.intent.manager != intent.manager);
        requests.last.push(AppliedIntent { intent, left: None });
        let after = requests.len();
        self.len = self.len + after - before;
    }

    /// Remembers the state that the server answered to an apply that was [begun](Self::begin) before. CLIENT-10: at that
    /// version, the server has nothing to change for this intent.
    pub(crate) fn answered(
        &mut self,
        gvk: &Gvk,
        key: &ObjectKey,
        intent: Intent,
        left: AppliedState,
    ) {
        // Without a version, no state of the cache could equal the remembered one.
        if left.uid.is_empty() || !left.version.is_exact() {
            return;
        }
        let requests = self
            .of
            .get_mut(gvk)
            .and_then(|of_kind| of_kind.get_mut(key));
        let Some(requests) = requests else {
            return;
        };
        let mut last = requests.last.iter_mut();
        if let Some(known) = last.find(|known| known.intent == intent) {
            known.left = Some(left);
            self.len -= usize::from(std::mem::take(&mut requests.is_deleted));
        }
    }

    /// Notes that a delete of an object is sent or was answered. If there are many entries, drops those that
    /// `is_outdated`.
    pub(crate) fn deleted(
        &mut self,
        gvk: &Gvk,
        key: &ObjectKey,
        is_outdated: impl FnMut(&Gvk, &ObjectKey, Option<&AppliedState>) -> bool,
    ) {
        self.make_room(is_outdated);
        let requests = self.requests(gvk, key);
        let before = requests.len();
        requests.last.clear();
        requests.is_deleted = true;
        self.len = self.len + 1 - before;
    }

    /// Notes that objects of a kind in a namespace, or in all namespaces (`None`), may have been deleted.
    pub(crate) fn deleted_in(&mut self, gvk: &Gvk, namespace: Option<&str>) {
        let emptied = self.emptied.entry(gvk.clone()).or_default();
        emptied.insert(namespace.map(str::to_owned));
        let Some(of_kind) = self.of.get_mut(gvk) else {
            return;
        };
        let mut dropped = 0;
        of_kind.retain(|key, requests| {
            let stays = namespace.is_some() && key.namespace() != namespace;
            if !stays {
                dropped += requests.len();
            }
            stays
        });
        self.len -= dropped;
        if of_kind.is_empty() {
            self.of.remove(gvk);
        }
    }

    /// Returns the number of entries.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    fn requests(&mut self, gvk: &Gvk, key: &ObjectKey) -> &mut ObjectRequests {
        let of_kind = self.of.entry(gvk.clone()).or_default();
        of_kind.entry(key.clone()).or_default()
    }

    fn is_emptied(&self, gvk: &Gvk, key: &ObjectKey) -> bool {
        let namespace = key.namespace().map(str::to_owned);
        let emptied = self.emptied.get(gvk);
        emptied.is_some_and(|emptied| emptied.contains(&None) || emptied.contains(&namespace))
    }

    fn make_room(
        &mut self,
        mut is_outdated: impl FnMut(&Gvk, &ObjectKey, Option<&AppliedState>) -> bool,
    ) {
        if self.len < self.sweep_at.max(SWEEP_AT_LEAST) {
            return;
        }
        let mut left = 0;
        self.of.retain(|gvk, of_kind| {
            of_kind.retain(|key, requests| {
                requests
                    .last
                    .retain(|known| !is_outdated(gvk, key, known.left.as_ref()));
                requests.is_deleted = requests.is_deleted && !is_outdated(gvk, key, None);
                left += requests.len();
                requests.len() > 0
            });
            of_kind.shrink_to(of_kind.len() * 2);
            !of_kind.is_empty()
        });
        self.len = left;
        self.sweep_at = left * 2;
    }
}

impl ObjectRequests {
    fn of(&self, manager: u64) -> Option<&AppliedIntent> {
        let mut last = self.last.iter();
        last.find(|known| known.intent.manager == manager)
    }

    fn len(&self) -> usize {
        self.last.len() + usize::from(self.is_deleted)
    }
}

#[cfg(test)]
mod tests {
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

    fn never(_: &Gvk, _: &ObjectKey, _: Option<&AppliedState>) -> bool {
        false
    }

    /// Applies, with this state in the answer.
    fn apply(applied: &mut AppliedIntents, key: &ObjectKey, intent: Intent, left: AppliedState) {
        applied.begin(&gvk(), key, intent, never);
        applied.answered(&gvk(), key, intent, left);
    }

    fn last(applied: &AppliedIntents, name: &str, intent: Intent) -> LastApply {
        applied.last(&gvk(), &key(name), intent)
    }

    /// CLIENT-10
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

    /// CLIENT-10
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
        assert_eq!(applied.len(), 2);
        applied.deleted(&gvk(), &key("a"), never);
        for intent in [ours, next, theirs] {
            assert_eq!(last(&applied, "a", intent), LastApply::Other);
        }
        assert_eq!(applied.len(), 1);
        apply(&mut applied, &key("a"), ours, state("v", "5"));
        assert_eq!(last(&applied, "a", ours), LastApply::Equal(state("v", "5")));
        assert_eq!(last(&applied, "a", theirs), LastApply::Unsent);
        assert_eq!(applied.len(), 1);
    }

    #[test]
    fn the_objects_of_a_namespace_or_of_a_kind_are_deleted_together() {
        let (mut applied, keys) = (AppliedIntents::default(), IntentKey::default());
        let [first, second] =
            ["m", "n"].map(|manager| keys.intent(manager, (), digest(&json!({}))));
        let elsewhere = ObjectKey::namespaced("b", "x");
        let fill = |applied: &mut AppliedIntents| {
            for key in [&key("x"), &key("y"), &elsewhere] {
                for intent in [first, second] {
                    apply(applied, key, intent, state("u", "1"));
                }
            }
        };
        fill(&mut applied);
        applied.deleted_in(&gvk(), Some("a"));
        assert_eq!(applied.len(), 2);
        // Also an object that was never applied.
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
        assert_eq!(applied.len(), 6);
        applied.deleted_in(&gvk(), None);
        assert_eq!(applied.len(), 0);
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
        // Every second object is gone.
        let is_outdated = |_: &Gvk, key: &ObjectKey, _: Option<&AppliedState>| {
            key.name().ends_with(['0', '2', '4', '6', '8'])
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
            most = most.max(applied.len());
        }
        assert!(most > SWEEP_AT_LEAST && most <= 3000, "{most}");
        applied.sweep_at = 0;
        while applied.len() < SWEEP_AT_LEAST {
            let key = key(&format!("filler-{}", applied.len()));
            applied.deleted(&gvk(), &key, never);
        }
        applied.deleted(&gvk(), &key("last"), is_outdated);
        let of_kind = &applied.of[&gvk()];
        assert!(of_kind.keys().all(|key| !is_outdated(&gvk(), key, None)));
        let entries = of_kind.values().map(ObjectRequests::len);
        assert_eq!(applied.len(), entries.sum::<usize>());
    }
}
