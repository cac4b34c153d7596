//! Driver: applies objects (server-side apply), and recognises applies that would change nothing.

use std::mem::discriminant;
use std::sync::Arc;

use kube_core::DynamicObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use steersman_api::{ApplyDigest, Patch, WriteOptions};
use steersman_cache::Cache;
use steersman_cache::internal::CacheInternals as _;
use steersman_object::{Gvk, Kind, Object, ObjectKey, ResourceVersion, Uid};

use super::{SharedClient, without_status};
use crate::applied::{AppliedState, DeletedAfter, Intent, LastApply, Remembered};
use crate::ensure::Ensured;
use crate::error::Error;
use crate::patch::change::{ChangedPart, is_of_another};
use crate::patch::document::{ApplyTo, conflicts, document, in_namespace, part_document};

pub(crate) struct Apply {
    pub(crate) key: ObjectKey,
    pub(crate) to: ApplyTo,
    document: Value,
    /// The intent, to compare the apply with the last apply to the object; `None` for a dry run, which is always sent
    /// and never remembered.
    intent: Option<Intent>,
}

impl SharedClient {
    pub(crate) fn prepare_apply(
        &self,
        kind: &Kind,
        part: &(impl Serialize + Sync),
    ) -> Result<Apply, Error> {
        let (key, document) = document(kind, part)?;
        let key = self.options().key_in_namespace(kind, &key)?;
        let document = in_namespace(document, &key);
        let intent = match self.options().dry_run {
            true => None,
            false => Some(self.intent(kind, &document)),
        };
        Ok(Apply {
            key,
            to: ApplyTo::Any,
            document,
            intent,
        })
    }

    fn intent(&self, kind: &Kind, document: &Value) -> Intent {
        let validation = self.options().field_validation.as_ref();
        let options = (self.options().force, validation.map(discriminant));
        let manager = self.manager();
        let digest = ApplyDigest::of(&manager, kind.gvk(), document);
        self.inner.intent_key.intent(&manager, options, digest)
    }

    /// Compares an apply with the last apply of the same field manager to the object. Returns `None` if the apply has
    /// to be sent in any case: it is a dry run, or no running informer holds whole objects in the object's namespace.
    pub(crate) fn last_apply(&self, kind: &Kind, apply: &Apply) -> Option<LastApply> {
        let intent = apply.intent?;
        let untyped = self.cache().untyped_of(kind.gvk(), &apply.key)?;
        if untyped.is_metadata_only() {
            return None;
        }
        let applied = self.inner.applied.lock();
        Some(applied.last(kind.gvk(), &apply.key, intent))
    }

    /// CLIENT-12: returns whether an apply to this version of the object would change nothing: the field manager owns
    /// exactly the fields of the document, and these fields have the values of the document.
    pub(crate) fn is_applied(&self, kind: &Kind, apply: &Apply, version: &ResourceVersion) -> bool {
        let untyped = self.cache().untyped_of(kind.gvk(), &apply.key);
        let known = untyped.zip(apply.intent);
        known.is_some_and(|(untyped, intent)| {
            untyped.is_applied(&apply.key, version, &intent.digest)
        })
    }

    pub(crate) fn apply_skipped(&self, kind: &Kind) {
        if let Some(metrics) = &self.options().metrics {
            metrics.skipped(kind);
        }
    }

    pub(crate) fn forget_applied(&self, kind: &Kind, key: &ObjectKey) {
        let mut applied = self.inner.applied.lock();
        applied.deleted(kind.gvk(), key, |gvk, known| {
            is_outdated(self.cache(), gvk, known)
        });
    }

    /// Forgets the applies to all objects of a kind in a namespace, or in all namespaces (`None`), because a delete of
    /// a collection may delete any of them.
    pub(crate) fn forget_applied_in(&self, kind: &Kind, namespace: Option<&str>) {
        let namespace = namespace.filter(|_| kind.is_namespaced());
        let mut applied = self.inner.applied.lock();
        applied.deleted_in(kind.gvk(), namespace, |gvk, known| {
            is_outdated(self.cache(), gvk, known)
        });
    }

