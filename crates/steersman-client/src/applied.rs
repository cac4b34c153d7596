//! Machine: remembers the applies of a client, and decides which apply would change nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};

use serde_json::Value;
use steersman_object::{Gvk, ObjectKey, ResourceVersion, Uid};

/// The smallest number of remembered applies at which outdated ones are swept.
const SWEEP_AT_LEAST: usize = 1024;

/// Identifies an apply by its field manager and, as a hash of 128 bits, by everything that decides its effect on one
/// object: the manager, the options and the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    manager: u64,
    hash: [u64; 2],
}

/// An object at one version: the state that an apply left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedState {
    pub(crate) uid: Uid,
    pub(crate) version: ResourceVersion,
}

/// The last apply of one field manager to one object.
#[derive(Debug)]
struct AppliedIntent {
    intent: Intent,
    left: AppliedState,
}

/// The applies of all clients that were made from one another, the last of each field manager to each object.
///
/// An entry is useful only while the cache shows the object at the version of the entry. Other entries are swept
/// whenever the number of entries has doubled, so the number is at most twice that of the cached objects that were
/// applied, or [`SWEEP_AT_LEAST`].
#[derive(Debug, Default)]
pub(crate) struct AppliedIntents {
    of: HashMap<Gvk, HashMap<ObjectKey, Vec<AppliedIntent>>>,
    len: usize,
    sweep_at: usize,
}

/// The keys of the two hashes of an intent; random, so that no document can be made to collide with another.
#[derive(Debug, Default)]
pub(crate) struct IntentKeys([RandomState; 2]);

impl IntentKeys {
    /// Returns the intent of an apply. `options` are those that decide what the server does with the document.
    pub(crate) fn intent(&self, manager: &str, options: impl Hash, document: &Value) -> Intent {
        let [first, second] = &self.0;
        let effect = (manager, options, document.to_string());
        Intent {
            manager: first.hash_one(manager),
            hash: [first.hash_one(&effect), second.hash_one(&effect)],
        }
    }
}

impl AppliedIntents {
    /// Returns the state that an apply of this intent left, if it was the last apply of its manager to the object.
    ///
    /// CLIENT-10: at that version, the server has nothing to change for this intent.
    pub(crate) fn left_by(
        &self,
        gvk: &Gvk,
        key: &ObjectKey,
        intent: Intent,
    ) -> Option<&AppliedState> {
        let mut applied = self.of.get(gvk)?.get(key)?.iter();
        let known = applied.find(|known| known.intent == intent)?;
        Some(&known.left)
    }

    /// Remembers an apply that the server answered with this state. If there are many entries, forgets those that
    /// `is_outdated`.
    pub(crate) fn remember(
        &mut self,
        gvk: &Gvk,
        key: &ObjectKey,
        intent: Intent,
        left: AppliedState,
        is_outdated: impl FnMut(&Gvk, &ObjectKey, &AppliedState) -> bool,
    ) {
        self.forget(gvk, key, Some(intent));
        // Without a version, no state of the cache could equal the remembered one.
        if left.uid.is_empty() || !left.version.is_exact() {
            return;
        }
        if self.len >= self.sweep_at.max(SWEEP_AT_LEAST) {
            self.sweep(is_outdated);
        }
        let of_kind = self.of.entry(gvk.clone()).or_default();
        let of_key = of_kind.entry(key.clone()).or_default();
        of_key.push(AppliedIntent { intent, left });
        self.len += 1;
    }

    /// Forgets the last apply of the manager of `intent` to an object, or the applies of all managers (`None`).
    ///
    /// The apply is forgotten before another one is sent: if the answer of that one is lost, the state of the object
    /// is unknown.
    pub(crate) fn forget(&mut self, gvk: &Gvk, key: &ObjectKey, intent: Option<Intent>) {
        let Some(of_kind) = self.of.get_mut(gvk) else {
            return;
        };
        if let Some(of_key) = of_kind.get_mut(key) {
            let before = of_key.len();
            of_key.retain(|known| intent.is_some_and(|new| new.manager != known.intent.manager));
            self.len -= before - of_key.len();
            if of_key.is_empty() {
                of_kind.remove(key);
            }
        }
        if of_kind.is_empty() {
            self.of.remove(gvk);
        }
    }

    /// Forgets the applies to the objects of a kind in a namespace, or to all objects of the kind (`None`).
    pub(crate) fn forget_in(&mut self, gvk: &Gvk, namespace: Option<&str>) {
        let Some(of_kind) = self.of.get_mut(gvk) else {
            return;
        };
        let mut forgotten = 0;
        of_kind.retain(|key, of_key| {
            let stays = namespace.is_some() && key.namespace() != namespace;
            if !stays {
                forgotten += of_key.len();
            }
            stays
        });
        self.len -= forgotten;
        if of_kind.is_empty() {
            self.of.remove(gvk);
        }
    }

