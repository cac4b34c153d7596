//! Machine: a view: the objects of a store decoded as one type, with its malformed objects and its indexes.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use steersman_api::{Malformed, Projection};
use steersman_object::{Kind, Object, ObjectKey, decodes_all_protobuf};

use crate::entry::RawEntry;
use crate::event::{Certainty, Event, Origin, RawEvent};
use crate::store::index::{Index, IndexFn};
use crate::store::transition::Transition;
use crate::view_results::{IndexValues, ViewResult};

/// Identifies a view within its informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewId(u64);

/// Keeps a view alive: the view is removed once its last handle is dropped.
#[derive(Debug)]
pub(crate) struct ViewHandle {
    pub(crate) id: ViewId,
    /// How much of an object the view's type needs.
    pub(crate) needs: Projection,
}

/// An object for which the function of a new index fails, and the error.
pub(crate) type IndexFailure = (RawEntry, Arc<str>);

type DecodeCheck = fn(&RawEntry) -> Result<(), Arc<str>>;

/// A snapshot of one view, for decoding objects before any lock is taken.
#[derive(Clone)]
pub(crate) struct ViewDecoder {
    check: DecodeCheck,
    functions: Vec<IndexFn>,
    needs: Projection,
    ready: bool,
    handle: Weak<ViewHandle>,
}

#[derive(Debug, Default)]
pub(crate) struct ChangeCounts {
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) deleted: u64,
    pub(crate) released: u64,
}

/// The objects of a store decoded as one type, with the view's indexes.
///
/// If an object does not decode as the type, the view keeps its last version that did (VIEW-1), until a version decodes
/// or the object is gone.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) id: ViewId,
    pub(crate) of: TypeId,
    pub(crate) needs: Projection,
    handle: Weak<ViewHandle>,
    check: DecodeCheck,
    /// Whether the store holds as much of the objects as the type needs. A view that is not ready sees no objects.
    pub(crate) ready: bool,
    malformed_entries: BTreeMap<ObjectKey, MalformedEntry>,
    indexes: Vec<Index>,
}

/// An object that does not decode as the type.
#[derive(Clone, Debug)]
struct MalformedEntry {
    malformed: Malformed,
    /// The last version that decoded; `None` if no version did.
    last_good: Option<RawEntry>,
}

#[derive(Debug)]
pub(crate) struct ViewEffects {
    pub(crate) view: ViewId,
    /// Whether the view has subscribers. Without subscribers no events are recorded.
    pub(crate) has_subscribers: bool,
    pub(crate) events: Vec<RawEvent>,
    /// The objects that left the store because their slots were lost. Recorded without events, in a change of its own.
    pub(crate) released: Vec<RawEntry>,
    /// The objects that the view's type cannot decode since this change.
    pub(crate) malformed: Vec<Malformed>,
}

impl ViewHandle {
    pub(crate) fn new<K: Object>(number: u64) -> Self {
        Self {
            id: ViewId(number),
            needs: Projection::of::<K>(),
        }
    }
}

impl ViewDecoder {
    /// Returns whether the view has handles, and `projection` holds as much of an object as the type needs.
    pub(crate) fn can_decode(&self, projection: Projection) -> bool {
        self.handle.strong_count() > 0 && self.needs <= projection
    }

    /// Decodes an object for a view that is not ready yet. The entry remembers that it decodes as the view's type, so
    /// that the view need not decode it under the writer's lock when it becomes ready.
    pub(crate) fn decode_if_not_ready(&self, entry: &RawEntry) {
        if !self.ready {
            let _cached_by_the_body = (self.check)(entry);
        }
    }

    /// Decodes an object, and calls the index functions unless it is `gone`. A view that is not ready does neither.
    pub(crate) fn decode(&self, entry: &RawEntry, gone: bool) -> ViewResult {
        if !self.ready {
            return Ok(Vec::new());
        }
        (self.check)(entry)?;
        if gone {
            return Ok(Vec::new());
        }
        let functions = self.functions.iter();
        functions.map(|function| values(function, entry)).collect()
    }
}

/// Returns the values of an object in one index, sorted and without duplicates.
pub(crate) fn values(function: &IndexFn, entry: &RawEntry) -> Result<IndexValues, Arc<str>> {
    let mut values = function(entry)?;
    values.sort_unstable();
    values.dedup();
    Ok(values.into_iter().map(Arc::from).collect())
}

