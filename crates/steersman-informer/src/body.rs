//! Machine: the body of one object: packed, and what the types that look at it made of that.

mod forms;
pub(crate) mod kept;
mod read;

use std::any::TypeId;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use steersman_api::RawObject;
use steersman_object::Object;

use crate::body::forms::{Form, Forms};
use crate::metrics::gauges::Gauges;
use crate::pack::{Budget, Holder, Leavers, Packed, Place, Shelf};

pub(crate) use crate::body::forms::Shown;

/// How much of an object there is, or is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// Its metadata.
    Metadata,
    /// All of it.
    Whole,
}

/// One object's body. What is kept decoded is shared by all who read it (STORE-2).
///
/// Its lock is held for as long as it takes to note or to share something: whoever unpacks, decodes or
/// packs shares the bytes, and does so without it (STORE-7).
pub(crate) struct Body {
    /// None of a body that was made of an object, not of JSON: it is never packed.
    shelf: Option<Arc<Shelf>>,
    held: RwLock<Held>,
    /// How long its JSON is: who counts takes no lock.
    length: AtomicU32,
    /// Whether it was read since the budget asked.
    touched: AtomicBool,
    /// When the budget let it go, as the budget tells the time.
    left: AtomicU32,
    /// The types it has decoded as, as the shelf numbers them: it decodes as them again (VIEW-1).
    reads_as: AtomicU8,
}

struct Held {
    packed: Packed,
    extent: Extent,
    forms: Forms,
    /// What its forms are charged with, and where.
    charge: usize,
    place: Place,
}

/// How what was made of a body gets a place in the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// Others go for it, if need be: somebody reads it.
    Made,
    /// Where there is some: somebody judges it, and may never read it.
    Found,
}

impl Extent {
    /// How much of an object the type `K` needs.
    pub(crate) fn of<K: Object>() -> Self {
        if K::metadata_api() {
            Self::Metadata
        } else {
            Self::Whole
        }
    }
}

impl Body {
    pub(crate) fn new(json: Box<[u8]>, extent: Extent, shelf: &Arc<Shelf>) -> Self {
        shelf.enter();
        let packed = Packed::Fresh(Arc::new(json));
        Self::with(packed, extent, Some(Arc::clone(shelf)))
    }

    /// A body that was never JSON.
    pub(crate) fn of<K: Object>(object: &Arc<K>) -> Self {
        let json = serde_json::to_vec(&**object).unwrap_or_default();
        let packed = Packed::Fresh(Arc::new(json.into_boxed_slice()));
        let body = Self::with(packed, Extent::Whole, None);
        body.held.write().forms = Forms::One(Arc::clone(object) as _);
        body
    }

    fn with(packed: Packed, extent: Extent, shelf: Option<Arc<Shelf>>) -> Self {
        let length = AtomicU32::new(length(&packed));
        let held = Held {
            packed,
            extent,
            forms: Forms::Nothing,
            charge: 0,
            place: Place::NONE,
        };
        Self {
            shelf,
            held: RwLock::new(held),
            length,
            touched: AtomicBool::new(false),
            left: AtomicU32::new(0),
            reads_as: AtomicU8::new(0),
        }
    }

    /// How long its JSON is.
    pub(crate) fn bytes(&self) -> usize {
        self.length.load(Ordering::Relaxed) as usize
    }

    // ----- what is held -----

    /// Makes a body of which only metadata was there a whole one. What types made of the metadata
    /// stays right: it is the same version.
    pub(crate) fn complete(&self, whole: RawObject) {
        let mut held = self.held.write();
        if held.extent == Extent::Metadata {
            self.put(&mut held, Packed::Fresh(Arc::new(whole.into_parts().1)));
            held.extent = Extent::Whole;
        }
    }

    /// As [`complete`](Self::complete), from another body of the same version.
    pub(crate) fn complete_as(&self, other: &Self) {
        // Both may be one: never under two locks.
        if self.held.read().extent == Extent::Whole {
            return;
        }
        let whole = {
            let other = other.held.read();
            (other.extent == Extent::Whole).then(|| other.packed.clone())
        };
        if let Some(packed) = whole {
            let mut held = self.held.write();
            self.put(&mut held, packed);
            held.extent = Extent::Whole;
        }
    }

    /// Packs what came, and lets go of its JSON; of what types made of it too, unless there is room. Says
    /// whether there is something to learn of it.
    pub(crate) fn pack(&self, holder: impl Fn() -> Weak<dyn Holder>) -> bool {
        let Some(shelf) = &self.shelf else {
            return false;
        };
        let Some(json) = self.held.read().packed.fresh() else {
            return false;
        };
        // First, so that what is packed is not laid behind what goes, which would leave a hole.
        self.settled(shelf.budget(), &holder);
        let (packed, due) = shelf.pack(&json);
        let (_gone, leavers) = {
            let mut held = self.held.write();
            // Whoever packed it meanwhile has done the rest too.
            let is_as_it_was = held.packed.fresh();
            if is_as_it_was.is_none_or(|now| !Arc::ptr_eq(&now, &json)) {
                return due;
            }
            self.put(&mut held, packed);
            self.settle(&mut held, shelf.budget(), &holder)
        };
        leavers.leave();
        due
    }

    fn settled(&self, budget: &Budget, holder: impl Fn() -> Weak<dyn Holder>) {
        let (_gone, leavers) = self.settle(&mut self.held.write(), budget, holder);
        leavers.leave();
    }

