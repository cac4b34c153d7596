//! Machine: the objects of one kind, with the views and indexes that change together with them.

mod relist;

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_api::{Decoded, Malformed, Projection};
use steersman_object::{ObjectKey, ResourceVersion, SlotSet};

use crate::delta::{DeltaItem, key_of};
use crate::entry::RawEntry;
use crate::event::{Event, Origin};
use crate::store::index::Index;
use crate::store::table::{EntryTable, Ordered};
use crate::store::transition::Transition;
use crate::store::view::{
    ChangeCounts, IndexFailure, View, ViewDecoder, ViewEffects, ViewHandle, ViewId,
};
use crate::view_results::{DecodeReport, ViewResults, ViewsVersion};

/// A change of the store, with the results of decoding the object for each view.
#[derive(Debug)]
pub(crate) enum StoreChange {
    Put(DeltaItem, ViewResults),
    Removed(DeltaItem, ViewResults),
    Advance(ResourceVersion),
    /// The slot of the object was lost (SHARD-4).
    Released(ObjectKey),
}

#[derive(Debug)]
pub(crate) struct Relist {
    pub(crate) objects: usize,
    pub(crate) version: ResourceVersion,
    pub(crate) origin: Origin,
    /// How much of each object the list asked for.
    pub(crate) projection: Projection,
    /// The slots of which the list has all objects.
    pub(crate) loaded: SlotSet,
}

#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) counts: ChangeCounts,
    /// The objects that no Rust type can decode since this change.
    pub(crate) malformed: Vec<Malformed>,
    pub(crate) views: Vec<ViewEffects>,
}

/// A snapshot of the views of a store, for decoding objects before any lock is taken.
#[derive(Default)]
pub(crate) struct ViewSnapshot {
    version: ViewsVersion,
    each: Vec<ViewDecoder>,
}

/// The objects of one kind, and their views (STORE-1).
#[derive(Default)]
pub(crate) struct Indexer {
    by_key: EntryTable<RawEntry>,
    ordered: Ordered,
    views: Vec<View>,
    /// Decodes objects for `views`. Rebuilt when a view or an index is added, removed or made ready.
    decoders: Arc<ViewSnapshot>,
    malformed: BTreeMap<ObjectKey, Malformed>,
    /// The number of objects that at least one type cannot decode.
    unreadable: usize,
    /// The size of the JSON of all entries when they were inserted, in bytes.
    bytes: usize,
    version: AppliedVersion,
    /// The slots of which the store has all objects; all slots after the first list of an informer without a filter.
    loaded: SlotSet,
}

/// The resource version up to which all events, bookmarks and lists were applied.
#[derive(Clone, Debug)]
struct AppliedVersion(ResourceVersion);

impl Default for AppliedVersion {
    fn default() -> Self {
        Self(ResourceVersion::unset())
    }
}

impl Indexer {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&RawEntry> {
        self.by_key.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn entries(&self, namespace: Option<&str>) -> impl Iterator<Item = &RawEntry> {
        self.ordered.within(namespace)
    }

    pub(crate) fn view(&self, id: ViewId) -> Option<&View> {
        self.views.iter().find(|view| view.id == id)
    }

    pub(crate) fn views(&self) -> &[View] {
        &self.views
    }

    pub(crate) fn handle(&self, of: TypeId) -> Option<Arc<ViewHandle>> {
        let view = self.views.iter().find(|view| view.of == of)?;
        view.handle()
    }

    pub(crate) fn seen<'a>(
        &'a self,
        view: &'a View,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a RawEntry> {
        self.entries(namespace).filter_map(|entry| view.sees(entry))
    }

    /// Returns a snapshot of the present views. A caller needs the store's lock only to clone an `Arc`.
    pub(crate) fn decoders(&self) -> Arc<ViewSnapshot> {
        Arc::clone(&self.decoders)
    }

