//! Machine: the store that a relist makes, beside the one that there is.

use std::collections::BTreeMap;

use steersman_api::Decoded;
use steersman_object::ResourceVersion;

use super::{Effects, Indexer, Relist, Version, gone};
use crate::body::Extent;
use crate::delta::{Item, key_of};
use crate::event::Origin;
use crate::judgement::Findings;
use crate::store::table::{Ordered, Table};
use crate::store::transition::{Fate, fate};
use crate::store::view::{Fact, ViewEffects, ViewId};

impl Indexer {
    /// Builds what a relist makes of this, beside it: deletes first, then the rest in the order of
    /// the list. Each key comes once. No events are kept where nobody listens.
    pub(crate) fn replaced(
        &self,
        items: impl Iterator<Item = (Item, Findings)>,
        relist: Relist,
        is_listened_to: impl Fn(ViewId) -> bool,
    ) -> (Self, Effects) {
        let Relist {
            objects,
            version,
            origin,
            extent,
        } = relist;
        let mut next = self.emptied(objects, version, extent);
        let mut effects = self.unchanged();
        let drop_events = |told: &&mut ViewEffects| !is_listened_to(told.view);
        effects
            .views
            .iter_mut()
            .filter(drop_events)
            .for_each(ViewEffects::drop_events);
        let mut listed = Vec::with_capacity(objects);
        let mut gone_first = Vec::new();
        let mut changes = Vec::new();
        // Where nothing was there nothing goes first, and nothing has to be kept for later.
        let is_first = self.ordered.is_empty();
        for (item, findings) in items {
            let stored = self.get(key_of(&item));
            match fate(stored, Some(&item)) {
                Fate::Appeared(new) => {
                    listed.push(new.clone());
                    let appeared = Fact::Appeared { new, origin };
                    if is_first {
                        next.tell(&appeared, &findings, &mut effects);
                    } else {
                        changes.push((appeared, findings));
                    }
                }
                Fate::Same { old, new } => {
                    // VIEW-3: the stored one may have come while only metadata was asked for, and too
                    // late to be completed when this arrived.
                    old.raw_body().complete_as(new.raw_body());
                    listed.push(old);
                }
                Fate::PeekGuard(old) => listed.push(old),
                Fate::Changed { old, new } => {
                    listed.push(new.clone());
                    changes.push((Fact::Changed { old, new }, findings));
                }
                // STORE-4
                Fate::Recreated { old, new } => {
                    listed.push(new.clone());
                    gone_first.push(gone(old));
                    let origin = Origin::Live;
                    changes.push((Fact::Appeared { new, origin }, findings));
                }
                Fate::Gone(old) => gone_first.push(gone(old)),
                Fate::Nothing => {}
            }
            if let Decoded::Malformed(malformed) = item {
                let malformed = *malformed;
                if self.malformed.get(&malformed.key) != Some(&malformed) {
                    effects.malformed.push(malformed.clone());
                }
                next.malformed.insert(malformed.key.clone(), malformed);
            }
        }
        for entry in &listed {
            next.bytes += entry.raw_body().bytes();
            next.by_key.insert(entry.clone());
        }
        next.ordered = listed.into_iter().collect();
        // STORE-3: what the relist does not name is gone; of an object that nobody can read, what
        // happened to the good one under its name was decided above.
        for old in self.ordered.iter() {
            let named = next.get(old.key()).is_some() || next.malformed.contains_key(old.key());
            if !named {
                gone_first.push(gone(old.clone()));
            }
        }
        for fact in gone_first {
            next.tell(&fact, &Findings::default(), &mut effects);
        }
        for (fact, findings) in changes {
            next.tell(&fact, &findings, &mut effects);
        }
        next.count();
        (next, effects)
    }

    /// The same without objects, for so many of which so much was listed.
    fn emptied(&self, objects: usize, version: ResourceVersion, extent: Extent) -> Self {
        let mut next = Self {
            by_key: Table::with_capacity(objects),
            ordered: Ordered::default(),
            views: self.views.clone(),
            views_version: self.views_version,
            malformed: BTreeMap::new(),
            unreadable: 0,
            bytes: 0,
            version: Version(version),
        };
        for view in &mut next.views {
            // Until the first list nobody knew how much of the objects there would be.
            if view.is_ready() && view.needs() > extent {
                view.set_ready(false);
                next.views_version.change();
            }
        }
        next
    }
}
