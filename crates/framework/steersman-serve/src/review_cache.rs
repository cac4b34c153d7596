//! Machine: a cache of review results, each with its own lifetime.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Review results by their key. At most `capacity` results are cached, each for its lifetime (SERVE-6).
#[derive(Debug)]
pub(crate) struct ReviewCache<K, V> {
    capacity: usize,
    answers: HashMap<K, (V, Instant)>,
}

impl<K: Hash + Eq + Clone, V: Clone> ReviewCache<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            answers: HashMap::new(),
        }
    }

    /// Returns the result for a key, unless its lifetime is over.
    pub(crate) fn get(&self, question: &K, now: Instant) -> Option<V> {
        let (answer, until) = self.answers.get(question)?;
        (now < *until).then(|| answer.clone())
    }

    /// Caches a result for a time. A full cache drops the result that would end first.
    pub(crate) fn put(&mut self, question: K, answer: V, time: Duration, now: Instant) {
        // A result with an end beyond the range of the clock is not cached.
        let Some(until) = now.checked_add(time).filter(|until| *until > now) else {
            return;
        };
        if self.answers.len() >= self.capacity && !self.answers.contains_key(&question) {
            self.answers.retain(|_, (_, until)| now < *until);
        }
        if self.answers.len() >= self.capacity && !self.answers.contains_key(&question) {
            let first = self.answers.iter().min_by_key(|(_, (_, until))| *until);
            if let Some(first) = first.map(|(question, _)| question.clone()) {
                self.answers.remove(&first);
            }
        }
        self.answers.insert(question, (answer, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// SERVE-6: users and permissions are kept for a limited time.
    #[test]
    fn an_answer_is_kept_for_its_time_and_no_longer() {
        let t = tokio::time::Instant::now().into_std();
        let mut cache = ReviewCache::new(2);
        cache.put("a", 1, 60 * S, t);
        assert_eq!(cache.get(&"a", t + 59 * S), Some(1));
        assert_eq!(cache.get(&"a", t + 60 * S), None);
        cache.put("zero", 1, Duration::ZERO, t);
        assert_eq!(cache.get(&"zero", t), None);
        cache.put("a", 2, 60 * S, t + 60 * S);
        assert_eq!(cache.get(&"a", t + 61 * S), Some(2));
    }

    /// SERVE-6: users and permissions are kept for a limited time.
    #[test]
    fn a_full_cache_drops_what_ends_first() {
        let t = tokio::time::Instant::now().into_std();
        let mut cache = ReviewCache::new(2);
        cache.put("a", 1, 10 * S, t);
        cache.put("b", 2, 5 * S, t);
        cache.put("c", 3, 20 * S, t);
        assert_eq!(cache.get(&"b", t), None);
        assert_eq!((cache.get(&"a", t), cache.get(&"c", t)), (Some(1), Some(3)));
        cache.put("a", 4, 10 * S, t);
        assert_eq!(cache.answers.len(), 2);
    }
}
