//! Handle: the body of one object: its packed JSON, and the forms that types decoded from it.

mod forms;
pub(crate) mod peek;
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
use crate::pack::{Budget, Evictable, Evictions, PackContext, Packed, SlotId};

pub(crate) use crate::body::forms::DecodeResult;

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
    context: Option<Arc<PackContext>>,
    state: RwLock<BodyState>,
    /// How long its JSON is: who counts takes no lock.
    length: AtomicU32,
    /// Whether it was read since the budget asked.
    visited: AtomicBool,
    /// When the budget let it go, as the budget tells the time.
    evicted_at: AtomicU32,
    /// The types it has decoded as, as the shelf numbers them: it decodes as them again (VIEW-1).
    reads_as: AtomicU8,
}

struct BodyState {
    packed: Packed,
    extent: Extent,
    forms: Forms,
    /// What its forms are charged with, and where.
    charge: usize,
    slot: SlotId,
}

/// How what was made of a body gets a place in the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// Others go for it, if need be: somebody reads it.
    Evicting,
    /// Where there is some: somebody judges it, and may never read it.
    IfRoom,
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
    pub(crate) fn new(json: Box<[u8]>, extent: Extent, context: &Arc<PackContext>) -> Self {
        context.add_body();
        let packed = Packed::Fresh(Arc::new(json));
        Self::with(packed, extent, Some(Arc::clone(context)))
    }

    /// A body that was never JSON.
    pub(crate) fn of<K: Object>(object: &Arc<K>) -> Self {
        let json = serde_json::to_vec(&**object).unwrap_or_default();
        let packed = Packed::Fresh(Arc::new(json.into_boxed_slice()));
        let body = Self::with(packed, Extent::Whole, None);
        body.state.write().forms = Forms::One(Arc::clone(object) as _);
        body
    }

    fn with(packed: Packed, extent: Extent, context: Option<Arc<PackContext>>) -> Self {
        let length = AtomicU32::new(length(&packed));
        let state = BodyState {
            packed,
            extent,
            forms: Forms::Nothing,
            charge: 0,
            slot: SlotId::NONE,
        };
        Self {
            context,
            state: RwLock::new(state),
            length,
            visited: AtomicBool::new(false),
            evicted_at: AtomicU32::new(0),
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
        let mut state = self.state.write();
        if state.extent == Extent::Metadata {
            self.replace_packed(&mut state, Packed::Fresh(Arc::new(whole.into_parts().1)));
            state.extent = Extent::Whole;
        }
    }

    /// As [`complete`](Self::complete), from another body of the same version.
    pub(crate) fn complete_as(&self, other: &Self) {
        // Both may be one: never under two locks.
        if self.state.read().extent == Extent::Whole {
            return;
        }
        let whole = {
            let other = other.state.read();
            (other.extent == Extent::Whole).then(|| other.packed.clone())
        };
        if let Some(packed) = whole {
            let mut state = self.state.write();
            self.replace_packed(&mut state, packed);
            state.extent = Extent::Whole;
        }
    }

    /// Packs what came, and lets go of its JSON; of what types made of it too, unless there is room. Says
    /// whether there is something to learn of it.
    pub(crate) fn pack(&self, holder: impl Fn() -> Weak<dyn Evictable>) -> bool {
        let Some(context) = &self.context else {
            return false;
        };
        let Some(json) = self.state.read().packed.fresh() else {
            return false;
        };
        // First, so that what is packed is not laid behind what goes, which would leave a hole.
        self.settle_fresh_first(context.budget(), &holder);
        let (packed, due) = context.pack(&json);
        let (_gone, evictions) = {
            let mut state = self.state.write();
            // Whoever packed it meanwhile has done the rest too.
            let is_as_it_was = state.packed.fresh();
            if is_as_it_was.is_none_or(|now| !Arc::ptr_eq(&now, &json)) {
                return due;
            }
            self.replace_packed(&mut state, packed);
            self.settle_fresh(&mut state, context.budget(), &holder)
        };
        evictions.evict_all();
        due
    }

    fn settle_fresh_first(&self, budget: &Budget, holder: impl Fn() -> Weak<dyn Evictable>) {
        let (_gone, evictions) = self.settle_fresh(&mut self.state.write(), budget, holder);
        evictions.evict_all();
    }

    /// Charges what was made of it while it was fresh, if it fits, and lets go of it else: it is answered
    /// to be dropped without a lock.
    fn settle_fresh(
        &self,
        state: &mut BodyState,
        budget: &Budget,
        holder: impl Fn() -> Weak<dyn Evictable>,
    ) -> (Vec<Form>, Evictions) {
        let charge = state.charge;
        if charge == 0 {
            return Default::default();
        }
        match state.admit(budget, charge, holder, Admission::IfRoom) {
            Some(evictions) => (Vec::new(), evictions),
            None => {
                let gone = self.remove_forms(state, |form| form.decoded.is_err());
                (gone, Evictions::default())
            }
        }
    }

    /// Packs anew what was packed by no dictionary, or another one. Says whether it was.
    pub(crate) fn repack(&self) -> bool {
        let Some(context) = &self.context else {
            return false;
        };
        let packed = self.state.read().packed.clone();
        let Some(again) = context.repack(&packed) else {
            return false;
        };
        let mut state = self.state.write();
        // Completed meanwhile, it is another.
        if state.packed.is(&packed) {
            self.replace_packed(&mut state, again);
        }
        true
    }

    /// Looks at its JSON.
    pub(crate) fn with_json<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let packed = self.state.read().packed.clone();
        self.context.as_ref()?.unpack(&packed, look).ok()
    }

    /// In place of what is held.
    fn replace_packed(&self, state: &mut BodyState, packed: Packed) {
        let before = state.counted();
        self.length.store(length(&packed), Ordering::Relaxed);
        state.packed = packed;
        if let Some(gauges) = self.gauges() {
            gauges.pack(before, state.counted());
        }
    }

    // ----- what types made of it -----

    /// Lets go of what these types made of it.
    pub(crate) fn forget(&self, types: &[TypeId]) {
        if let Some(context) = &self.context {
            let bits = types
                .iter()
                .fold(0, |bits, of| bits | context.type_bit(*of));
            self.reads_as.fetch_and(!bits, Ordering::Relaxed);
        }
        // Freeing what is large takes a while, and needs no lock.
        let (_gone, evictions) = self.retain(|form| !types.contains(&form.of));
        evictions.evict_all();
    }

    /// Lets go of the other forms, which are answered to be dropped without a lock.
    fn retain(&self, stays: impl Fn(&Form) -> bool) -> (Vec<Form>, Evictions) {
        let mut state = self.state.write();
        let gone = self.remove_forms(&mut state, stays);
        let (charge, is_decoded) = (state.charge, state.forms.is_decoded());
        let mut evictions = Evictions::default();
        if let Some(context) = &self.context {
            let budget = context.budget();
            if !is_decoded {
                budget.release(std::mem::take(&mut state.slot));
            } else if let Some(others) = budget.charge(state.slot, charge) {
                evictions = others;
            }
        }
        (gone, evictions)
    }

    /// Takes the other forms out, and no longer counts them.
    fn remove_forms(&self, state: &mut BodyState, stays: impl Fn(&Form) -> bool) -> Vec<Form> {
        let before = state.charge;
        let mut forms = state.forms.take(before);
        let gone = forms.extract_if(.., |form| !stays(form)).collect();
        let charge = forms.iter().map(|form| form.charge).sum();
        state.forms = Forms::of(forms);
        self.count(state, charge);
        gone
    }

    fn count(&self, state: &mut BodyState, charge: usize) {
        let before = std::mem::replace(&mut state.charge, charge);
        if let Some(gauges) = self.gauges() {
            gauges.decode(before, charge);
        }
    }

    fn gauges(&self) -> Option<&Gauges> {
        self.context.as_ref()?.counters().gauges()
    }

    fn type_bit<K: Object>(&self) -> u8 {
        let context = self.context.as_ref();
        context.map_or(0, |context| context.type_bit(TypeId::of::<K>()))
    }
}

