//! Machine: collects the objects of many entries, and decodes those that are not cached on demand.

use std::hint::black_box;
use std::sync::Arc;
use std::vec::IntoIter;

use steersman_api::Malformed;
use steersman_object::{Object, ResourceVersion};

use crate::body::peek::PeekGuard;
use crate::entry::RawEntry;
use crate::store::query::ObjectList;

/// The number of entries that are loaded into the processor's cache together.
const TOGETHER: usize = 16;

/// Collects the objects of entries in their order.
///
/// Entries and objects are scattered over memory, and each needs a lock and a reference count, for which the processor
/// must wait for the data. So [`TOGETHER`] entries at a time are first only read, which loads all of them concurrently,
/// and then locked and counted.
pub(crate) struct ListCollector<'a, K> {
    objects: Vec<Arc<K>>,
    /// The first entry with an object that is not cached, and all entries after it.
    later: Vec<RawEntry>,
    ahead: [Option<&'a RawEntry>; TOGETHER],
    waiting: usize,
}

/// The decoded objects, and the following entries that are not decoded yet.
#[derive(Debug)]
pub(crate) struct Pending<K> {
    objects: Vec<Arc<K>>,
    later: IntoIter<RawEntry>,
}

/// The objects of a list at one version, decoded on demand, which takes tens of microseconds per object. Decoding holds
/// no lock and caches nothing (PACK-3).
#[derive(Debug)]
pub struct LazyList<K> {
    pub(crate) pending: Pending<K>,
    pub(crate) version: ResourceVersion,
    pub(crate) unreadable: Option<Malformed>,
}

impl<'a, K: Object> ListCollector<'a, K> {
    pub(crate) fn new() -> Self {
        Self {
            objects: Vec::new(),
            later: Vec::new(),
            ahead: [None; TOGETHER],
            waiting: 0,
        }
    }

    pub(crate) fn push(&mut self, entry: &'a RawEntry) {
        self.ahead[self.waiting] = Some(entry);
        self.waiting += 1;
        if self.waiting == TOGETHER {
            self.settle();
        }
    }

    pub(crate) fn end(mut self) -> Pending<K> {
        self.settle();
        Pending {
            objects: self.objects,
            later: self.later.into_iter(),
        }
    }

    fn settle(&mut self) {
        let ahead = std::mem::replace(&mut self.ahead, [None; TOGETHER]);
        let waiting = std::mem::take(&mut self.waiting);
        let entries = || ahead.iter().flatten();
        // The next two passes only read memory, so that the last pass finds the memory in the processor's cache.
        black_box(entries().fold(false, |any, entry| any ^ entry.raw_body().is_visited()));
        let kept = ahead.map(|entry| entry?.raw_body().try_peek::<K>());
        black_box(kept.iter().flatten().map(PeekGuard::shared_by).max());
        self.objects.reserve(waiting);
        for (entry, kept) in entries().zip(kept) {
            match kept {
                Some(kept) if self.later.is_empty() => self.objects.extend(kept.object()),
                _ => self.later.push(RawEntry::clone(entry)),
            }
        }
    }
}

impl<K: Object> Pending<K> {
    /// Decodes the next object; `None` if all objects are decoded.
    fn decode_next(&mut self) -> Option<Result<(), Malformed>> {
        let entry = self.later.next()?;
        // STORE-7: no lock is held while decoding.
        let decoded = entry.raw_body().decode_once();
        let decoded = decoded.map(|object| self.objects.push(object));
        Some(decoded.map_err(|problem| entry.malformed(&problem)))
    }

    /// Decodes the remaining objects. Returns all objects that decode.
    pub(crate) fn whole(mut self) -> Vec<Arc<K>> {
        while self.decode_next().is_some() {}
        self.objects
    }
}

impl<K: Object> LazyList<K> {
    /// Decodes the next object. Returns false if all objects are decoded. A task should yield between objects.
    pub fn decode_next(&mut self) -> bool {
        let Some(decoded) = self.pending.decode_next() else {
            return false;
        };
        if let Err(malformed) = decoded {
            // CACHE-4: the object decoded when it arrived, so it is reported instead of being left out silently.
            self.unreadable.get_or_insert(malformed);
        }
        true
    }

    /// Decodes the remaining objects. Returns all objects.
    #[must_use]
    pub fn end(mut self) -> ObjectList<K> {
        while self.decode_next() {}
        ObjectList {
            objects: self.pending.objects,
            version: self.version,
            unreadable: self.unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::entry::Entry;

    fn entry(number: usize) -> RawEntry {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(number.to_string());
        Entry::new(map).cast()
    }

    fn collected(entries: &[RawEntry]) -> (Vec<usize>, Vec<usize>) {
        let mut collected = ListCollector::<ConfigMap>::new();
        entries.iter().for_each(|entry| collected.push(entry));
        let Pending { objects, later } = collected.end();
        let names = objects.iter().map(|map| map.metadata.name.clone().unwrap());
        let later = later.map(|entry| entry.key().name().to_owned());
        let numbers = |name: String| name.parse().unwrap();
        (names.map(numbers).collect(), later.map(numbers).collect())
    }

    #[test]
    fn cached_objects_are_collected_in_order_up_to_the_first_uncached_one() {
        let all: Vec<usize> = (0..3 * TOGETHER + 1).collect();
        for many in [0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1, all.len()] {
            let entries: Vec<RawEntry> = all[..many].iter().map(|number| entry(*number)).collect();
            assert_eq!(collected(&entries), (all[..many].to_vec(), Vec::new()));
            // The first entry that is not cached decides: all later entries are decoded on demand.
            for away in [2 * TOGETHER, TOGETHER, TOGETHER - 1, 0] {
                if let Some(entry) = entries.get(away) {
                    entry.raw_body().evict();
                    let expected = (all[..away].to_vec(), all[away..many].to_vec());
                    assert_eq!(collected(&entries), expected);
                }
            }
        }
    }
}
