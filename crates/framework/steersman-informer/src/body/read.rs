//! Handle: reads a body as one Rust type: from the cached value, or by decompressing and decoding its JSON.

use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::{MappedRwLockReadGuard, RwLockReadGuard};
use steersman_object::{Object, decode_json};

use super::{Body, BodyState, FormAdmission};
use crate::body::forms::{AnyDecoded, DecodeResult, DecodedForm, Forms};
use steersman_api::Projection;
use steersman_pack::{Broken, Evictable, Evictions, Packed};

impl Body {
    /// Returns the cached object decoded as a `K`, or its decode error. The call counts as a read: it delays eviction.
    pub(crate) fn cached<K: Object>(&self) -> Option<DecodeResult<K>> {
        let form = self.state.read().forms.get::<K>()?;
        // A second read writes nothing, so that other cores keep the cache line of the flag.
        if !self.visited.load(Ordering::Relaxed) {
            self.visited.store(true, Ordering::Relaxed);
        }
        if let Some(context) = &self.context {
            context.counters.inc(|all| &all.hits);
        }
        Some(form)
    }

    /// Returns the object decoded as a `K`, and caches it if the budget can make room. The call counts as a read.
    pub(crate) fn decoded<K: Object>(
        &self,
        holder: impl Fn() -> Weak<dyn Evictable>,
    ) -> DecodeResult<K> {
        match self.cached() {
            Some(form) => form,
            None => self.decode_and_cache(holder, FormAdmission::Evicting),
        }
    }

    /// Returns the object decoded as a `K`, for objects that are decoded on arrival. The value is cached only if the
    /// budget has room without an eviction, and the call does not count as a read.
    pub(crate) fn decode_if_room<K: Object>(
        &self,
        holder: impl Fn() -> Weak<dyn Evictable>,
    ) -> DecodeResult<K> {
        self.peek()
            .unwrap_or_else(|| self.decode_and_cache(holder, FormAdmission::IfRoom))
    }

    /// Returns the cached object decoded as a `K`, or its decode error, without counting as a read.
    pub(crate) fn peek<K: Object>(&self) -> Option<DecodeResult<K>> {
        self.state.read().forms.get()
    }

    /// Returns the cached object decoded as a `K`; `None` if there is none, or if a writer holds the body's lock. The
    /// call does not count as a read, so it does not delay the eviction of the object.
    pub(crate) fn try_peek<K: Object>(&self) -> Option<MappedRwLockReadGuard<'_, AnyDecoded>> {
        let state = self.state.try_read()?;
        RwLockReadGuard::try_map(state, |state| state.forms.object::<K>()).ok()
    }

    pub(crate) fn is_visited(&self) -> bool {
        self.visited.load(Ordering::Relaxed)
    }

    /// Returns the object as a `K`: the cached value, or a value that is decoded for this call alone (VIEW-5, PACK-3).
    pub(crate) fn decode_once<K: Object>(&self) -> DecodeResult<K> {
        self.peek().unwrap_or_else(|| self.decode(|_| ()).0)
    }

    /// Checks whether the body decodes as a `K`. A body that has decoded as `K` before is not decoded again.
    pub(crate) fn check<K: Object>(
        &self,
        holder: impl Fn() -> Weak<dyn Evictable>,
    ) -> Result<(), Arc<str>> {
        let type_bit = self.type_bit::<K>();
        if type_bit != 0 && self.reads_as.load(Ordering::Relaxed) & type_bit != 0 {
            return Ok(());
        }
        self.decode_if_room::<K>(holder).map(drop)
    }

    fn decode_and_cache<K: Object>(
        &self,
        holder: impl Fn() -> Weak<dyn Evictable>,
        room: FormAdmission,
    ) -> DecodeResult<K> {
        let charge = |json: &[u8]| {
            let context = self.context.as_ref();
            context.map_or(0, |context| context.pack.charge::<K>(json))
        };
        let (decoded, charge) = self.decode::<K, _>(charge);
        let Some(charge) = charge else {
            return decoded;
        };
        if decoded.is_ok() {
            self.reads_as
                .fetch_or(self.type_bit::<K>(), Ordering::Relaxed);
        }
        let form = DecodedForm {
            of: TypeId::of::<K>(),
            charge: if decoded.is_ok() { charge } else { 0 },
            decoded: decoded.clone().map(|object| object as _),
        };
        let evictions = {
            let mut state = self.state.write();
            // Another thread has decoded the body as a `K` meanwhile, so both threads share its value.
            if let Some(form) = state.forms.get() {
                return form;
            }
            self.keep(&mut state, form, holder, room)
        };
        evictions.evict_all();
        decoded
    }

    /// Decodes the body, and calls `also` with its JSON. The second value is the result of `also`. It is `None` if the
    /// JSON lacks a part that `K` needs or cannot be unpacked: a later call may succeed, so the error is not cached.
    fn decode<K: Object, R>(&self, also: impl FnOnce(&[u8]) -> R) -> (DecodeResult<K>, Option<R>) {
        let packed = {
            let state = self.state.read();
            if Projection::of::<K>() > state.projection {
                return (Err("not enough of the object is held".into()), None);
            }
            state.packed.clone()
        };
        // STORE-7: no lock is held while decoding.
        let quotes = self.context.as_ref().is_none_or(|context| context.quotes);
        let look = |json: &[u8]| (decode(json, quotes), Some(also(json)));
        let looked = match (&packed, &self.context) {
            (Packed::Fresh(json), _) => Ok(look(json)),
            (packed, Some(context)) => {
                context.counters.inc(|all| &all.unpacks);
                context.pack.unpack(packed, look)
            }
            (_, None) => Err(Broken),
        };
        // Packed bytes always unpack (PACK-1), so unpacking fails only for want of memory.
        looked.unwrap_or_else(|Broken| (Err("the object could not be unpacked".into()), None))
    }

    /// Caches a decoded value if the budget admits the value as `room` says (PACK-2).
    fn keep(
        &self,
        state: &mut BodyState,
        form: DecodedForm,
        holder: impl Fn() -> Weak<dyn Evictable>,
        room: FormAdmission,
    ) -> Evictions {
        let mut evictions = Evictions::default();
        let is_fresh = matches!(state.packed, Packed::Fresh(_));
        // Values decoded before the body is packed are kept without the budget; packing counts them.
        if let (Some(context), Ok(_), false) = (&self.context, &form.decoded, is_fresh) {
            let charge = state.charge + form.charge;
            match state.admit(context.pack.budget(), charge, holder, room) {
                Some(others) => evictions = others,
                None => return evictions,
            }
            self.visited.store(false, Ordering::Relaxed);
        }
        let before = state.charge;
        let mut forms = state.forms.take(before);
        let charge = before + form.charge;
        forms.push(form);
        state.forms = Forms::of(forms);
        self.count(state, charge);
        evictions
    }
}

fn decode<K: Object>(json: &[u8], quotes: bool) -> DecodeResult<K> {
    // The object is moved into an `Arc` at once, because it may take kilobytes of the stack.
    let decode = || decode_json(json, quotes).map(Arc::new);
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(Arc::from),
        Err(_) => Err("its type panicked while decoding it".into()),
    }
}