impl ChangeCounts {
    pub(crate) fn count(&mut self, transition: &Transition) {
        match transition {
            Transition::Appeared { .. } => self.created += 1,
            Transition::Changed { .. } => self.updated += 1,
            Transition::Recreated { .. } => {
                self.deleted += 1;
                self.created += 1;
            }
            Transition::Gone { .. } => self.deleted += 1,
            Transition::Released { .. } => self.released += 1,
            Transition::Same { .. } | Transition::Kept { .. } | Transition::Nothing => {}
        }
    }

    /// Returns the counts, each with a lower-case word for the label of a metric.
    pub(crate) fn in_words(&self) -> [(&'static str, u64); 4] {
        [
            ("created", self.created),
            ("updated", self.updated),
            ("deleted", self.deleted),
            ("released", self.released),
        ]
    }
}

impl ViewEffects {
    pub(crate) fn nothing(view: ViewId) -> Self {
        Self {
            view,
            has_subscribers: true,
            events: Vec::new(),
            released: Vec::new(),
            malformed: Vec::new(),
        }
    }

    fn push(&mut self, event: RawEvent) {
        if self.has_subscribers {
            self.events.push(event);
        }
    }
}

impl View {
    pub(crate) fn new<K: Object>(handle: &Arc<ViewHandle>, ready: bool) -> Self {
        Self {
            id: handle.id,
            of: TypeId::of::<K>(),
            needs: handle.needs,
            handle: Arc::downgrade(handle),
            check: RawEntry::check::<K>,
            ready,
            malformed_entries: BTreeMap::new(),
            indexes: Vec::new(),
        }
    }

    /// Returns the view for a kind. If `K` is its built-in type, objects in protobuf need no check (VIEW-8).
    pub(crate) fn of_kind<K: Object>(mut self, kind: &Kind) -> Self {
        if decodes_all_protobuf(TypeId::of::<K>(), kind.gvk()) {
            self.check = RawEntry::check_built_in::<K>;
        }
        self
    }

    pub(crate) fn handle(&self) -> Option<Arc<ViewHandle>> {
        self.handle.upgrade()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.handle.strong_count() > 0
    }

    pub(crate) fn decoder(&self) -> ViewDecoder {
        ViewDecoder {
            check: self.check,
            functions: self.indexes.iter().map(Index::function).collect(),
            needs: self.needs,
            ready: self.ready,
            handle: Weak::clone(&self.handle),
        }
    }

    pub(crate) fn sees<'a>(&'a self, stored: &'a RawEntry) -> Option<&'a RawEntry> {
        if !self.ready {
            return None;
        }
        // Usually every object decodes, and needs no look-up among the malformed objects.
        if self.malformed_entries.is_empty() {
            return Some(stored);
        }
        match self.malformed_entries.get(stored.key()) {
            Some(kept) => kept.last_good.as_ref(),
            None => Some(stored),
        }
    }

    /// Returns the objects that do not decode, ordered by key.
    pub(crate) fn malformed(&self) -> impl Iterator<Item = &Malformed> {
        self.malformed_entries.values().map(|kept| &kept.malformed)
    }

    pub(crate) fn malformed_at(&self, key: &ObjectKey) -> Option<&Malformed> {
        Some(&self.malformed_entries.get(key)?.malformed)
    }