    /// Returns the number of remembered applies.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    fn sweep(&mut self, mut is_outdated: impl FnMut(&Gvk, &ObjectKey, &AppliedState) -> bool) {
        let mut left = 0;
        self.of.retain(|gvk, of_kind| {
            of_kind.retain(|key, of_key| {
                of_key.retain(|known| !is_outdated(gvk, key, &known.left));
                left += of_key.len();
                !of_key.is_empty()
            });
            of_kind.shrink_to(of_kind.len() * 2);
            !of_kind.is_empty()
        });
        self.len = left;
        self.sweep_at = left * 2;
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
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

    fn never(_: &Gvk, _: &ObjectKey, _: &AppliedState) -> bool {
        false
    }

    /// CLIENT-10
    #[test]
    fn an_intent_is_known_by_manager_options_and_document() {
        let (mut applied, keys) = (AppliedIntents::default(), IntentKeys::default());
        let document = json!({"data": {"k": "1"}});
        let intent = keys.intent("m", true, &document);
        applied.remember(&gvk(), &key("a"), intent, state("u", "7"), never);
        assert_eq!(
            applied.left_by(&gvk(), &key("a"), intent),
            Some(&state("u", "7"))
        );
        assert_eq!(applied.left_by(&gvk(), &key("b"), intent), None);
        assert_eq!(keys.intent("m", true, &document), intent);
        for other in [
            keys.intent("n", true, &document),
            keys.intent("m", false, &document),
            keys.intent("m", true, &json!({"data": {"k": "2"}})),
        ] {
            assert_eq!(applied.left_by(&gvk(), &key("a"), other), None);
        }
    }

    #[test]
    fn each_manager_has_its_last_apply_of_an_object() {
        let (mut applied, keys) = (AppliedIntents::default(), IntentKeys::default());
        let document = json!({});
        let [ours, next, theirs] = [("m", 1), ("m", 2), ("n", 1)]
            .map(|(manager, options)| keys.intent(manager, options, &document));
        applied.remember(&gvk(), &key("a"), ours, state("u", "1"), never);
        applied.remember(&gvk(), &key("a"), theirs, state("u", "2"), never);
        applied.remember(&gvk(), &key("a"), next, state("u", "3"), never);
        assert_eq!(applied.left_by(&gvk(), &key("a"), ours), None);
        assert_eq!(
            applied.left_by(&gvk(), &key("a"), theirs),
            Some(&state("u", "2"))
        );
        assert_eq!(
            applied.left_by(&gvk(), &key("a"), next),
            Some(&state("u", "3"))
        );
        assert_eq!(applied.len(), 2);
        applied.forget(&gvk(), &key("a"), Some(next));
        assert_eq!(applied.len(), 1);
        applied.forget(&gvk(), &key("a"), None);
        assert_eq!(applied.len(), 0);
        assert!(applied.of.is_empty());
    }

    #[test]
    fn the_applies_of_a_namespace_or_of_a_kind_are_forgotten_together() {
        let (mut applied, keys) = (AppliedIntents::default(), IntentKeys::default());
        let [first, second] = ["m", "n"].map(|manager| keys.intent(manager, (), &json!({})));
        let elsewhere = ObjectKey::namespaced("b", "x");
        let remember = |applied: &mut AppliedIntents| {
            for key in [&key("x"), &key("y"), &elsewhere] {
                for intent in [first, second] {
                    applied.remember(&gvk(), key, intent, state("u", "1"), never);
                }
            }
        };
        remember(&mut applied);
        applied.forget_in(&gvk(), Some("a"));
        assert_eq!(applied.len(), 2);
        assert!(applied.left_by(&gvk(), &elsewhere, first).is_some());
        remember(&mut applied);
        assert_eq!(applied.len(), 6);
        applied.forget_in(&gvk(), None);
        assert_eq!(applied.len(), 0);
        assert!(applied.of.is_empty());
        applied.forget_in(&gvk(), None);
    }

    #[test]
    fn an_answer_without_uid_or_version_is_not_remembered() {
        let mut applied = AppliedIntents::default();
        let intent = IntentKeys::default().intent("m", (), &json!({}));
        for left in [state("", "1"), state("u", ""), state("u", "0")] {
            applied.remember(&gvk(), &key("a"), intent, left, never);
            assert_eq!(applied.len(), 0);
        }
    }

    #[test]
    fn outdated_applies_are_forgotten_when_their_number_has_doubled() {
        let mut applied = AppliedIntents::default();
        let intent = IntentKeys::default().intent("m", (), &json!({}));
        let is_outdated = |_: &Gvk, _: &ObjectKey, left: &AppliedState| *left == state("u", "1");
        let mut most = 0;
        for number in 0..10_000 {
            // Every second object has changed since.
            let left = state("u", if number % 2 == 0 { "1" } else { "2" });
            let name = format!("object-{}", number % 3000);
            applied.remember(&gvk(), &key(&name), intent, left, is_outdated);
            most = most.max(applied.len());
        }
        assert!(most > SWEEP_AT_LEAST && most <= 3000, "{most}");
        applied.sweep(is_outdated);
        let entries = applied.of[&gvk()].values().flatten();
        assert!(entries.clone().all(|known| known.left == state("u", "2")));
        assert_eq!(applied.len(), entries.count());
    }
}
