//! Machine: builds the store after a relist, beside the present store.

use std::collections::BTreeMap;

use steersman_api::{Decoded, Malformed, Projection};
use steersman_object::ResourceVersion;

use super::{AppliedVersion, Effects, Indexer, Relist};
use crate::delta::{DeltaItem, key_of};
use crate::entry::RawEntry;
use crate::event::Origin;
use crate::store::table::{EntryTable, Ordered};
use crate::store::transition::Transition;
use crate::store::view::ViewId;
use crate::view_results::ViewResults;

impl Indexer {
    /// Builds the store after a relist, and the effects: first the deletes, then the other changes in the order of the
    /// list. Each key comes once. Events are recorded only for views with subscribers.
    pub(crate) fn replaced(
        &self,
        items: impl Iterator<Item = (DeltaItem, ViewResults)>,
        relist: Relist,
        has_subscriber: impl Fn(ViewId) -> bool,
    ) -> (Self, Effects) {
        let Relist {
            objects,
            version,
            origin,
            projection,
            loaded,
        } = relist;
        let mut next = self.emptied(objects, version, projection);
        next.loaded = loaded;
        let mut effects = self.unchanged();
        for view_effects in &mut effects.views {
            view_effects.has_subscribers = has_subscriber(view_effects.view);
        }
        let mut listed = Vec::with_capacity(objects);
        let mut gone_first = Vec::new();
        let mut changes = Vec::new();
        // A first list deletes nothing, so its events need not wait for deletes.
        let is_first = self.ordered.is_empty();
        for (item, results) in items {
            let stored = self.get(key_of(&item));
            let transition = Transition::of(stored, &item, origin);
            match transition {
                Transition::Appeared { ref new, .. } => {
                    listed.push(new.clone());
                    if is_first {
                        next.apply_transition(&transition, &results, &mut effects);
                    } else {
                        changes.push((transition, results));
                    }
                }
                Transition::Changed { ref new, .. } => {
                    listed.push(new.clone());
                    changes.push((transition, results));
                }
                // STORE-4: another uid is a delete and a create.
                Transition::Recreated { old, new } => {
                    listed.push(new.clone());
                    gone_first.push(Transition::missed(old));
                    let origin = Origin::Live;
                    changes.push((Transition::Appeared { new, origin }, results));
                }
                Transition::Same { stored, arrived } => {
                    // VIEW-3: the stored entry may hold only metadata, from an event that was queued before this list.
                    stored.raw_body().complete_as(arrived.raw_body());
                    listed.push(stored);
                }
                Transition::Kept { stored } => listed.push(stored),
                Transition::Gone { .. } => gone_first.push(transition),
                // No arrived object releases the stored one.
                Transition::Released { .. } | Transition::Nothing => {}
            }
            if let Decoded::Malformed(malformed) = item {
                next.note_malformed(*malformed, self, &mut effects);
            }
        }
        next.fill(listed);
        gone_first.extend(self.missed_by(&next));
        for transition in gone_first {
            next.apply_transition(&transition, &ViewResults::default(), &mut effects);
        }
        for (transition, results) in changes {
            next.apply_transition(&transition, &results, &mut effects);
        }
        next.count();
        (next, effects)
    }

    /// Records an object that does not decode. The effects name the object, for the log, if its error is new.
    fn note_malformed(&mut self, malformed: Malformed, before: &Self, effects: &mut Effects) {
        if before.malformed.get(&malformed.key) != Some(&malformed) {
            effects.malformed.push(malformed.clone());
        }
        self.malformed.insert(malformed.key.clone(), malformed);
    }

    fn fill(&mut self, listed: Vec<RawEntry>) {
        for entry in &listed {
            self.bytes += entry.raw_body().bytes();
            self.by_key.insert(entry.clone());
        }
        self.ordered = listed.into_iter().collect();
    }

    /// Returns the deletes of the objects that the store `next` lacks.
    ///
    /// STORE-3: an object that the list does not name is gone. For a malformed object, its transition has decided
    /// whether the stored version is gone.
    fn missed_by(&self, next: &Self) -> impl Iterator<Item = Transition> {
        let missed = self
            .ordered
            .iter()
            .filter(|old| next.get(old.key()).is_none() && !next.malformed.contains_key(old.key()));
        missed.map(|old| Transition::missed(old.clone()))
    }

    /// Returns an empty store with the same views and with memory for this number of objects.
    fn emptied(&self, objects: usize, version: ResourceVersion, projection: Projection) -> Self {
        let mut next = Self {
            by_key: EntryTable::with_capacity(objects),
            ordered: Ordered::default(),
            views: self.views.clone(),
            decoders: self.decoders(),
            malformed: BTreeMap::new(),
            unreadable: 0,
            bytes: 0,
            version: AppliedVersion(version),
            loaded: self.loaded,
        };
        // A view that was added before the first list counted as ready. The list shows now whether it has as much of
        // each object as the view needs.
        let mut has_waiting = false;
        for view in &mut next.views {
            if view.ready && view.needs > projection {
                view.ready = false;
                has_waiting = true;
            }
        }
        if has_waiting {
            next.renew_decoders();
        }
        next
    }
}
