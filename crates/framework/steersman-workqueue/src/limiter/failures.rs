//! Machine: the number of failures of each key.

use std::collections::HashMap;

use crate::key::Key;

/// The number of failures of each key since the key was last forgotten.
#[derive(Debug)]
pub(super) struct Failures<T> {
    counts: HashMap<T, u32>,
}

impl<T: Key> Failures<T> {
    pub(super) fn new() -> Self {
        Self {
            counts: HashMap::new(),
        }
    }

    /// Counts a failure of the key. Returns the number of its earlier failures.
    pub(super) fn count(&mut self, key: &T) -> u32 {
        match self.counts.get_mut(key) {
            Some(count) => {
                let earlier = *count;
                *count = count.saturating_add(1);
                earlier
            }
            None => {
                self.counts.insert(key.clone(), 1);
                0
            }
        }
    }

    pub(super) fn forget(&mut self, key: &T) {
        // A queue without failed keys pays for no hash.
        if !self.counts.is_empty() {
            self.counts.remove(key);
        }
    }

    pub(super) fn of(&self, key: &T) -> u32 {
        if self.counts.is_empty() {
            return 0;
        }
        self.counts.get(key).copied().unwrap_or(0)
    }
}
