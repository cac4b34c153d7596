//! Machine: tells most reads without a lock that no remembered write concerns them.

use std::hash::Hasher as _;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use fnv::FnvHasher;

use super::WriterHash;

/// The number of counters of each table; a power of two. With 1,000 remembered writes, about one in sixteen reads that
/// no write concerns takes the lock nevertheless, because its counter is shared.
const SLOTS: usize = 1 << 14;

/// Counts the remembered writes by writer and by object name, so that most reads take no lock (RYOW-11).
///
/// A read looks at the counters of its writer and of its object name: if one of them is zero, no remembered write
/// concerns the read; otherwise the read must check the writes under their lock, because two writers, or two names, may
/// share a counter. The counters change only under this lock, and are read without it.
#[derive(Debug)]
pub(crate) struct Filter {
    writers: Box<[AtomicU32]>,
    names: Box<[AtomicU32]>,
    /// The number of writes with an unknown result and a generated name, which may concern every name.
    generated: AtomicUsize,
    len: AtomicUsize,
}

impl Default for Filter {
    fn default() -> Self {
        let zeros = || (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        Self {
            writers: zeros(),
            names: zeros(),
            generated: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
        }
    }
}

impl Filter {
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns whether a remembered write may concern a read for `writer` (`None`: for all writers) of the object with
    /// this name (`None`: a list).
    pub(crate) fn may_owe(&self, writer: Option<WriterHash>, name: Option<&str>) -> bool {
        if self.len() == 0 {
            return false;
        }
        let by_writer = writer.is_none_or(|writer| is_set(&self.writers, writer.0));
        by_writer && name.is_none_or(|name| self.may_name(name))
    }

    fn may_name(&self, name: &str) -> bool {
        self.generated.load(Ordering::Acquire) > 0 || is_set(&self.names, hash(name))
    }

    /// Counts a remembered write of `writer`; `name` is `None` if the server generates the object's name.
    pub(super) fn add(&self, writer: WriterHash, name: Option<&str>) {
        for counter in self.counters(writer, name) {
            counter.fetch_add(1, Ordering::Release);
        }
        if name.is_none() {
            self.generated.fetch_add(1, Ordering::Release);
        }
        self.len.fetch_add(1, Ordering::Release);
    }

    /// Uncounts a forgotten write, which [`add`](Self::add) has counted with the same arguments.
    pub(super) fn remove(&self, writer: WriterHash, name: Option<&str>) {
        for counter in self.counters(writer, name) {
            counter.fetch_sub(1, Ordering::Release);
        }
        if name.is_none() {
            self.generated.fetch_sub(1, Ordering::Release);
        }
        self.len.fetch_sub(1, Ordering::Release);
    }

    fn counters(&self, writer: WriterHash, name: Option<&str>) -> impl Iterator<Item = &AtomicU32> {
        let names = name.and_then(|name| self.names.get(slot(hash(name))));
        let writers = self.writers.get(slot(writer.0));
        writers.into_iter().chain(names)
    }
}

fn is_set(counters: &[AtomicU32], hash: u64) -> bool {
    let counter = counters.get(slot(hash));
    counter.is_some_and(|counter| counter.load(Ordering::Acquire) > 0)
}

fn hash(name: &str) -> u64 {
    // FNV-1a is fast for short names. Two names with the same hash share a counter, which only costs a check under the
    // lock.
    let mut hasher = FnvHasher::default();
    hasher.write(name.as_bytes());
    hasher.finish()
}

fn slot(hash: u64) -> usize {
    // The upper bits of the product depend on all bits of the hash (Fibonacci hashing).
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(mixed).unwrap_or_default() & (SLOTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RYOW-11: the filter never misses a counted write; a writer or name that was not counted seldom shares a counter.
    #[test]
    fn counted_notes_are_found_and_others_mostly_are_not() {
        let filter = Filter::default();
        assert!(!filter.may_owe(None, None));
        let name = |number: u64| format!("object-{number}");
        for number in 0..1000 {
            filter.add(WriterHash(number), Some(&name(number)));
        }
        for number in 0..1000 {
            assert!(filter.may_owe(Some(WriterHash(number)), Some(&name(number))));
            assert!(filter.may_owe(Some(WriterHash(number)), None));
            assert!(filter.may_owe(None, Some(&name(number))));
        }
        let others = 10_000..20_000;
        let by_writer = others
            .clone()
            .filter(|n| filter.may_owe(Some(WriterHash(*n)), None));
        let by_name = others.filter(|n| filter.may_owe(None, Some(&name(*n))));
        let (by_writer, by_name) = (by_writer.count(), by_name.count());
        assert!(by_writer < 1000 && by_name < 1000, "{by_writer} {by_name}");
        filter.add(WriterHash(1), None);
        assert!(filter.may_owe(None, Some("any name")));
        filter.remove(WriterHash(1), None);
        for number in 0..1000 {
            filter.remove(WriterHash(number), Some(&name(number)));
        }
        assert_eq!(filter.len(), 0);
        assert!(!filter.may_owe(None, None));
        let left = filter.writers.iter().chain(&filter.names);
        assert!(
            left.into_iter()
                .all(|counter| counter.load(Ordering::Acquire) == 0)
        );
    }
}
