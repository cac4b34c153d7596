//! Driver: changes an object by difference: reads it, changes a copy, sends the difference, and reads it again after a
//! conflict.

use std::sync::Arc;

use steersman_api::Api;
use steersman_object::{Kind, Object, ObjectKey};
use tracing::debug;

use crate::error::Error;
use crate::options::ClientOptions;
use crate::patch::change::{
    ChangedPart, PatchMode, change, is_another, is_of_another, is_tried_again,
};
use crate::patch::status_field::has_status;
use crate::send::RequestSender;

/// The outcome of a write that is sent only if it changes something, with the object. The object is in an `Arc`,
/// because cached reads return it so.
#[derive(Clone, Debug, PartialEq)]
pub enum Ensured<K> {
    /// The object was absent and was created. The object is as the server returned it.
    Created(Arc<K>),
    /// The object existed, and the write was sent. The object is as the server returned it.
    Updated(Arc<K>),
    /// The write would change nothing, so nothing was sent. The object is as it was read; the server may have a newer
    /// version.
    Unchanged(Arc<K>),
}

impl<K> Ensured<K> {
    /// Returns a reference to the object, for example to pass it to a further write.
    pub fn object(&self) -> &K {
        match self {
            Self::Created(object) | Self::Updated(object) | Self::Unchanged(object) => object,
        }
    }

    /// Returns the object in an `Arc`, as cached reads do. [`Arc::unwrap_or_clone`] turns it into an owned object, and
    /// copies the object only if the cache holds it too.
    #[must_use]
    pub fn into_object(self) -> Arc<K> {
        match self {
            Self::Created(object) | Self::Updated(object) | Self::Unchanged(object) => object,
        }
    }

    /// Returns whether a request was sent.
    pub fn is_changed(&self) -> bool {
        !matches!(self, Self::Unchanged(_))
    }
}

/// The outcome of [`EnsureRequest::with_status`](crate::EnsureRequest::with_status): the outcome for the object without
/// its status, and the outcome for the status.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EnsuredWithStatus<K> {
    /// The outcome for the object without its status. It holds the object as the server returned it last, with its
    /// status.
    pub ensured: Ensured<K>,
    /// Whether a write of the status was sent.
    pub is_status_changed: bool,
}

impl<K> EnsuredWithStatus<K> {
    /// Returns a reference to the object, for example to pass it to a further write.
    pub fn object(&self) -> &K {
        self.ensured.object()
    }

    /// Returns the object in an `Arc`, as cached reads do.
    #[must_use]
    pub fn into_object(self) -> Arc<K> {
        self.ensured.into_object()
    }

    /// Returns whether a request was sent, for the object or for its status.
    pub fn is_changed(&self) -> bool {
        self.ensured.is_changed() || self.is_status_changed
    }

    pub(crate) fn new(ensured: Ensured<K>, status: Option<Ensured<K>>) -> Self {
        let status = status.filter(Ensured::is_changed);
        let is_status_changed = status.is_some();
        let newest = status.map(Ensured::into_object);
        let ensured = match (ensured, newest) {
            (Ensured::Created(_), Some(newest)) => Ensured::Created(newest),
            (Ensured::Updated(_), Some(newest)) => Ensured::Updated(newest),
            (Ensured::Unchanged(_), Some(newest)) => Ensured::Unchanged(newest),
            (ensured, None) => ensured,
        };
        Self {
            ensured,
            is_status_changed,
        }
    }
}

/// The parts that a change by difference needs for its requests: the request methods of the kind, the sender of the
/// client, and the way in which patches are made.
pub(crate) struct EnsurePlan<'a, K> {
    pub(crate) api: &'a Api<K>,
    pub(crate) sender: &'a RequestSender,
    pub(crate) kind: &'a Kind,
    pub(crate) mode: PatchMode,
}

