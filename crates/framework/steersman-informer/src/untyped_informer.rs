//! Handle: an informer without a type: declare it, run it, view it as any type.

use std::sync::Arc;
use std::time::Instant;

use steersman_api::{ApplyDigest, Decoded, ListWatch, Malformed, Projection, RawObject};
use steersman_object::{Kind, ListOptions, Object, ObjectKey, ResourceVersion, SlotSet};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::key_state::{Identity, KeyState};
use crate::metrics::gauges::InformerUsage;
use crate::options::InformerOptions;
use crate::pipeline::{self, Core};
use crate::state::InformerState;
use crate::store::{select, unreadable};
use crate::uncached::{UncachedList, UncachedObject};

/// An informer of a kind, without a type. Cheap to clone.
///
/// A kind has one such informer per scope: typed, dynamic and metadata-only readers are [views](Self::view) of it.
#[derive(Clone, derive_more::Debug)]
#[debug("UntypedInformer {{ kind: {:?}, state: {:?}, .. }}", self.kind(), self.state())]
#[must_use]
pub struct UntypedInformer {
    core: Arc<Core>,
}

impl UntypedInformer {
    /// Declares an informer of a kind. It asks for metadata until a view needs whole objects.
    pub fn new(kind: Kind, options: InformerOptions) -> Self {
        Self {
            core: Arc::new(Core::new(kind, options)),
        }
    }

    /// Returns the kind of the objects.
    pub fn kind(&self) -> &Kind {
        &self.core.kind
    }

    /// Lists and watches the server until `cancel` fires. A second run of an informer ends at once and logs an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the informer as `cancel` does.
    pub fn run<L: ListWatch>(
        &self,
        list_watch: L,
        cancel: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<L> {
        pipeline::run(Arc::clone(&self.core), list_watch, cancel)
    }

    /// Ends the informer for good, running or not: its subscriptions end at once and lose their waiting deliveries, and
    /// it cannot be run any more. After the return no change reaches the store or a subscriber (FAN-4). The future of a
    /// run goes on until it is cancelled or dropped.
    ///
    /// Blocks the thread while a change is being applied.
    pub fn end(&self) {
        self.core.end();
    }

    /// Stops an informer that was never run, so that no caller waits for it. Does nothing to an informer that was run.
    pub fn end_unstarted(&self) {
        self.core.end_unstarted();
    }

    /// Returns the state of the informer: `Synced` only if the store holds as much of each object as its readers need.
    pub fn state(&self) -> InformerState {
        self.core.state(self.core.wanted())
    }

    /// Returns a receiver of the state for whole objects or, until a view needs whole objects, for metadata.
    pub fn state_changes(&self) -> watch::Receiver<InformerState> {
        self.core.state_changes(self.core.wanted())
    }

    /// Returns whether the store was ever complete with the parts of the objects that its readers need.
    pub fn has_synced(&self) -> bool {
        self.core.has_synced(self.core.wanted())
    }

    /// Returns the number of subscriptions to this informer, of any Rust type.
    pub fn subscribers(&self) -> usize {
        self.core.subscribers()
    }

    /// Returns what the informer holds and has received; `None` without
    /// [metrics](crate::InformerOptions::metrics).
    pub fn usage(&self) -> Option<InformerUsage> {
        self.core.usage()
    }

    /// Returns a receiver of a number that changes after each applied event, bookmark or list, and with the state. A
    /// task that waits for a version checks again at each change.
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.core.applied.subscribe()
    }

    /// Returns the progress of the informer, and the object that it stores under a key.
    pub fn key_state(&self, key: &ObjectKey) -> KeyState {
        let indexer = self.core.shared.indexer.read();
        let stored = indexer.get(key).map(|entry| {
            let (uid, version) = (entry.uid().to_string(), entry.version().clone());
            Identity::new(uid, version, entry.is_deleting())
        });
        KeyState::new(indexer.version().clone(), stored)
    }

    /// Returns a receiver of the slots of which the store has all objects: the slots of the last complete list that are
    /// wanted ever since. Without a [`ShardFilter`](crate::ShardFilter) these are no slots before the first sync, and then
    /// all slots.
    pub fn loaded(&self) -> watch::Receiver<SlotSet> {
        self.core.loaded()
    }

