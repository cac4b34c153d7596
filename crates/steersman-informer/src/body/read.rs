//! Handle: reads of a body as one type: the cached form, or its JSON unpacked and decoded.

use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use steersman_api::decode_json;
use steersman_object::Object;

use super::{Admission, Body, BodyState, Extent};
use crate::body::forms::{DecodeResult, Form, Forms};
use crate::pack::{Broken, Evictable, Evictions, Packed};

impl Body {
    /// The object as a `K`, where that is at hand. This is a read: it keeps the object at hand.
    pub(crate) fn cached<K: Object>(&self) -> Option<DecodeResult<K>> {
        let form = self.state.read().forms.get::<K>()?;
        // Who reads what was read just now writes nothing that others wait for.
        if !self.visited.load(Ordering::Relaxed) {
            self.visited.store(true, Ordering::Relaxed);
        }
        if let Some(context) = &self.context {
            context.counters().hit();
        }
        Some(form)
    }

    /// The object as a `K`; decoded where that is not at hand, and kept within the budget.
    pub(crate) fn decoded<K: Object>(
        &self,
        holder: impl Fn() -> Weak<dyn Evictable>,
    ) -> DecodeResult<K> {
        match self.cached() {
            Some(form) => form,
            None => self.decode_and_cache(holder, Admission::Evicting),
        }
    }

    /// The object as a `K`, for those who judge it as it arrives, or all there are: this is no read.
    pub(crate) fn decode_if_room<K: Object>(
        &self,
        holder: impl Fn() -> Weak<dyn Evictable>,
    ) -> DecodeResult<K> {
        self.peek()
            .unwrap_or_else(|| self.decode_and_cache(holder, Admission::IfRoom))
    }

    /// The object as a `K`, where that is at hand, for those who go over many: it does not count as read.
    pub(crate) fn peek<K: Object>(&self) -> Option<DecodeResult<K>> {
        self.state.read().forms.get()
    }

    /// The object as a `K`: what is at hand, or decoded and not kept (VIEW-5, PACK-3).
    pub(crate) fn decode_once<K: Object>(&self) -> DecodeResult<K> {
        self.peek().unwrap_or_else(|| self.decode(|_| ()).0)
    }

    /// Whether it decodes as a `K`; it is decoded no second time to find that out. Nobody reads it yet.
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

    /// Decodes it, and keeps what came of that where it may.
    fn decode_and_cache<K: Object>(
        &self,
        holder: impl Fn() -> Weak<dyn Evictable>,
        room: Admission,
    ) -> DecodeResult<K> {
        let charge = |json: &[u8]| {
            let context = self.context.as_ref();
            context.map_or(0, |context| context.charge::<K>(json))
        };
        let (decoded, charge) = self.decode::<K, _>(charge);
        let Some(charge) = charge else {
            return decoded;
        };
        if decoded.is_ok() {
            self.reads_as
                .fetch_or(self.type_bit::<K>(), Ordering::Relaxed);
        }
        let form = Form {
            of: TypeId::of::<K>(),
            charge: if decoded.is_ok() { charge } else { 0 },
            decoded: decoded.clone().map(|object| object as _),
        };
        let evictions = {
            let mut state = self.state.write();
            // Another was faster: all share one.
            if let Some(form) = state.forms.get() {
                return form;
            }
            self.keep(&mut state, form, holder, room)
        };
        evictions.evict_all();
        decoded
    }

    /// The object as a `K`, and what `also` makes of its JSON; nothing of it where the answer may be
    /// another one later.
    fn decode<K: Object, R>(&self, also: impl FnOnce(&[u8]) -> R) -> (DecodeResult<K>, Option<R>) {
        let packed = {
            let state = self.state.read();
            if Extent::of::<K>() > state.extent {
                return (Err("only its metadata is known".into()), None);
            }
            state.packed.clone()
        };
        // STORE-7: from here on no lock is held, however long the type takes.
        let quotes = self.context.as_ref().is_none_or(|context| context.quotes());
        let look = |json: &[u8]| (decode(json, quotes), Some(also(json)));
        let looked = match (&packed, &self.context) {
            (Packed::Fresh(json), _) => Ok(look(json)),
            (packed, Some(context)) => {
                context.counters().unpack();
                context.unpack(packed, look)
            }
            (_, None) => Err(Broken),
        };
        // It comes back (PACK-1), so this is for want of memory.
        looked.unwrap_or_else(|Broken| (Err("it does not unpack".into()), None))
    }

    /// Keeps a form, where the budget has room for it or makes some (PACK-2).
    fn keep(
        &self,
        state: &mut BodyState,
        form: Form,
        holder: impl Fn() -> Weak<dyn Evictable>,
        room: Admission,
    ) -> Evictions {
        let mut evictions = Evictions::default();
        let is_fresh = matches!(state.packed, Packed::Fresh(_));
        // What is made of it before it is packed is settled then: all who judge it share one.
        if let (Some(context), Ok(_), false) = (&self.context, &form.decoded, is_fresh) {
            let charge = state.charge + form.charge;
            match state.admit(context.budget(), charge, holder, room) {
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
    // An object may be kilobytes large: it is moved no more often than it has to be.
    let decode = || decode_json(json, quotes).map(Arc::new);
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(Arc::from),
        Err(_) => Err("its type panicked while decoding it".into()),
    }
}
