//! Machine: collects the cached objects of many entries, and decodes the other objects on demand.

use std::hint::black_box;
use std::sync::Arc;
use std::vec::IntoIter;

use steersman_api::Malformed;
use steersman_object::{Object, ResourceVersion};

use crate::entry::RawEntry;
use crate::store::query::ObjectList;

/// The number of entries that are loaded into the processor's cache together.
const TOGETHER: usize = 16;

/// Collects the objects of entries in their order.
///
/// Entries and objects are scattered over memory, and the processor waits for each lock and each reference count. So
/// [`TOGETHER`] entries at a time are first only read, which loads them concurrently, and then locked and counted.
pub(crate) struct ListCollector<'a, K> {
    objects: Vec<Arc<K>>,
    /// The first entry with an object that is not cached, and all entries after it.
    later: Vec<RawEntry>,
    ahead: [Option<&'a RawEntry>; TOGETHER],
    waiting: usize,
}

/// The objects of a list at one version, decoded on demand. Decoding an object takes tens of microseconds, holds no
/// lock and caches nothing (PACK-3).
#[derive(Debug)]
pub struct LazyList<K> {
    /// The list, with the objects that are decoded so far.
    list: ObjectList<K>,
    /// The entries that follow, which are not decoded yet.
    later: IntoIter<RawEntry>,
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

    /// Returns the list of the collected objects. `unreadable`: the first object of which no version decodes.
    pub(crate) fn end(
        mut self,
        version: ResourceVersion,
        unreadable: Option<Malformed>,
    ) -> LazyList<K> {
        self.settle();
        LazyList {
            list: ObjectList {
                objects: self.objects,
                version,
                unreadable,
            },
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
        let counts = kept.iter().flatten().map(|kept| Arc::strong_count(kept));
        black_box(counts.max());
        self.objects.reserve(waiting);
        for (entry, kept) in entries().zip(kept) {
            match kept {
                Some(kept) if self.later.is_empty() => {
                    self.objects.extend(Arc::clone(&kept).downcast::<K>().ok());
                }
                _ => self.later.push(RawEntry::clone(entry)),
            }
        }
    }
}

impl<K: Object> LazyList<K> {
    /// Decodes the next object. Returns false if all objects are decoded. A task should yield between objects.
    pub fn decode_next(&mut self) -> bool {
        let Some(entry) = self.later.next() else {
            return false;
        };
        // STORE-7: no lock is held while decoding.
        match entry.raw_body().decode_once() {
            Ok(object) => self.list.objects.push(object),
            Err(problem) => {
                // CACHE-4: the object decoded when it arrived, so it is reported instead of being left out silently.
                let unreadable = &mut self.list.unreadable;
                unreadable.get_or_insert_with(|| entry.malformed(&problem));
            }
        }
        true
    }

    /// Decodes the remaining objects. Returns all objects.
    #[must_use]
    pub fn end(mut self) -> ObjectList<K> {
        while self.decode_next() {}
        self.list
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
        let LazyList { list, later } = collected.end(ResourceVersion::unset(), None);
        let objects = list.objects.iter();
        let names = objects.map(|map| map.metadata.name.clone().unwrap());
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
