//! Handle: the body of one object: its compressed JSON, and the Rust values decoded from the JSON.

mod context;
mod forms;
mod read;

use std::any::TypeId;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use steersman_api::{Conformity, Projection, RawObject};
use steersman_object::Object;

use crate::body::forms::{DecodedForm, Forms};
use crate::metrics::gauges::Gauges;
use steersman_pack::{Budget, Evictable, Evictions, Packed, SlotId};

pub(crate) use crate::body::context::BodyContext;
pub(crate) use crate::body::forms::DecodeResult;

/// The body of one object: its JSON, and the values decoded from it. All readers of the object share them (STORE-2).
///
/// The lock is held only to read or swap fields: no reader waits while JSON is packed, unpacked or decoded (STORE-7).
pub(crate) struct Body {
    /// The state that all bodies of the informer share; `None` for an object of no informer: its body is never packed.
    context: Option<Arc<BodyContext>>,
    state: RwLock<BodyState>,
    /// The length of the JSON, in bytes. It is kept outside the lock, because each change of the store reads it.
    length: AtomicU32,
    /// Whether the body was read since the budget last cleared this flag. A set flag delays the eviction of the values.
    pub(crate) visited: AtomicBool,
    /// The time of the last eviction, for [`Evictable::evicted_at`]: values decoded again soon after it stay longer.
    pub(crate) evicted_at: AtomicU32,
    /// One bit for each of the first eight Rust types: set once the body decoded as the type, to save later checks.
    reads_as: AtomicU8,
}

struct BodyState {
    packed: Packed,
    projection: Projection,
    conformity: Conformity,
    forms: Forms,
    /// The memory of the decoded values, in bytes. Once the body is packed, the budget counts these bytes under `slot`.
    charge: usize,
    slot: SlotId,
}

/// How a decoded value gets room in the memory budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormAdmission {
    /// For a read: decoded values of other bodies are evicted if the budget is spent.
    Evicting,
    /// For an object decoded on arrival: nothing is evicted for the value, because it may never be read.
    IfRoom,
}

impl Body {
    pub(crate) fn new(
        json: Box<[u8]>,
        conformity: Conformity,
        projection: Projection,
        context: &Arc<BodyContext>,
    ) -> Self {
        context.pack.add_body();
        let packed = Packed::Fresh(Arc::new(json));
        let mut body = Self::with(packed, projection, Some(Arc::clone(context)));
        body.state.get_mut().conformity = conformity;
        body
    }

    pub(crate) fn of<K: Object>(object: &Arc<K>) -> Self {
        let json = serde_json::to_vec(&**object).unwrap_or_default();
        let packed = Packed::Fresh(Arc::new(json.into_boxed_slice()));
        let body = Self::with(packed, Projection::EveryField, None);
        body.state.write().forms = Forms::One(Arc::clone(object) as _);
        body
    }