    /// Waits until the store has all objects of these slots.
    ///
    /// # Errors
    ///
    /// If the informer stops before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn wait_for_slots(&self, slots: &SlotSet) -> Result<(), Error> {
        self.core.wait_for_slots(slots).await
    }

    /// Returns whether the store has an object under a key, or lacks it although it has all objects of its slot: `None`
    /// if the store does not have all objects of the slot, so that the object may exist.
    pub fn knows(&self, key: &ObjectKey) -> Option<bool> {
        self.core.knows(key)
    }

    /// Returns whether the store holds no object of a namespace, or of any namespace (`None`).
    pub fn is_empty_in(&self, namespace: Option<&str>) -> bool {
        let indexer = self.core.shared.indexer.read();
        indexer.entries(namespace).next().is_none()
    }

    /// Returns whether the store holds this version of an object, and an apply with this digest would change nothing in
    /// it (CLIENT-12). Returns true only for applies by the field managers that were passed to
    /// [`ApiListWatch::recognise_applies`](steersman_api::ApiListWatch::recognise_applies).
    pub fn is_applied(
        &self,
        key: &ObjectKey,
        version: &ResourceVersion,
        apply: &ApplyDigest,
    ) -> bool {
        let indexer = self.core.shared.indexer.read();
        let stored = indexer.get(key);
        stored.is_some_and(|entry| entry.version() == version && entry.is_applied(apply))
    }

    /// Makes the informer request as much of each object as `K` needs, without a view. Once it [has
    /// synced](Self::has_synced), [`list_uncached`](Self::list_uncached) can read the objects as `K`.
    pub fn need<K: Object>(&self) {
        self.core.want(Projection::of::<K>());
    }

    /// Returns the objects that a query selects, at one version, each to be read once. Unlike a [view](Self::view), it
    /// decodes nothing when objects arrive, and caches nothing (VIEW-5).
    ///
    /// # Errors
    ///
    /// If the query names an index, because indexes belong to views.
    pub fn list_uncached<K: Object>(&self, query: &ListOptions) -> Result<UncachedList<K>, Error> {
        let kind = &self.core.kind;
        Error::refuse_fields(kind, query)?;
        let indexer = self.core.shared.indexer.read();
        let mut objects = Vec::new();
        let selected = select(&indexer, None, query, |entry| {
            objects.push(UncachedObject::new(entry))
        });
        selected.map_err(|name| Error::NoSuchIndex {
            kind: kind.to_string(),
            name: name.to_owned(),
            known: "only views have indexes".to_owned(),
        })?;
        Ok(UncachedList {
            objects,
            version: indexer.version().clone(),
            unreadable: unreadable(&indexer, None, query.selected_namespace()),
        })
    }

    /// Decodes an object from elsewhere, such as a live read, with the informer's transform. The object is not stored.
    ///
    /// # Errors
    ///
    /// Returns the object's identity and the decode error if it does not decode as a `K`.
    pub fn decode_foreign<K: Object>(
        &self,
        arrived: Decoded<RawObject>,
    ) -> Result<Arc<K>, Malformed> {
        let entries = &self.core.entries;
        let object = match arrived {
            Decoded::Good(object) => entries.transformed(object)?,
            Decoded::Malformed(malformed) => return Err(*malformed),
        };
        let entry = entries.entry_of(object, Projection::EveryField, None);
        UncachedObject::new(&entry).read()
    }

    /// Lists everything again, although the watch works. The returned future ends when a list that began after this
    /// call is complete, or when the informer stops. A failed list is repeated.
    ///
    /// Call this method after a change of the kind's definition: the JSON of the objects changes without new versions,
    /// and a server ends the watches of such a kind, but only after a while.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel the requested list.
    pub fn relist(&self) -> impl Future<Output = ()> + Send + use<> {
        self.core.relist()
    }

    /// Returns whether the informer was started and has not stopped.
    pub fn is_running(&self) -> bool {
        !matches!(
            self.state(),
            InformerState::Declared | InformerState::Stopped
        )
    }

    /// Returns the instant by which the reflector will have received data, sent a request, or ended a pause; `None`
    /// unless the informer runs. An instant in the past means that the reflector is stuck (HEALTH-3).
    pub fn activity_due(&self) -> Option<Instant> {
        self.core.activity_due()
    }

    /// Returns whether the informer asks for metadata only.
    pub fn is_metadata_only(&self) -> bool {
        self.core.wanted() == Projection::Metadata
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}
