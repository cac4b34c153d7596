//! Machine: remembers the last applies and deletes of a client, and the object version that each apply left.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};

use steersman_api::ApplyDigest;
use steersman_object::{Gvk, ObjectKey, ResourceVersion, Uid};

/// The number of remembered applies and deletes from which on outdated entries are dropped (CLIENT-13).
const SWEEP_AT_LEAST: usize = 1024;

/// Identifies the content of a server-side apply: hashes of its field manager and options, and a digest of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    manager: u64,
    options: u64,
    /// The digest of the applied fields and values. If the cached object has the same digest, the apply would change
    /// nothing (CLIENT-12).
    pub(crate) digest: ApplyDigest,
}

/// The uid and the version of an object right after an apply: while it has them, an equal apply changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedState {
    pub(crate) uid: Uid,
    pub(crate) version: ResourceVersion,
}

/// The result of the comparison of a new apply with the last apply of the same field manager to the same object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastApply {
    /// No apply of this field manager and no delete of the object is remembered.
    Unsent,
    /// The last apply had the same options and fields, and left the object in this state.
    Equal(AppliedState),
    /// The last apply was another one or has no answer yet, or the object was deleted since: the apply must be sent.
    Other,
}

/// The last apply of one field manager to one object: its intent, and the state in which it left the object.
#[derive(Debug)]
struct AppliedIntent {
    intent: Intent,
    /// The state of the object after the apply; `None` until the server has answered.
    left: Option<AppliedState>,
}

#[derive(Debug, Default)]
struct ObjectRequests {
    last: Vec<AppliedIntent>,
    /// `Some` if a delete of the object was sent after its last apply, so that the next apply is no repetition.
    deleted: Option<DeletedAfter>,
}

/// The newest version that applies before a delete are known to have left; `None` if no version is known. Until the
/// cache has passed this version, it may still receive the deleted object, so the delete stays remembered (CLIENT-13).
pub(crate) type DeletedAfter = Option<ResourceVersion>;

/// A remembered apply or delete, as the callback gets it that decides from the cache whether the entry is outdated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remembered<'a> {
    /// An apply to the object with this key, and the state that it left; `None` if the outcome is unknown.
    Applied(&'a ObjectKey, Option<&'a AppliedState>),
    /// A delete of the object with this key, and the newest version that an apply is known to have left before it.
    Deleted(&'a ObjectKey, &'a DeletedAfter),
    /// A delete of a collection in this namespace, or in all namespaces (`None`), and the newest version that an apply
    /// is known to have left before the delete.
    DeletedIn(Option<&'a str>, &'a DeletedAfter),
}

/// The last apply of each field manager to each object, shared by a client and all its copies.
///
/// A remembered apply is useful only while the cache shows its object, and a delete of a collection in a namespace only
/// while the cache shows an object of the namespace. Other entries are dropped whenever the number of entries has
/// doubled. So the number of entries stays below [`SWEEP_AT_LEAST`], or below twice the number of useful entries
/// (CLIENT-13).
#[derive(Debug, Default)]
pub(crate) struct AppliedIntents {
    of: HashMap<Gvk, HashMap<ObjectKey, ObjectRequests>>,
    /// The namespaces in which a delete of a collection may have deleted any object; `None` stands for all namespaces.
    emptied: HashMap<Gvk, HashMap<Option<String>, DeletedAfter>>,
    len: usize,
    sweep_at: usize,
}

/// Makes the [`Intent`] of an apply: hashes its field manager and options, with hash keys that differ for each client.
#[derive(Debug, Default)]
pub(crate) struct IntentKey(RandomState);

impl IntentKey {
    /// Returns the intent of an apply, which is equal for equal applies. `options` are the options that change the
    /// effect of the document on the server, such as `force`.
    pub(crate) fn intent(&self, manager: &str, options: impl Hash, digest: ApplyDigest) -> Intent {
        Intent {
            manager: self.0.hash_one(manager),
            options: self.0.hash_one(options),
            digest,
        }
    }
}

impl AppliedIntents {
    /// Compares `intent` with the last apply of the same field manager to the object.
    pub(crate) fn last(&self, gvk: &Gvk, key: &ObjectKey, intent: Intent) -> LastApply {
        let requests = self.of.get(gvk).and_then(|of_kind| of_kind.get(key));
        let last = requests.and_then(|requests| requests.of(intent.manager));
        match last {
            Some(AppliedIntent {
                intent: sent,
                left: Some(left),
            }) if *sent == intent => LastApply::Equal(left.clone()),
            Some(_) => LastApply::Other,
            None if requests.is_some_and(|requests| requests.deleted.is_some()) => LastApply::Other,
            None if self.is_emptied(gvk, key) => LastApply::Other,
            None => LastApply::Unsent,
        }
    }