impl Body {
    /// Whether it was read since this was last asked.
    pub(crate) fn take_visited(&self) -> bool {
        self.visited.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn evicted_at(&self) -> &AtomicU32 {
        &self.evicted_at
    }

    /// Lets go of all that is decoded.
    pub(crate) fn evict(&self) {
        let (gone, evictions) = self.retain(|form| form.decoded.is_err());
        if let Some(context) = self.context.as_ref().filter(|_| !gone.is_empty()) {
            context.counters().evict();
        }
        evictions.evict_all();
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let Some(context) = &self.context else {
            return;
        };
        context.remove_body();
        let state = self.state.get_mut();
        context.budget().release(state.slot);
        if let Some(gauges) = context.counters().gauges() {
            gauges.pack(state.counted(), 0);
            gauges.decode(state.charge, 0);
        }
    }
}

impl BodyState {
    /// Charges its place with so much, or gets it one (PACK-2); none where there is no room. Answers who
    /// has to go for that, once no lock is held.
    fn admit(
        &mut self,
        budget: &Budget,
        charge: usize,
        holder: impl Fn() -> Weak<dyn Evictable>,
        room: Admission,
    ) -> Option<Evictions> {
        if let Some(evictions) = budget.charge(self.slot, charge) {
            return Some(evictions);
        }
        budget.release(std::mem::take(&mut self.slot));
        let (slot, evictions) = match room {
            Admission::Evicting => budget.admit(holder(), charge)?,
            Admission::IfRoom => (
                budget.admit_if_room(holder(), charge)?,
                Evictions::default(),
            ),
        };
        self.slot = slot;
        Some(evictions)
    }

    /// How much is packed: what has not been tried will be in a moment.
    fn counted(&self) -> usize {
        match &self.packed {
            Packed::Fresh(_) => 0,
            packed => packed.size(),
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
