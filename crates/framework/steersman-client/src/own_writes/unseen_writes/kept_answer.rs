//! Words: the server's answers to writes, which reads may return until the cache has seen the writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// The largest size, in bytes, of all kept answers of one client and its copies together: 4 MiB.
const MOST_BYTES: usize = 4 << 20;

#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerBudget(Arc<AtomicUsize>);

/// The object in the server's answer to a write, as JSON. All clones share the bytes, which count in the budget until
/// the last clone is dropped.
#[derive(Clone, derive_more::Debug)]
// The bytes are not printed, because the object may be a Secret.
#[debug("KeptAnswer({} bytes)", _0.body.len())]
pub(crate) struct KeptAnswer(Arc<KeptBytes>);

struct KeptBytes {
    body: Bytes,
    budget: AnswerBudget,
}

impl AnswerBudget {
    /// Keeps the body of an answer; returns `None` if all kept answers together would exceed [`MOST_BYTES`].
    pub(crate) fn keep(&self, body: &Bytes) -> Option<KeptAnswer> {
        let before = self.0.fetch_add(body.len(), Ordering::Relaxed);
        // Above `MOST_BYTES`, `kept` is dropped on return, and its `KeptBytes` subtracts its length from the budget.
        let kept = KeptAnswer(Arc::new(KeptBytes {
            body: body.clone(),
            budget: self.clone(),
        }));
        (before.saturating_add(body.len()) <= MOST_BYTES).then_some(kept)
    }
}

impl KeptAnswer {
    pub(crate) fn body(&self) -> &[u8] {
        &self.0.body
    }
}

impl Drop for KeptBytes {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.body.len(), Ordering::Relaxed);
    }
}

impl PartialEq for KeptAnswer {
    fn eq(&self, other: &Self) -> bool {
        self.0.body == other.0.body
    }
}

impl Eq for KeptAnswer {}

#[cfg(test)]
mod tests {
    use super::*;

    /// RYOW-12: an answer that does not fit is not kept, and reads wait for the cache.
    #[test]
    fn the_kept_answers_have_a_limit_and_give_their_bytes_back() {
        let budget = AnswerBudget::default();
        let half = Bytes::from(vec![0; MOST_BYTES / 2]);
        let first = budget.keep(&half).unwrap();
        let second = budget.keep(&half).unwrap();
        assert_eq!(budget.keep(&Bytes::from_static(b"{}")), None);
        drop(first.clone());
        assert_eq!(budget.keep(&Bytes::from_static(b"{}")), None);
        drop(first);
        assert_eq!(budget.keep(&half), Some(second));
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