    pub(crate) fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name() == name)
    }

    pub(crate) fn label_index(&self, label: &str) -> Option<&Index> {
        self.index(label).filter(|index| index.of_label)
    }

    pub(crate) fn index_names(&self) -> Vec<String> {
        let names = self.indexes.iter().map(|index| index.name().to_owned());
        names.collect()
    }

    /// Adds a stored object to a view that is new or becomes ready. No event is recorded.
    pub(crate) fn insert(
        &mut self,
        stored: &RawEntry,
        result: &ViewResult,
        effects: &mut ViewEffects,
    ) {
        self.index_or_mark(stored, Some(result), None, effects);
    }

    /// Adds a stored object as [`insert`](Self::insert) does, in place of its earlier version.
    pub(crate) fn replace(
        &mut self,
        stored: &RawEntry,
        result: &ViewResult,
        effects: &mut ViewEffects,
    ) {
        self.forget(stored.key());
        self.insert(stored, result, effects);
    }

    /// Adds an index of the visible objects. Objects for which its function fails are malformed, and stay visible.
    pub(crate) fn add_index(
        &mut self,
        index: Index,
        failures: Vec<IndexFailure>,
        effects: &mut ViewEffects,
    ) {
        for (entry, problem) in failures {
            self.mark_malformed(&entry, &problem, Some(entry.clone()), effects);
        }
        self.indexes.push(index);
    }

    /// Applies the change of a stored object to this view, and records the event for its subscribers. `result` is the
    /// view's result for the newest state in the transition.
    pub(crate) fn apply(
        &mut self,
        transition: &Transition,
        result: Option<&ViewResult>,
        effects: &mut ViewEffects,
    ) {
        if !self.ready {
            return;
        }
        match transition {
            Transition::Appeared { new, origin } => self.appear(new, *origin, result, effects),
            Transition::Changed { old, new } => self.change(old, new, result, effects),
            Transition::Recreated { old, new } => {
                self.remove(old, None, effects);
                self.appear(new, Origin::Live, result, effects);
            }
            Transition::Gone { stored, last } => {
                let last = last.as_ref().filter(|_| matches!(result, Some(Ok(_))));
                self.remove(stored, last, effects);
            }
            Transition::Released { stored } => {
                let before = self.sees(stored).cloned();
                self.forget(stored.key());
                effects.released.extend(before);
            }
            Transition::Same { .. } | Transition::Kept { .. } | Transition::Nothing => {}
        }
    }

    fn appear(
        &mut self,
        new: &RawEntry,
        origin: Origin,
        result: Option<&ViewResult>,
        effects: &mut ViewEffects,
    ) {
        if self.index_or_mark(new, result, None, effects) {
            effects.push(Event::created(new.clone(), origin));
        }
    }

    fn change(
        &mut self,
        old: &RawEntry,
        new: &RawEntry,
        result: Option<&ViewResult>,
        effects: &mut ViewEffects,
    ) {
        let before = self.sees(old).cloned();
        if self.index_or_mark(new, result, before.clone(), effects) {
            effects.push(match before {
                Some(old) => Event::updated(old, new.clone(), Origin::Live),
                // No earlier version of the object decoded as this type, so the object appears now.
                None => Event::created(new.clone(), Origin::Live),
            });
        }
    }

    fn remove(&mut self, stored: &RawEntry, last: Option<&RawEntry>, effects: &mut ViewEffects) {
        let before = self.sees(stored).cloned();
        self.forget(stored.key());
        if let Some(before) = before {
            effects.push(match last {
                Some(last) => Event::deleted(last.clone(), Certainty::Observed),
                None => Event::deleted(before, Certainty::FinalStateUnknown),
            });
        }
    }

    /// Adds an object that decodes to the indexes, or records the error of an object that does not decode. Returns
    /// whether the object decodes.
    fn index_or_mark(
        &mut self,
        new: &RawEntry,
        result: Option<&ViewResult>,
        before: Option<RawEntry>,
        effects: &mut ViewEffects,
    ) -> bool {
        match result {
            None => false,
            Some(Ok(values)) => {
                self.malformed_entries.remove(new.key());
                let mut values = values.iter();
                let none = IndexValues::default();
                for index in &mut self.indexes {
                    index.put(new, values.next().unwrap_or(&none));
                }
                true
            }
            Some(Err(problem)) => {
                self.mark_malformed(new, problem, before, effects);
                false
            }
        }
    }

    fn mark_malformed(
        &mut self,
        entry: &RawEntry,
        problem: &Arc<str>,
        last_good: Option<RawEntry>,
        effects: &mut ViewEffects,
    ) {
        let malformed = entry.malformed(problem);
        let known = self.malformed_entries.get(entry.key());
        if known.is_none_or(|known| known.malformed != malformed) {
            effects.malformed.push(malformed.clone());
        }
        let kept = MalformedEntry {
            malformed,
            last_good,
        };
        self.malformed_entries.insert(entry.key().clone(), kept);
    }

    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.malformed_entries.remove(key);
        for index in &mut self.indexes {
            index.remove(key);
        }
    }
}