    fn with(packed: Packed, projection: Projection, context: Option<Arc<BodyContext>>) -> Self {
        let length = AtomicU32::new(length(&packed));
        let state = BodyState {
            packed,
            projection,
            conformity: Conformity::Unchecked,
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

    /// Returns the length of the JSON, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.length.load(Ordering::Relaxed) as usize
    }

    /// Returns whether the stored JSON has at least the part of the object that `projection` names, such as metadata.
    pub(crate) fn holds(&self, projection: Projection) -> bool {
        self.state.read().projection >= projection
    }

    /// Returns whether the JSON is known to decode as the built-in Rust type of its kind (VIEW-8).
    pub(crate) fn is_of_its_kind(&self) -> bool {
        self.state.read().conformity == Conformity::OfItsKind
    }

    /// Replaces the JSON by `more`, if it is a larger `projection` of the same version (VIEW-3). Decoded values stay.
    pub(crate) fn complete(&self, more: RawObject, projection: Projection) {
        let mut state = self.state.write();
        if state.projection < projection {
            state.conformity = more.conformity();
            self.replace_packed(&mut state, Packed::Fresh(Arc::new(more.into_parts().1)));
            state.projection = projection;
        }
    }

    /// Replaces the JSON as [`complete`](Self::complete) does, by the JSON of another body of the same version.
    pub(crate) fn complete_as(&self, other: &Self) {
        // `self` and `other` may be the same body, so their locks are never held together.
        let held = self.state.read().projection;
        if held == Projection::EveryField {
            return;
        }
        let more = {
            let other = other.state.read();
            (other.projection > held)
                .then(|| (other.packed.clone(), other.projection, other.conformity))
        };
        if let Some((packed, projection, conformity)) = more {
            let mut state = self.state.write();
            self.replace_packed(&mut state, packed);
            (state.projection, state.conformity) = (projection, conformity);
        }
    }

    /// Packs (compresses) JSON that is not packed yet. Counts the decoded values in the memory budget, or drops them if
    /// there is no room. Returns whether a new compression dictionary should be trained.
    pub(crate) fn pack(&self, holder: impl Fn() -> Weak<dyn Evictable>) -> bool {
        let Some(context) = &self.context else {
            return false;
        };
        let Some(json) = self.state.read().packed.fresh() else {
            return false;
        };
        // Decoded values that find no room are freed before packing, so that the packed bytes can take their memory.
        let budget = context.pack.budget();
        let (gone, evictions) = self.settle_fresh(&mut self.state.write(), budget, &holder);
        evictions.evict_all();
        drop(gone);
        let (packed, due) = context.pack.pack(&json);
        let (_gone, evictions) = {
            let mut state = self.state.write();
            // If another thread has packed the body or replaced its JSON meanwhile, this result is dropped.
            let is_as_it_was = state.packed.fresh();
            if is_as_it_was.is_none_or(|now| !Arc::ptr_eq(&now, &json)) {
                return due;
            }
            self.replace_packed(&mut state, packed);
            self.settle_fresh(&mut state, budget, &holder)
        };
        evictions.evict_all();
        due
    }

    /// Counts the decoded values of an unpacked body in the budget. Without room, removes and returns the values.
    fn settle_fresh(
        &self,
        state: &mut BodyState,
        budget: &Budget,
        holder: impl Fn() -> Weak<dyn Evictable>,
    ) -> (Vec<DecodedForm>, Evictions) {
        let charge = state.charge;
        if charge == 0 {
            return Default::default();
        }
        match state.admit(budget, charge, holder, FormAdmission::IfRoom) {
            Some(evictions) => (Vec::new(), evictions),
            None => {
                let gone = self.remove_forms(state, |form| form.decoded.is_err());
                (gone, Evictions::default())
            }
        }
    }

    /// Packs the JSON again if its dictionary is outdated or a newer one packs it better. Returns whether it did so.
    pub(crate) fn repack(&self) -> bool {
        let Some(context) = &self.context else {
            return false;
        };
        let packed = self.state.read().packed.clone();
        let Some(again) = context.pack.repack(&packed) else {
            return false;
        };
        let mut state = self.state.write();
        // If another thread has replaced the JSON by a fuller one meanwhile, the fuller one stays.
        if state.packed.is(&packed) {
            self.replace_packed(&mut state, again);
        }
        true
    }

    /// Returns the result of `look` for the JSON; `None` if the body cannot be unpacked.
    pub(crate) fn with_json<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let packed = self.state.read().packed.clone();
        self.context.as_ref()?.pack.unpack(&packed, look).ok()
    }

    /// Returns whether the stored JSON equals `json`. Returns true without comparing if the stored JSON has another
    /// projection, or if objects of the kind never change without a new resource version (`changes_form` is false).
    pub(crate) fn has_form(&self, json: &[u8], projection: Projection) -> bool {
        let context = self.context.as_ref();
        let is_comparable = context.is_some_and(|context| context.changes_form)
            && self.state.read().projection == projection;
        // A body that cannot be unpacked counts as different, so that it is replaced.
        !is_comparable || self.with_json(|own| own == json) == Some(true)
    }

