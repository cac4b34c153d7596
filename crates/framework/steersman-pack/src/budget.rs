//! Handle: the memory budget for decoded bodies, shared by many kinds.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::codec::Codec;
use crate::s3_fifo::{Evictable, Evictions, S3Fifo, SlotId};

/// The default budget, in bytes.
const DEFAULT: usize = 64 << 20;

/// A limit on the bytes of decoded objects. All kinds with a clone of the budget share the limit.
///
/// Every object is held packed. Within the budget the objects that are read repeatedly are cached
/// decoded; a read of any other object decodes it. The size of a decoded object is an estimate.
#[derive(Clone, derive_more::Debug)]
#[debug("Budget {{ limit: {:?}, charged: {:?} }}", self.limit(), self.charged())]
pub struct Budget {
    state: Arc<BudgetState>,
}

struct BudgetState {
    limit: Option<usize>,
    s3_fifo: Mutex<S3Fifo>,
    codec: Codec,
}

impl Budget {
    /// Makes a budget of this many bytes; 0 caches no decoded object.
    pub fn bytes(bytes: usize) -> Self {
        Self::new(Some(bytes))
    }

    /// Makes a budget without a limit: every decoded object stays cached.
    pub fn unlimited() -> Self {
        Self::new(None)
    }

    /// Makes a budget of this many bytes; without a limit for `None`.
    pub fn new(limit: Option<usize>) -> Self {
        let state = BudgetState {
            limit,
            s3_fifo: Mutex::default(),
            codec: Codec::default(),
        };
        Self {
            state: Arc::new(state),
        }
    }

    /// Returns the limit in bytes; `None` if there is none.
    pub fn limit(&self) -> Option<usize> {
        self.state.limit
    }

    /// Returns the bytes charged for cached objects; 0 without a limit.
    pub fn charged(&self) -> usize {
        self.state.s3_fifo.lock().charged()
    }

    /// Returns the codec that packs and unpacks bodies.
    pub fn codec(&self) -> &Codec {
        &self.state.codec
    }

    /// Admits a decoded body unless it alone exceeds the limit (PACK-2). The caller may hold a lock: evictions follow.
    pub fn admit(&self, holder: Weak<dyn Evictable>, charge: usize) -> Option<(SlotId, Evictions)> {
        let Some(limit) = self.state.limit else {
            return Some(Default::default());
        };
        let mut s3_fifo = self.state.s3_fifo.lock();
        (charge <= limit).then(|| s3_fifo.admit(holder, charge, limit))
    }

    /// Admits a body like [`admit`](Self::admit), but without evictions, because no reader has asked for it (PACK-3).
    pub fn admit_if_room(&self, holder: Weak<dyn Evictable>, charge: usize) -> Option<SlotId> {
        let Some(limit) = self.state.limit else {
            return Some(SlotId::NONE);
        };
        self.state
            .s3_fifo
            .lock()
            .admit_if_room(holder, charge, limit)
    }

    /// Changes the charge of a body. Returns `None` if the body has been evicted.
    pub fn charge(&self, slot: SlotId, charge: usize) -> Option<Evictions> {
        let limit = self.state.limit?;
        self.state.s3_fifo.lock().charge(slot, charge, limit)
    }

    /// Frees the slot of a body.
    pub fn release(&self, slot: SlotId) {
        if slot != SlotId::NONE {
            self.state.s3_fifo.lock().release(slot);
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::bytes(DEFAULT)
    }
}
