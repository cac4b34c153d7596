//! Handle: how many bytes of decoded bodies are kept, by all who share one budget.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::pack::codec::Tools;
use crate::pack::ring::Ring;

pub(crate) use crate::pack::ring::{Holder, Leavers, Place};

/// What is kept decoded where nobody says otherwise.
const DEFAULT: usize = 64 << 20;

/// How many bytes of decoded objects are kept, by all informers that have a clone of it.
///
/// Every object is held packed; this many bytes of them are held decoded as well, those that are read
/// again and again. A read of another one decodes it. How much a decoded object takes is estimated,
/// and so is what this bounds.
#[derive(Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    limit: Option<usize>,
    ring: Mutex<Ring>,
    tools: Tools,
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
        let shared = Shared {
            limit,
            ring: Mutex::default(),
            tools: Tools::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// How many bytes are kept at most; `None` where everything is.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        self.shared.limit
    }

    /// How many bytes are charged now; 0 where there is no limit.
    #[must_use]
    pub fn charged(&self) -> usize {
        self.shared.ring.lock().charged()
    }

    pub(crate) fn tools(&self) -> &Tools {
        &self.shared.tools
    }

    /// Takes in what was decoded, if it is not larger than all there may be (PACK-2). The holder may hold
    /// its own lock.
    pub(crate) fn admit(
        &self,
        holder: Weak<dyn Holder>,
        charge: usize,
    ) -> Option<(Place, Leavers)> {
        let Some(limit) = self.shared.limit else {
            return Some(Default::default());
        };
        let mut ring = self.shared.ring.lock();
        (charge <= limit).then(|| ring.admit(holder, charge, limit))
    }

    /// As [`admit`](Self::admit), where nobody has to go for it: nobody has read it yet (PACK-3).
    pub(crate) fn admit_if_room(&self, holder: Weak<dyn Holder>, charge: usize) -> Option<Place> {
        let Some(limit) = self.shared.limit else {
            return Some(Place::NONE);
        };
        self.shared.ring.lock().admit_if_room(holder, charge, limit)
    }

    /// A holder holds another amount from now on; none where it has been told to go.
    pub(crate) fn charge(&self, place: Place, charge: usize) -> Option<Leavers> {
        let limit = self.shared.limit?;
        self.shared.ring.lock().charge(place, charge, limit)
    }

    /// A holder gives its place back.
    pub(crate) fn release(&self, place: Place) {
        if place != Place::NONE {
            self.shared.ring.lock().release(place);
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
