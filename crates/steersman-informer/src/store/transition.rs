//! Machine: what a relist means for an object that is stored.

use steersman_api::{Decoded, Malformed};

use crate::delta::Item;
use crate::entry::RawEntry;

/// What a relist says of one key.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It is there for the first time.
    Appeared(RawEntry),
    /// It is there at the version that is stored: the stored entry stays, and nothing happened. It may
    /// have been listed with more of it than is stored.
    Same { old: RawEntry, new: RawEntry },
    /// It changed.
    Changed { old: RawEntry, new: RawEntry },
    /// The stored one went while nobody looked, and another has its name now.
    Recreated { old: RawEntry, new: RawEntry },
    /// It no longer decodes; the last good version stays readable.
    PeekGuard(RawEntry),
    /// It is not there, or it is another object that does not decode.
    Gone(RawEntry),
    /// It never decoded.
    Nothing,
}

/// Compares what is stored under a key with what a relist brought for it.
pub(crate) fn fate(stored: Option<&RawEntry>, listed: Option<&Item>) -> Fate {
    match (stored, listed) {
        (None, Some(Decoded::Good(new))) => Fate::Appeared(new.clone()),
        (Some(old), Some(Decoded::Good(new))) if new.is_same_version_as(old) => Fate::Same {
            old: old.clone(),
            new: new.clone(),
        },
        (Some(old), Some(Decoded::Good(new))) => {
            let (same, old, new) = (new.is_same_as(old), old.clone(), new.clone());
            if same {
                Fate::Changed { old, new }
            } else {
                Fate::Recreated { old, new }
            }
        }
        (Some(old), Some(Decoded::Malformed(malformed))) if is_of(malformed, old) => {
            Fate::PeekGuard(old.clone())
        }
        (Some(old), Some(Decoded::Malformed(_)) | None) => Fate::Gone(old.clone()),
        (None, Some(Decoded::Malformed(_)) | None) => Fate::Nothing,
    }
}

/// Whether a malformed object is the stored one; without a readable uid it is taken for it.
pub(crate) fn is_of(malformed: &Malformed, stored: &RawEntry) -> bool {
    malformed.uid.is_empty() || *stored.uid() == *malformed.uid
}