impl<K: Object> EnsurePlan<'_, K> {
    /// Changes `present`, the existing object as the caller read it, or creates `initial` with `mutate` applied if
    /// `present` is `None`. After each conflict, starts again from a live read.
    pub(crate) async fn ensure(
        &self,
        initial: &K,
        mut present: Option<Arc<K>>,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error> {
        let key = initial.key();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let sent = match &present {
                None => self.create(initial, mutate).await?,
                Some(before) => match self.send(before, mutate).await? {
                    // The object that the caller read is returned, and not its unchanged copy, so that the memory of
                    // the object is shared with the cache.
                    Ok(Ensured::Unchanged(_)) => Ok(Ensured::Unchanged(Arc::clone(before))),
                    sent => sent,
                },
            };
            let refused = match sent {
                Ok(ensured) => return Ok(ensured),
                Err(refused) => refused,
            };
            let vanished = present.is_some() && refused.is_not_found();
            if !vanished || attempt >= self.options().attempts {
                self.try_again(&key, attempt, refused)?;
            }
            present = self.read(&key).await?.map(Arc::new);
        }
    }

    /// Changes an existing object. The first attempt starts from `before`; after a conflict, each further attempt
    /// starts from a live read.
    pub(crate) async fn modify(
        &self,
        before: &K,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error> {
        let key = before.key();
        let mut fresh: Option<K> = None;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let base = fresh.as_ref().unwrap_or(before);
            let refused = match self.send(base, mutate).await? {
                Ok(ensured) => return Ok(ensured),
                Err(refused) => refused,
            };
            if is_of_another(&refused) {
                return Err(self.replaced(key));
            }
            self.try_again(&key, attempt, refused)?;
            let read = self
                .sender
                .read(self.kind, Some(&key), || self.api.get(&key))
                .await?;
            if is_another(before, &read) {
                return Err(self.replaced(key));
            }
            fresh = Some(read);
        }
    }

    /// Changes an existing object in a single attempt: the caller has a changed object and no closure, so after a
    /// conflict the change cannot be computed again.
    pub(crate) async fn once(
        &self,
        before: &K,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error> {
        match self.send(before, mutate).await? {
            Ok(ensured) => Ok(ensured),
            Err(refused) if is_of_another(&refused) => Err(self.replaced(before.key())),
            Err(refused) => Err(Error::Api(refused)),
        }
    }

    async fn create(
        &self,
        initial: &K,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Result<Ensured<K>, steersman_api::Error>, Error> {
        // The closure also runs on the new object, so that a caller needs one closure for both the create and the
        // change.
        let empty = change(self.kind, initial, self.mode, mutate)?.0;
        let request = self.api.create_request(&empty, &self.options().write())?;
        let created = self.sender.write(self.kind, request).await;
        Ok(created.map(|created| Ensured::Created(Arc::new(created))))
    }

    async fn send(
        &self,
        before: &K,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Result<Ensured<K>, steersman_api::Error>, Error> {
        let (after, patch) = change(self.kind, before, self.mode, mutate)?;
        let Some(patch) = patch else {
            self.check_status(&after)?;
            return Ok(Ok(Ensured::Unchanged(Arc::new(after))));
        };
        let (key, options) = (before.key(), self.options().write());
        let request = match self.mode.part {
            ChangedPart::Object | ChangedPart::WithoutStatus => {
                self.api.patch_request(&key, &patch, &options)?
            }
            ChangedPart::Status => self
                .api
                .patch_part_request(&key, "status", &patch, &options)?,
        };
        let answer = self.sender.write(self.kind, request).await;
        Ok(answer.map(|updated| Ensured::Updated(Arc::new(updated))))
    }

    /// CLIENT-8: called if the difference of a status is empty. Returns an error if the reason is that the Rust type of
    /// the object has no status.
    fn check_status(&self, object: &K) -> Result<(), Error> {
        if self.mode.part == ChangedPart::Status && !has_status(self.kind, object)? {
            return Err(Error::NoStatus {
                kind: self.kind.clone(),
                key: object.key(),
                source: None,
            });
        }
        Ok(())
    }

    async fn read(&self, key: &ObjectKey) -> Result<Option<K>, steersman_api::Error> {
        self.sender
            .read(self.kind, Some(key), || self.api.get_opt(key))
            .await
    }

    fn options(&self) -> &ClientOptions {
        &self.sender.options
    }

    fn replaced(&self, key: ObjectKey) -> Error {
        let kind = self.kind.clone();
        Error::Replaced { kind, key }
    }

    /// Returns `Ok` if the refused change can be tried again: the caller then reads the object live and computes the
    /// change again. Otherwise returns the error for the user. The number of attempts is bounded (CLIENT-2).
    fn try_again(
        &self,
        key: &ObjectKey,
        attempt: u32,
        refused: steersman_api::Error,
    ) -> Result<(), Error> {
        if is_tried_again(&refused, attempt, self.options().attempts) {
            debug!(kind = %self.kind, %key, attempt, "the object has changed: reading it live");
            return Ok(());
        }
        if !refused.is_conflict() && !is_of_another(&refused) {
            return Err(Error::Api(refused));
        }
        Err(Error::KeptChanging {
            kind: self.kind.clone(),
            key: key.clone(),
            attempts: attempt,
            source: Box::new(refused),
        })
    }
}
