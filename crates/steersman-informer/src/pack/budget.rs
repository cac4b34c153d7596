//! Handle: how many bytes of decoded bodies are kept, by all who share one budget.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::pack::codec::Codec;
use crate::pack::s3_fifo::S3Fifo;

pub(crate) use crate::pack::s3_fifo::{Evictable, Evictions, SlotId};

/// What is kept decoded where nobody says otherwise.
const DEFAULT: usize = 64 << 20;

/// How many bytes of decoded objects are kept, by all informers that have a clone of it.
///
/// Every object is held packed; this many bytes of them are held decoded as well, those that are read
/// again and again. A read of another one decodes it. How much a decoded object takes is estimated,
/// and so is what this bounds.
#[derive(Clone)]
pub struct Budget {
    state: Arc<BudgetState>,
}

struct BudgetState {
    limit: Option<usize>,
    s3_fifo: Mutex<S3Fifo>,
    codec: Codec,
}

impl Budget {
    /// So many bytes; 0 keeps nothing decoded.
    #[must_use]
    pub fn bytes(bytes: usize) -> Self {
        Self::new(Some(bytes))
    }

    /// Everything that was decoded is kept.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(None)
    }

    /// So many bytes, or everything.
    #[must_use]
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

    /// How many bytes are kept at most; `None` where everything is.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        self.state.limit
    }

    /// How many bytes are charged now; 0 where there is no limit.
    #[must_use]
    pub fn charged(&self) -> usize {
        self.state.s3_fifo.lock().charged()
    }

    pub(crate) fn codec(&self) -> &Codec {
        &self.state.codec
    }

    /// Takes in what was decoded, if it is not larger than all there may be (PACK-2). The holder may hold
    /// its own lock.
    pub(crate) fn admit(
        &self,
        holder: Weak<dyn Evictable>,
        charge: usize,
    ) -> Option<(SlotId, Evictions)> {
        let Some(limit) = self.state.limit else {
            return Some(Default::default());
        };
        let mut s3_fifo = self.state.s3_fifo.lock();
        (charge <= limit).then(|| s3_fifo.admit(holder, charge, limit))
    }

    /// As [`admit`](Self::admit), where nobody has to go for it: nobody has read it yet (PACK-3).
    pub(crate) fn admit_if_room(
        &self,
        holder: Weak<dyn Evictable>,
        charge: usize,
    ) -> Option<SlotId> {
        let Some(limit) = self.state.limit else {
            return Some(SlotId::NONE);
        };
        self.state
            .s3_fifo
            .lock()
            .admit_if_room(holder, charge, limit)
    }

    /// A holder holds another amount from now on; none where it has been told to go.
    pub(crate) fn charge(&self, slot: SlotId, charge: usize) -> Option<Evictions> {
        let limit = self.state.limit?;
        self.state.s3_fifo.lock().charge(slot, charge, limit)
    }

    /// A holder gives its place back.
    pub(crate) fn release(&self, slot: SlotId) {
        if slot != SlotId::NONE {
            self.state.s3_fifo.lock().release(slot);
        }
    }
}

impl Default for Budget {
    /// 64 MiB.
    fn default() -> Self {
        Self::bytes(DEFAULT)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("limit", &self.limit())
            .field("charged", &self.charged())
            .finish()
    }
}