    /// Returns whether the JSON of both bodies is equal, compared as [`has_form`](Self::has_form) does.
    pub(crate) fn has_form_of(&self, other: &Self) -> bool {
        let projection = other.state.read().projection;
        let is_same = other.with_json(|json| self.has_form(json, projection));
        is_same.unwrap_or(true)
    }

    fn replace_packed(&self, state: &mut BodyState, packed: Packed) {
        let before = state.counted();
        self.length.store(length(&packed), Ordering::Relaxed);
        state.packed = packed;
        if let Some(gauges) = self.gauges() {
            gauges.pack(before, state.counted());
        }
    }

    pub(crate) fn forget(&self, types: &[TypeId]) {
        if let Some(context) = &self.context {
            let bits = types
                .iter()
                .fold(0, |bits, of| bits | context.pack.type_bit(*of));
            self.reads_as.fetch_and(!bits, Ordering::Relaxed);
        }
        // The removed values may be large, so they are dropped after the lock is released.
        let (_gone, evictions) = self.retain(|form| !types.contains(&form.of));
        evictions.evict_all();
    }

    /// Keeps the decoded values for which `stays` returns true. Returns the others, to be dropped without the lock.
    fn retain(&self, stays: impl Fn(&DecodedForm) -> bool) -> (Vec<DecodedForm>, Evictions) {
        let mut state = self.state.write();
        let gone = self.remove_forms(&mut state, stays);
        let (charge, is_decoded) = (state.charge, state.forms.is_decoded());
        let mut evictions = Evictions::default();
        if let Some(context) = &self.context {
            let budget = context.pack.budget();
            if !is_decoded {
                budget.release(std::mem::take(&mut state.slot));
            } else if let Some(others) = budget.charge(state.slot, charge) {
                evictions = others;
            }
        }
        (gone, evictions)
    }

    /// Removes and returns the decoded values for which `stays` returns false.
    fn remove_forms(
        &self,
        state: &mut BodyState,
        stays: impl Fn(&DecodedForm) -> bool,
    ) -> Vec<DecodedForm> {
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
        self.context.as_ref()?.counters.gauges()
    }

    fn type_bit<K: Object>(&self) -> u8 {
        let context = self.context.as_ref();
        context.map_or(0, |context| context.pack.type_bit(TypeId::of::<K>()))
    }

    pub(crate) fn evict(&self) {
        let (gone, evictions) = self.retain(|form| form.decoded.is_err());
        if let Some(context) = self.context.as_ref().filter(|_| !gone.is_empty()) {
            context.counters.inc(|all| &all.evictions);
        }
        evictions.evict_all();
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let Some(context) = &self.context else {
            return;
        };
        context.pack.remove_body();
        let state = self.state.get_mut();
        context.pack.budget().release(state.slot);
        if let Some(gauges) = context.counters.gauges() {
            gauges.pack(state.counted(), 0);
            gauges.decode(state.charge, 0);
        }
    }
}

impl BodyState {
    /// Counts `charge` bytes of decoded values in the body's slot of the budget, or in a new slot (PACK-2). Returns
    /// `None` if there is no room, and otherwise the evictions of other bodies, to be carried out without the lock.
    fn admit(
        &mut self,
        budget: &Budget,
        charge: usize,
        holder: impl Fn() -> Weak<dyn Evictable>,
        room: FormAdmission,
    ) -> Option<Evictions> {
        if let Some(evictions) = budget.charge(self.slot, charge) {
            return Some(evictions);
        }
        budget.release(std::mem::take(&mut self.slot));
        let (slot, evictions) = match room {
            FormAdmission::Evicting => budget.admit(holder(), charge)?,
            FormAdmission::IfRoom => (
                budget.admit_if_room(holder(), charge)?,
                Evictions::default(),
            ),
        };
        self.slot = slot;
        Some(evictions)
    }

    /// Returns the size of the packed JSON for the metrics, in bytes. Unpacked JSON counts as 0: it is packed soon.
    fn counted(&self) -> usize {
        match &self.packed {
            Packed::Fresh(_) => 0,
            packed => packed.size(),
        }
    }
}

fn length(packed: &Packed) -> u32 {
    u32::try_from(packed.length()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