    /// Sends an apply, and remembers the version of the object in the answer, so that an equal apply need not be sent
    /// later (CLIENT-10).
    pub(crate) async fn apply<K: Object>(
        &self,
        kind: &Kind,
        apply: Apply,
    ) -> Result<Ensured<K>, Error> {
        let Apply {
            key,
            to,
            document,
            intent,
        } = apply;
        let api = self.api::<K>(kind).await?;
        let document = to.demanded_in(document);
        let request = api.patch_request(&key, &Patch::Apply(document), &self.applying())?;
        if let Some(intent) = intent {
            let mut applied = self.inner.applied.lock();
            applied.begin(kind.gvk(), &key, intent, |gvk, known| {
                is_outdated(self.cache(), gvk, known)
            });
        }
        let answer = self.sender.answer(kind, request, None).await;
        let answer = answer.map_err(|refused| {
            let refused = self.conflict(kind, key.clone(), refused);
            not_as_found(refused, kind, &key, &to)
        })?;
        if let Some(intent) = intent {
            let left = AppliedState {
                uid: Uid::new(answer.value.uid_str()),
                version: answer.value.stored_version(),
            };
            let mut applied = self.inner.applied.lock();
            applied.answered(kind.gvk(), &key, intent, left);
        }
        let object = Arc::new(answer.value);
        Ok(match answer.created {
            true => Ensured::Created(object),
            false => Ensured::Updated(object),
        })
    }

    pub(crate) async fn apply_part<T: DeserializeOwned + Send + 'static>(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        subresource: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        let key = self.options().key_in_namespace(kind, key)?;
        let patch = Patch::Apply(part_document(kind, &key, body)?);
        let api = self.api::<DynamicObject>(kind).await?;
        let request = api.patch_part_request(&key, subresource, &patch, &self.applying())?;
        let answer = self.sender.write(kind, request).await;
        let part = match subresource {
            "status" => ChangedPart::Status,
            _ => ChangedPart::Object,
        };
        answer.map_err(|refused| {
            let refused = self.conflict(kind, key.clone(), refused);
            without_status(refused, kind, key, part)
        })
    }

    fn applying(&self) -> WriteOptions {
        let options = self.options().write().field_manager(self.manager());
        options.force(self.options().force)
    }

    fn conflict(&self, kind: &Kind, key: ObjectKey, refused: steersman_api::Error) -> Error {
        let conflicts = conflicts(&refused);
        if conflicts.is_empty() {
            return Error::Api(refused);
        }
        Error::ApplyConflict {
            kind: kind.clone(),
            key,
            manager: self.manager(),
            conflicts,
            source: Box::new(refused),
        }
    }
}

/// CLIENT-11: turns the server's refusal of an apply that was limited to an object with one uid, or to a new object,
/// into [`Error::NotAsFound`]. Returns other errors unchanged.
fn not_as_found(refused: Error, kind: &Kind, key: &ObjectKey, to: &ApplyTo) -> Error {
    match refused {
        Error::Api(source)
            if *to != ApplyTo::Any && (source.is_conflict() || is_of_another(&source)) =>
        {
            Error::NotAsFound {
                kind: kind.clone(),
                key: key.clone(),
                source: Box::new(source),
            }
        }
        refused => refused,
    }
}

/// CLIENT-13: returns whether a remembered apply or delete need not be kept, because the cache shows that the object is
/// gone or replaced, or no informer covers the object.
fn is_outdated(cache: &Cache, gvk: &Gvk, known: Remembered<'_>) -> bool {
    let has_seen = |applied: &ResourceVersion, after: &DeletedAfter| {
        after.as_ref().is_none_or(|at| applied.is_at_least(at))
    };
    match known {
        Remembered::Applied(key, left) => cache.untyped_of(gvk, key).is_none_or(|untyped| {
            let state = untyped.key_state(key);
            match (&state.stored, left) {
                (stored, None) => stored.is_none(),
                // If the object of this uid has another version now, the apply is still useful: the digest of the
                // object's fields may still equal the digest of the next apply.
                (Some(stored), Some(left)) => Uid::new(&stored.uid) != left.uid,
                // The answer to an apply may arrive before the event, so the informer may still receive the object
                // until it has reached the version in the answer.
                (None, Some(left)) => state.applied.is_at_least(&left.version),
            }
        }),
        Remembered::Deleted(key, after) => cache.untyped_of(gvk, key).is_none_or(|untyped| {
            let state = untyped.key_state(key);
            state.stored.is_none() && has_seen(&state.applied, after)
        }),
        Remembered::DeletedIn(namespace, after) => {
            let anywhere = ObjectKey::namespaced(namespace.unwrap_or_default(), "");
            cache.untyped_of(gvk, &anywhere).is_none_or(|untyped| {
                // The version is checked first: an object that the informer stores between the two checks is then newer
                // than `after`.
                has_seen(&untyped.key_state(&anywhere).applied, after)
                    && untyped.is_empty_in(namespace)
            })
        }
    }
}
