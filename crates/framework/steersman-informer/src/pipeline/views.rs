//! Driver: creates views, indexes and subscriptions of a running informer.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_object::{Kind, Object, ObjectKey};

use super::{Core, RunState, StoreWriter};
use crate::error::Error;
use crate::fanout::Subscription;
use crate::store::{
    EntryDiff, Index, IndexFailure, IndexFn, Indexer, KnownEntries, View, ViewEffects, ViewHandle,
    values,
};
use steersman_api::Projection;

/// The most times that changed objects are processed for a new view or index (VIEW-7). Only the last time holds the
/// writer's lock, so that the work ends however fast objects change.
const ROUNDS: u32 = 8;

/// A view that is being created while the store changes.
struct NewView {
    handle: Arc<ViewHandle>,
    view: View,
    view_effects: ViewEffects,
    known: KnownEntries,
}

/// An index that is being created while the store changes.
struct NewIndex {
    index: Index,
    function: IndexFn,
    failures: BTreeMap<ObjectKey, IndexFailure>,
    known: KnownEntries,
}

impl Core {
    /// Returns a handle of the view of a type. The stored objects are processed before the view is used. If the type
    /// needs more of the objects than the store has, the reflector lists everything again (VIEW-3).
    pub(crate) fn view<K: Object>(&self) -> Arc<ViewHandle> {
        let handle = || self.shared.indexer.read().handle(TypeId::of::<K>());
        if let Some(handle) = handle() {
            return handle;
        }
        let _turn = self.view_creation.lock();
        if let Some(handle) = handle() {
            return handle;
        }
        let mut unfinished: Option<NewView> = None;
        let mut rounds = 0;
        loop {
            let mut writer = self.writer.lock();
            let is_ready = self.is_ready(Projection::of::<K>());
            let mut new_view = match unfinished.take() {
                Some(new_view) if new_view.view.ready == is_ready => new_view,
                _ => {
                    // Dropping an unused view of the same type would also drop what the new view has decoded.
                    self.drop_unused_views();
                    writer.views += 1;
                    let labels = &self.options.indexed_labels;
                    NewView::new::<K>(&self.kind, writer.views, is_ready, labels)
                }
            };
            let diff = new_view.update(&self.shared.indexer.read());
            rounds += 1;
            if diff.is_empty() || rounds == ROUNDS {
                // VIEW-2: the writer's lock is held, so nothing changes before the view is used.
                new_view.file(&diff);
                return self.add_view(&writer, new_view);
            }
            drop(writer);
            new_view.file(&diff);
            unfinished = Some(new_view);
        }
    }

    fn add_view(&self, writer: &StoreWriter, new_view: NewView) -> Arc<ViewHandle> {
        let NewView {
            handle,
            view,
            view_effects,
            ..
        } = new_view;
        self.log_malformed(&view_effects.malformed);
        self.shared.indexer.write().add_view(view);
        self.want(handle.needs);
        self.publish(writer);
        handle
    }

    /// Returns whether the store holds as much of each object as `needs` says, or has no list yet.
    fn is_ready(&self, needs: Projection) -> bool {
        self.reached().is_none_or(|reached| needs <= reached)
    }

    /// Makes the reflector request at least this part of each object from now on (VIEW-3).
    pub(crate) fn want(&self, projection: Projection) {
        let projection = if projection == Projection::Whole {
            super::whole(&self.kind)
        } else {
            projection
        };
        self.wanted.send_if_modified(|wanted| {
            let more = projection > *wanted;
            *wanted = projection.max(*wanted);
            more
        });
    }

    /// Removes views that nothing uses, and their decoded values (VIEW-4). The caller holds the writer's lock.
    pub(super) fn drop_unused_views(&self) {
        if self.shared.indexer.read().views().iter().all(View::is_held) {
            return;
        }
        let left = self.shared.indexer.write().drop_unused_views();
        for entry in self.entries.stored() {
            entry.raw_body().forget(&left);
        }
    }