    pub(crate) fn malformed(&self) -> &BTreeMap<ObjectKey, Malformed> {
        &self.malformed
    }

    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable
    }

    pub(crate) fn version(&self) -> &ResourceVersion {
        &self.version.0
    }

    pub(crate) fn loaded(&self) -> &SlotSet {
        &self.loaded
    }

    /// Marks slots as lost, before their objects are released: an absent object of these slots may exist.
    pub(crate) fn keep_slots(&mut self, loaded: SlotSet) {
        self.loaded = loaded;
    }

    pub(crate) fn add_view(&mut self, view: View) {
        self.views.push(view);
        self.renew_decoders();
        self.count();
    }

    /// Adds an index to a view. Objects for which the index function fails count as malformed.
    pub(crate) fn add_index(
        &mut self,
        id: ViewId,
        index: Index,
        failures: Vec<IndexFailure>,
        view_effects: &mut ViewEffects,
    ) {
        if let Some(view) = self.views.iter_mut().find(|view| view.id == id) {
            view.add_index(index, failures, view_effects);
        }
        self.renew_decoders();
        self.count();
    }

    /// Removes the views that no informer, store or subscription uses. Returns their Rust types.
    pub(crate) fn drop_unused_views(&mut self) -> Vec<TypeId> {
        let left = self.views.extract_if(.., |view| !view.is_held());
        let types = left.map(|view| view.of).collect();
        self.renew_decoders();
        self.count();
        types
    }

    /// Returns effects without a change, to which [`apply`](Self::apply) adds those of each change.
    pub(crate) fn unchanged(&self) -> Effects {
        Effects {
            views: self
                .views
                .iter()
                .map(|view| ViewEffects::nothing(view.id))
                .collect(),
            ..Effects::default()
        }
    }

    /// Applies one change, and adds its effects to `effects`, at first those of [`unchanged`](Self::unchanged).
    pub(crate) fn apply(&mut self, change: StoreChange, effects: &mut Effects) {
        let key = match &change {
            StoreChange::Put(item, _) | StoreChange::Removed(item, _) => key_of(item).clone(),
            StoreChange::Released(key) => key.clone(),
            StoreChange::Advance(version) => return self.advance(version),
        };
        // The count of unreadable objects is updated per change, because counting all objects would take long.
        let before = self.is_unreadable(&key);
        self.change(change, effects);
        let now = self.is_unreadable(&key);
        self.unreadable = self.unreadable + usize::from(now) - usize::from(before);
    }

    fn change(&mut self, change: StoreChange, effects: &mut Effects) {
        match change {
            StoreChange::Put(Decoded::Good(entry), results) => {
                self.advance(entry.version());
                self.put(entry, &results, effects);
            }
            StoreChange::Put(Decoded::Malformed(malformed), _) => {
                self.advance(&malformed.version);
                self.put_malformed(*malformed, effects);
            }
            StoreChange::Removed(Decoded::Good(last), results) => {
                self.advance(last.version());
                self.malformed.remove(last.key());
                if let Some(stored) = self.take(last.key()) {
                    let last = (stored.uid() == last.uid()).then_some(last);
                    self.apply_transition(&Transition::Gone { stored, last }, &results, effects);
                }
            }
            StoreChange::Removed(Decoded::Malformed(malformed), _) => {
                self.advance(&malformed.version);
                self.malformed.remove(&malformed.key);
                if let Some(stored) = self.take(&malformed.key) {
                    let gone = Transition::missed(stored);
                    self.apply_transition(&gone, &ViewResults::default(), effects);
                }
            }
            StoreChange::Released(key) => {
                self.malformed.remove(&key);
                if let Some(stored) = self.take(&key) {
                    let released = Transition::Released { stored };
                    self.apply_transition(&released, &ViewResults::default(), effects);
                }
            }
            StoreChange::Advance(version) => self.advance(&version),
        }
    }

    /// Returns the events of a resync: every object as an update to itself.
    pub(crate) fn repeated(&self) -> Effects {
        let mut effects = self.unchanged();
        effects.counts.updated = self.len() as u64;
        for (view, view_effects) in self.views.iter().zip(&mut effects.views) {
            let seen = self.seen(view, None);
            let again = seen.map(|seen| Event::updated(seen.clone(), seen.clone(), Origin::Resync));
            view_effects.events.extend(again);
        }
        effects
    }

    /// Makes the views ready that need at most `projection`. Returns the effects of adding the stored objects to each.
    pub(crate) fn reach(&mut self, projection: Projection) -> Vec<ViewEffects> {
        let mut ready = Vec::new();
        for view in &mut self.views {
            if view.needs <= projection && !view.ready {
                view.ready = true;
                let mut view_effects = ViewEffects::nothing(view.id);
                let decoder = view.decoder();
                for entry in self.ordered.iter() {
                    view.insert(entry, &decoder.decode(entry, false), &mut view_effects);
                }
                ready.push(view_effects);
            }
        }
        self.renew_decoders();
        self.count();
        ready
    }

    fn renew_decoders(&mut self) {
        self.decoders = Arc::new(ViewSnapshot {
            version: self.decoders.version.next(),
            each: self.views.iter().map(View::decoder).collect(),
        });
    }

    fn put(&mut self, entry: RawEntry, results: &ViewResults, effects: &mut Effects) {
        // An object of which a version decodes is not malformed any more.
        self.malformed.remove(entry.key());
        let stored = self.get(entry.key());
        let transition = Transition::of(stored, &Decoded::Good(entry), Origin::Live);
        if let Some(new) = transition.new_entry() {
            self.insert(new);
        }
        self.apply_transition(&transition, results, effects);
    }

    /// Records an object that does not decode: its last good version stays, unless the stored object has another uid.
    fn put_malformed(&mut self, malformed: Malformed, effects: &mut Effects) {
        let (stored, item) = (self.get(&malformed.key), Decoded::from(malformed.clone()));
        let transition = Transition::of(stored, &item, Origin::Live);
        if let Transition::Gone { .. } = transition {
            self.take(&malformed.key);
            self.apply_transition(&transition, &ViewResults::default(), effects);
        }
        if self.malformed.get(&malformed.key) != Some(&malformed) {
            effects.malformed.push(malformed.clone());
        }
        self.malformed.insert(malformed.key.clone(), malformed);
    }

    fn apply_transition(
        &mut self,
        transition: &Transition,
        results: &ViewResults,
        effects: &mut Effects,
    ) {
        effects.counts.count(transition);
        for (number, view) in self.views.iter_mut().enumerate() {
            if let Some(view_effects) = effects.views.get_mut(number) {
                view.apply(transition, results.get(number), view_effects);
            }
        }
    }

    fn insert(&mut self, entry: &RawEntry) {
        self.ordered.insert(entry.clone());
        self.bytes += entry.raw_body().bytes();
        let before = self.by_key.insert(entry.clone());
        self.leave(before.as_ref());
    }

    fn take(&mut self, key: &ObjectKey) -> Option<RawEntry> {
        self.ordered.remove(key);
        let taken = self.by_key.remove(key);
        self.leave(taken.as_ref());
        taken
    }

    /// Subtracts the present size of an entry from the counts. The size may have grown since the entry was added, if a
    /// list replaced metadata by the whole JSON; the relist counts all sizes anew.
    fn leave(&mut self, entry: Option<&RawEntry>) {
        let bytes = entry.map_or(0, |entry| entry.raw_body().bytes());
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Returns whether some type cannot decode the object.
    fn is_unreadable(&self, key: &ObjectKey) -> bool {
        let aside = |view: &View| view.malformed_at(key).is_some();
        self.malformed.contains_key(key) || self.views.iter().any(aside)
    }

    /// Counts the objects that some type cannot decode, each once.
    fn count(&mut self) {
        let mut count = self.malformed.len();
        for (number, view) in self.views.iter().enumerate() {
            let before = &self.views[..number];
            let is_new = |malformed: &&Malformed| {
                let key = &malformed.key;
                let aside = |view: &View| view.malformed_at(key).is_some();
                !self.malformed.contains_key(key) && !before.iter().any(aside)
            };
            count += view.malformed().filter(is_new).count();
        }
        self.unreadable = count;
    }

    fn advance(&mut self, version: &ResourceVersion) {
        if version.is_exact() && !self.version().is_at_least(version) {
            self.version = AppliedVersion(version.clone());
        }
    }
}

