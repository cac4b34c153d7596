//! Machine: an object as a type reads it: what is at hand, or unpacked and decoded.

use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use steersman_api::decode_json;
use steersman_object::Object;

use super::{Body, Extent, Held, Room};
use crate::body::forms::{Form, Forms, Shown};
use crate::pack::{Broken, Holder, Leavers, Packed};

impl Body {
    /// The object as a `K`, where that is at hand. This is a read: it keeps the object at hand.
    pub(crate) fn at_hand<K: Object>(&self) -> Option<Shown<K>> {
        let form = self.held.read().forms.get::<K>()?;
        // Who reads what was read just now writes nothing that others wait for.
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
        if let Some(shelf) = &self.shelf {
            shelf.counters().hit();
        }
        Some(form)
    }

    /// The object as a `K`; decoded where that is not at hand, and kept within the budget.
    pub(crate) fn decoded<K: Object>(&self, holder: impl Fn() -> Weak<dyn Holder>) -> Shown<K> {
        match self.at_hand() {
            Some(form) => form,
            None => self.made(holder, Room::Made),
        }
    }

    /// The object as a `K`, for those who judge it as it arrives, or all there are: this is no read.
    pub(crate) fn judged<K: Object>(&self, holder: impl Fn() -> Weak<dyn Holder>) -> Shown<K> {
        self.shown()
            .unwrap_or_else(|| self.made(holder, Room::Found))
    }

    /// The object as a `K`, where that is at hand, for those who go over many: it does not count as read.
    pub(crate) fn shown<K: Object>(&self) -> Option<Shown<K>> {
        self.held.read().forms.get()
    }

    /// The object as a `K`: what is at hand, or decoded and not kept (VIEW-5, PACK-3).
    pub(crate) fn read<K: Object>(&self) -> Shown<K> {
        self.shown().unwrap_or_else(|| self.decode(|_| ()).0)
    }

    /// Whether it decodes as a `K`; it is decoded no second time to find that out. Nobody reads it yet.
    pub(crate) fn check<K: Object>(
        &self,
        holder: impl Fn() -> Weak<dyn Holder>,
    ) -> Result<(), Arc<str>> {
        let bit = self.bit::<K>();
        if bit != 0 && self.reads_as.load(Ordering::Relaxed) & bit != 0 {
            return Ok(());
        }
        self.judged::<K>(holder).map(drop)
    }

    /// Decodes it, and keeps what came of that where it may.
    fn made<K: Object>(&self, holder: impl Fn() -> Weak<dyn Holder>, room: Room) -> Shown<K> {
        let charge = |json: &[u8]| {
            let shelf = self.shelf.as_ref();
            shelf.map_or(0, |shelf| shelf.charge::<K>(json))
        };
        let (made, charge) = self.decode::<K, _>(charge);
        let Some(charge) = charge else {
            return made;
        };
        if made.is_ok() {
            self.reads_as.fetch_or(self.bit::<K>(), Ordering::Relaxed);
        }
        let form = Form {
            of: TypeId::of::<K>(),
            charge: if made.is_ok() { charge } else { 0 },
            decoded: made.clone().map(|object| object as _),
        };
        let leavers = {
            let mut held = self.held.write();
            // Another was faster: all share one.
            if let Some(form) = held.forms.get() {
                return form;
            }
            self.keep(&mut held, form, holder, room)
        };
        leavers.leave();
        made
    }

    /// The object as a `K`, and what `also` makes of its JSON; nothing of it where the answer may be
    /// another one later.
    fn decode<K: Object, R>(&self, also: impl FnOnce(&[u8]) -> R) -> (Shown<K>, Option<R>) {
        let packed = {
            let held = self.held.read();
            if Extent::of::<K>() > held.extent {
                return (Err("only its metadata is known".into()), None);
            }
            held.packed.clone()
        };
        // STORE-7: from here on no lock is held, however long the type takes.
        let quotes = self.shelf.as_ref().is_none_or(|shelf| shelf.quotes());
        let look = |json: &[u8]| (decode(json, quotes), Some(also(json)));
        let looked = match (&packed, &self.shelf) {
            (Packed::Fresh(json), _) => Ok(look(json)),
            (packed, Some(shelf)) => {
                shelf.counters().unpack();
                shelf.unpack(packed, look)
            }
            (_, None) => Err(Broken),
        };
        // It comes back (PACK-1), so this is for want of memory.
        looked.unwrap_or_else(|Broken| (Err("it does not unpack".into()), None))
    }

    /// Keeps a form, where the budget has room for it or makes some (PACK-2).
    fn keep(
        &self,
        held: &mut Held,
        form: Form,
        holder: impl Fn() -> Weak<dyn Holder>,
        room: Room,
    ) -> Leavers {
        let mut leavers = Leavers::default();
        let is_fresh = matches!(held.packed, Packed::Fresh(_));
        // What is made of it before it is packed is settled then: all who judge it share one.
        if let (Some(shelf), Ok(_), false) = (&self.shelf, &form.decoded, is_fresh) {
            let charge = held.charge + form.charge;
            match held.admit(shelf.budget(), charge, holder, room) {
                Some(others) => leavers = others,
                None => return leavers,
            }
            self.touched.store(false, Ordering::Relaxed);
        }
        let before = held.charge;
        let mut forms = held.forms.take(before);
        let charge = before + form.charge;
        forms.push(form);
        held.forms = Forms::of(forms);
        self.count(held, charge);
        leavers
    }
}

fn decode<K: Object>(json: &[u8], quotes: bool) -> Shown<K> {
    // An object may be kilobytes large: it is moved no more often than it has to be.
    let decode = || decode_json(json, quotes).map(Arc::new);
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(Arc::from),
        Err(_) => Err("its type panicked while decoding it".into()),
    }
}