    pub(crate) fn subscribe<K>(&self, handle: &Arc<ViewHandle>) -> Subscription<K> {
        let mut writer = self.writer.lock();
        let synced = self.has_synced(handle.needs);
        let subscription = {
            let indexer = self.shared.indexer.read();
            let view = indexer.view(handle.id).into_iter();
            let present = view.flat_map(|view| indexer.seen(view, None));
            writer.fanout.join(handle, present, synced)
        };
        match writer.run {
            RunState::Declared | RunState::Running => {}
            RunState::Stopped => writer.fanout.close(),
            RunState::Ended => {
                let discarded = writer.fanout.discard();
                writer.fanout.close();
                drop(writer);
                drop(discarded);
            }
        }
        subscription
    }

    pub(crate) fn add_index(&self, handle: &ViewHandle, index: Index) -> Result<(), Error> {
        let _turn = self.view_creation.lock();
        {
            let indexer = self.shared.indexer.read();
            let view = indexer.view(handle.id);
            if view.is_some_and(|view| view.index(index.name()).is_some()) {
                return Err(Error::IndexExists {
                    kind: self.kind.to_string(),
                    name: index.name().to_owned(),
                });
            }
        }
        let mut new_index = NewIndex::new(index);
        let mut rounds = 0;
        loop {
            let writer = self.writer.lock();
            let diff = new_index.update(&self.shared.indexer.read(), handle);
            rounds += 1;
            if diff.is_empty() || rounds == ROUNDS {
                new_index.file(&diff);
                let mut view_effects = ViewEffects::nothing(handle.id);
                let failures = new_index.failures.into_values().collect();
                let mut indexer = self.shared.indexer.write();
                indexer.add_index(handle.id, new_index.index, failures, &mut view_effects);
                drop(indexer);
                self.log_malformed(&view_effects.malformed);
                return Ok(());
            }
            drop(writer);
            new_index.file(&diff);
        }
    }
}

impl NewView {
    fn new<K: Object>(kind: &Kind, number: u64, is_ready: bool, labels: &[String]) -> Self {
        let handle = Arc::new(ViewHandle::new::<K>(number));
        let mut view = View::new::<K>(&handle, is_ready).of_kind::<K>(kind);
        let mut view_effects = ViewEffects::nothing(handle.id);
        for label in labels {
            view.add_index(Index::of_label(label), Vec::new(), &mut view_effects);
        }
        Self {
            handle,
            view,
            view_effects,
            known: KnownEntries::default(),
        }
    }

    /// Returns the entries that the view has to decode or forget: none if the store holds too little of each object.
    fn update(&mut self, indexer: &Indexer) -> EntryDiff {
        match self.view.ready {
            true => self.known.update(indexer.entries(None)),
            false => EntryDiff::default(),
        }
    }

    /// Decodes objects and adds them to the view and its indexes.
    fn file(&mut self, diff: &EntryDiff) {
        for gone in &diff.gone {
            self.view.forget(gone.key());
        }
        let decoder = self.view.decoder();
        for entry in &diff.new {
            let result = decoder.decode(entry, false);
            self.view.replace(entry, &result, &mut self.view_effects);
        }
    }
}

impl NewIndex {
    fn new(index: Index) -> Self {
        Self {
            function: index.function(),
            index,
            failures: BTreeMap::new(),
            known: KnownEntries::default(),
        }
    }

    /// Returns the entries to add to the index or to remove from it, compared with the view's present entries.
    fn update(&mut self, indexer: &Indexer, handle: &ViewHandle) -> EntryDiff {
        let view = indexer.view(handle.id).into_iter();
        let known = view.flat_map(|view| indexer.seen(view, None));
        self.known.update(known)
    }

    /// Decodes objects, and computes their index values.
    fn file(&mut self, diff: &EntryDiff) {
        for gone in &diff.gone {
            self.forget(gone.key());
        }
        for entry in &diff.new {
            self.forget(entry.key());
            match values(&self.function, entry) {
                Ok(values) => self.index.put(entry, &values),
                Err(problem) => {
                    let key = entry.key().clone();
                    self.failures.insert(key, (entry.clone(), problem));
                }
            }
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        self.index.remove(key);
        self.failures.remove(key);
    }
}