impl ViewSnapshot {
    /// Decodes an arrived object for each view and calls the index functions, before the object is packed (VIEW-6).
    /// `gone` marks a deleted object, which needs no index values.
    ///
    /// Returns `None` if a view cannot decode the object now, because it needs more than `projection` or is about to be
    /// removed. [`results`](Self::results) then decodes the object later.
    pub(crate) fn decode_arrival(
        &self,
        entry: &RawEntry,
        projection: Projection,
        gone: bool,
    ) -> Option<DecodeReport> {
        let mut is_complete = true;
        let results = self.each.iter().map(|decoder| {
            if !decoder.can_decode(projection) {
                is_complete = false;
                return Ok(Vec::new());
            }
            decoder.decode_if_not_ready(entry);
            decoder.decode(entry, gone)
        });
        let results = results.collect();
        is_complete.then_some(DecodeReport {
            version: self.version,
            results,
        })
    }

    /// Decodes a stored object that now has more of its fields, for the views that need these fields (VIEW-3).
    pub(crate) fn decode_for_waiting_views(&self, entry: &RawEntry, projection: Projection) {
        for decoder in &self.each {
            if decoder.can_decode(projection) {
                decoder.decode_if_not_ready(entry);
            }
        }
    }

    /// Returns the results from the arrival of the object; decodes it again if the views have changed (VIEW-6).
    pub(crate) fn results(
        &self,
        item: &DeltaItem,
        report: Option<DecodeReport>,
        gone: bool,
    ) -> ViewResults {
        match (item, report) {
            (Decoded::Malformed(_), _) => ViewResults::default(),
            (_, Some(report)) if report.version == self.version => report.results,
            (Decoded::Good(entry), _) => {
                let each = self.each.iter();
                each.map(|decoder| decoder.decode(entry, gone)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