    /// Charges what was made of it while it was fresh, if it fits, and lets go of it else: it is answered
    /// to be dropped without a lock.
    fn settle(
        &self,
        held: &mut Held,
        budget: &Budget,
        holder: impl Fn() -> Weak<dyn Holder>,
    ) -> (Vec<Form>, Leavers) {
        let charge = held.charge;
        if charge == 0 {
            return Default::default();
        }
        match held.admit(budget, charge, holder, Room::Found) {
            Some(leavers) => (Vec::new(), leavers),
            None => {
                let gone = self.drain(held, |form| form.decoded.is_err());
                (gone, Leavers::default())
            }
        }
    }

    /// Packs anew what was packed by no dictionary, or another one. Says whether it was.
    pub(crate) fn repack(&self) -> bool {
        let Some(shelf) = &self.shelf else {
            return false;
        };
        let packed = self.held.read().packed.clone();
        let Some(again) = shelf.repack(&packed) else {
            return false;
        };
        let mut held = self.held.write();
        // Completed meanwhile, it is another.
        if held.packed.is(&packed) {
            self.put(&mut held, again);
        }
        true
    }

    /// Looks at its JSON.
    pub(crate) fn sample<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let packed = self.held.read().packed.clone();
        self.shelf.as_ref()?.unpack(&packed, look).ok()
    }

    /// In place of what is held.
    fn put(&self, held: &mut Held, packed: Packed) {
        let before = held.counted();
        self.length.store(length(&packed), Ordering::Relaxed);
        held.packed = packed;
        if let Some(gauges) = self.gauges() {
            gauges.pack(before, held.counted());
        }
    }

    // ----- what types made of it -----

    /// Lets go of what these types made of it.
    pub(crate) fn forget(&self, types: &[TypeId]) {
        if let Some(shelf) = &self.shelf {
            let bits = types.iter().fold(0, |bits, of| bits | shelf.bit(*of));
            self.reads_as.fetch_and(!bits, Ordering::Relaxed);
        }
        // Freeing what is large takes a while, and needs no lock.
        let (_gone, leavers) = self.retain(|form| !types.contains(&form.of));
        leavers.leave();
    }

    /// Lets go of the other forms, which are answered to be dropped without a lock.
    fn retain(&self, stays: impl Fn(&Form) -> bool) -> (Vec<Form>, Leavers) {
        let mut held = self.held.write();
        let gone = self.drain(&mut held, stays);
        let (charge, is_decoded) = (held.charge, held.forms.is_decoded());
        let mut leavers = Leavers::default();
        if let Some(shelf) = &self.shelf {
            let budget = shelf.budget();
            if !is_decoded {
                budget.release(std::mem::take(&mut held.place));
            } else if let Some(others) = budget.charge(held.place, charge) {
                leavers = others;
            }
        }
        (gone, leavers)
    }

    /// Takes the other forms out, and no longer counts them.
    fn drain(&self, held: &mut Held, stays: impl Fn(&Form) -> bool) -> Vec<Form> {
        let before = held.charge;
        let mut forms = held.forms.take(before);
        let gone = forms.extract_if(.., |form| !stays(form)).collect();
        let charge = forms.iter().map(|form| form.charge).sum();
        held.forms = Forms::of(forms);
        self.count(held, charge);
        gone
    }

    fn count(&self, held: &mut Held, charge: usize) {
        let before = std::mem::replace(&mut held.charge, charge);
        if let Some(gauges) = self.gauges() {
            gauges.decode(before, charge);
        }
    }

    fn gauges(&self) -> Option<&Gauges> {
        self.shelf.as_ref()?.counters().gauges()
    }

    fn bit<K: Object>(&self) -> u8 {
        let shelf = self.shelf.as_ref();
        shelf.map_or(0, |shelf| shelf.bit(TypeId::of::<K>()))
    }
}

impl Body {
    /// Whether it was read since this was last asked.
    pub(crate) fn take_touched(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn left(&self) -> &AtomicU32 {
        &self.left
    }

    /// Lets go of all that is decoded.
    pub(crate) fn evict(&self) {
        let (gone, leavers) = self.retain(|form| form.decoded.is_err());
        if let Some(shelf) = self.shelf.as_ref().filter(|_| !gone.is_empty()) {
            shelf.counters().evict();
        }
        leavers.leave();
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let Some(shelf) = &self.shelf else {
            return;
        };
        shelf.leave();
        let held = self.held.get_mut();
        shelf.budget().release(held.place);
        if let Some(gauges) = shelf.counters().gauges() {
            gauges.pack(held.counted(), 0);
            gauges.decode(held.charge, 0);
        }
    }
}

impl Held {
    /// Charges its place with so much, or gets it one (PACK-2); none where there is no room. Answers who
    /// has to go for that, once no lock is held.
    fn admit(
        &mut self,
        budget: &Budget,
        charge: usize,
        holder: impl Fn() -> Weak<dyn Holder>,
        room: Room,
    ) -> Option<Leavers> {
        if let Some(leavers) = budget.charge(self.place, charge) {
            return Some(leavers);
        }
        budget.release(std::mem::take(&mut self.place));
        let (place, leavers) = match room {
            Room::Made => budget.admit(holder(), charge)?,
            Room::Found => (budget.admit_if_room(holder(), charge)?, Leavers::default()),
        };
        self.place = place;
        Some(leavers)
    }

    /// How much is packed: what has not been tried will be in a moment.
    fn counted(&self) -> usize {
        match &self.packed {
            Packed::Fresh(_) => 0,
            packed => packed.held(),
        }
    }
}

/// None is as long as cannot be said.
fn length(packed: &Packed) -> u32 {
    u32::try_from(packed.length()).unwrap_or(u32::MAX)
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