    /// Records that an apply is about to be sent: until the server answers, the state of the object is unknown. If the
    /// number of entries has doubled since the last sweep, drops the entries for which `is_outdated` returns true.
    pub(crate) fn begin(
        &mut self,
        gvk: &Gvk,
        key: &ObjectKey,
        intent: Intent,
        is_outdated: impl FnMut(&Gvk, Remembered<'_>) -> bool,
    ) {
        self.make_room(is_outdated);
        let requests = self.requests(gvk, key);
        let before = requests.len();
        let last = &mut requests.last;
        last.retain(|known| known.intent.manager != intent.manager);
        last.push(AppliedIntent { intent, left: None });
        let after = requests.len();
        self.len = self.len + after - before;
    }

    /// Records the server's answer to an apply that [`begin`](Self::begin) recorded: the state in which it left the
    /// object. CLIENT-10: while the object has this version, the same apply would change nothing.
    pub(crate) fn answered(
        &mut self,
        gvk: &Gvk,
        key: &ObjectKey,
        intent: Intent,
        left: AppliedState,
    ) {
        // Without a uid and a version that can be compared, the answer could not be compared with the cache.
        if left.uid.is_empty() || !left.version.is_exact() {
            return;
        }
        let of_kind = self.of.get_mut(gvk);
        let mut requests = of_kind.and_then(|of_kind| of_kind.get_mut(key));
        let mut last = requests.iter_mut().flat_map(|requests| &mut requests.last);
        if let Some(known) = last.find(|known| known.intent == intent) {
            known.left = Some(left);
            let deleted = requests.and_then(|requests| requests.deleted.take());
            self.len -= usize::from(deleted.is_some());
            return;
        }
        // A delete that was sent after the apply has removed the record of the apply. The cache may still show the
        // version that the apply left, so the delete stays remembered until the cache has passed this version.
        let deleted = requests.and_then(|requests| requests.deleted.as_mut());
        let emptied = self.emptied.get_mut(gvk).into_iter().flatten();
        let emptied = emptied.filter(|(namespace, _)| covers(namespace.as_deref(), key));
        let emptied = emptied.map(|(_, after)| after);
        for after in deleted.into_iter().chain(emptied) {
            raise(after, Some(&left.version));
        }
    }

    /// Records that a delete of an object is about to be sent or was answered, so that no later apply counts as a
    /// repetition. Drops outdated entries if the number of entries has doubled since the last sweep.
    pub(crate) fn deleted(
        &mut self,
        gvk: &Gvk,
        key: &ObjectKey,
        is_outdated: impl FnMut(&Gvk, Remembered<'_>) -> bool,
    ) {
        self.make_room(is_outdated);
        let requests = self.requests(gvk, key);
        let before = requests.len();
        let mut after = requests.deleted.take().flatten();
        for known in requests.last.drain(..) {
            raise(&mut after, known.left.as_ref().map(|left| &left.version));
        }
        requests.deleted = Some(after);
        self.len = self.len + 1 - before;
    }

    /// Records that a delete of a collection in a namespace, or in all namespaces (`None`), may have deleted any
    /// object, so that no later apply to these objects counts as a repetition. Drops the entries for which
    /// `is_outdated` returns true if the number of entries has doubled since the last sweep.
    pub(crate) fn deleted_in(
        &mut self,
        gvk: &Gvk,
        namespace: Option<&str>,
        is_outdated: impl FnMut(&Gvk, Remembered<'_>) -> bool,
    ) {
        self.make_room(is_outdated);
        let emptied = self.emptied.entry(gvk.clone()).or_default();
        let before = emptied.len();
        let after = emptied.entry(namespace.map(str::to_owned)).or_default();
        let mut dropped = 0;
        if let Some(of_kind) = self.of.get_mut(gvk) {
            of_kind.retain(|key, requests| {
                let is_deleted = covers(namespace, key);
                if is_deleted {
                    dropped += requests.len();
                    requests.raise_to(after);
                }
                !is_deleted
            });
            if of_kind.is_empty() {
                self.of.remove(gvk);
            }
        }
        let after = emptied.len();
        self.len = self.len + after - before - dropped;
    }

    fn requests(&mut self, gvk: &Gvk, key: &ObjectKey) -> &mut ObjectRequests {
        let of_kind = self.of.entry(gvk.clone()).or_default();
        of_kind.entry(key.clone()).or_default()
    }

    fn is_emptied(&self, gvk: &Gvk, key: &ObjectKey) -> bool {
        let emptied = self.emptied.get(gvk);
        emptied.is_some_and(|emptied| {
            emptied.contains_key(&None) || emptied.contains_key(&key.namespace().map(str::to_owned))
        })
    }

    fn make_room(&mut self, mut is_outdated: impl FnMut(&Gvk, Remembered<'_>) -> bool) {
        if self.len < self.sweep_at.max(SWEEP_AT_LEAST) {
            return;
        }
        let mut left = 0;
        self.of.retain(|gvk, of_kind| {
            of_kind.retain(|key, requests| {
                requests.last.retain(|known| {
                    !is_outdated(gvk, Remembered::Applied(key, known.left.as_ref()))
                });
                requests
                    .deleted
                    .take_if(|after| is_outdated(gvk, Remembered::Deleted(key, after)));
                left += requests.len();
                requests.len() > 0
            });
            of_kind.shrink_to(of_kind.len() * 2);
            !of_kind.is_empty()
        });
        self.emptied.retain(|gvk, emptied| {
            emptied.retain(|namespace, after| {
                !is_outdated(gvk, Remembered::DeletedIn(namespace.as_deref(), after))
            });
            emptied.shrink_to(emptied.len() * 2);
            left += emptied.len();
            !emptied.is_empty()
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
        self.last.len() + usize::from(self.deleted.is_some())
    }

    /// Raises `after`, the version that the cache must pass before a delete is forgotten, to the newest version that an
    /// apply to this object is known to have left.
    fn raise_to(&self, after: &mut DeletedAfter) {
        raise(after, self.deleted.iter().flatten().next());
        for known in &self.last {
            raise(after, known.left.as_ref().map(|left| &left.version));
        }
    }
}

/// Returns whether a namespace, or all namespaces (`None`), contains the object of a key.
fn covers(namespace: Option<&str>, key: &ObjectKey) -> bool {
    namespace.is_none() || key.namespace() == namespace
}

fn raise(after: &mut DeletedAfter, version: Option<&ResourceVersion>) {
    let is_newer = |new: &&ResourceVersion| after.as_ref().is_none_or(|old| new.is_at_least(old));
    if let Some(version) = version.filter(is_newer) {
        *after = Some(version.clone());
    }
}

#[cfg(test)]
mod tests;
