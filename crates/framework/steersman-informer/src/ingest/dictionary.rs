//! Driver: trains compression dictionaries in the background, and compresses older bodies again.

use std::sync::Arc;

use crate::ingest::entry_maker::EntryMaker;
use steersman_pack::{Dictionary, KEPT_BACK, PackRatio, Samples, TrainedDictionary};

/// The amount of JSON, in bytes, that is packed or sampled before the task yields.
const AT_ONCE: usize = 64 << 10;
/// The least work that is counted per body, as bytes of JSON: a visit to a small body takes time, too.
const LOOK: usize = 1 << 10;

/// Makes a task yield after a bounded amount of work.
#[derive(Default)]
struct YieldBudget {
    done: usize,
}

/// Trains a compression dictionary each time that a training is due. Never ends by itself.
#[expect(clippy::infinite_loop, reason = "the caller cancels by dropping")]
pub(crate) async fn train_dictionaries(entries: &EntryMaker) {
    loop {
        entries.train.notified().await;
        let given_up = entries.context().pack.drop_unused_dictionary();
        complete_samples(entries).await;
        if let Some((samples, present)) = entries.context().pack.samples() {
            let trained = train(entries, samples, present).await;
            entries.context().pack.finish_training(trained);
        }
        if (given_up || entries.context().pack.has_dictionary()) && repack(entries).await {
            // A body that arrived meanwhile may be packed with the old dictionary and keep it in memory: a further pass
            // ends that.
            entries.wake_training();
        }
    }
}

/// Samples stored objects if a training lacks samples: the arriving objects alone may all be from one namespace.
async fn complete_samples(entries: &EntryMaker) {
    if !entries.context().pack.wants_samples() {
        return;
    }
    let stored = entries.stored();
    let Some(wanted) = entries.context().pack.sample_positions(stored.len()) else {
        return;
    };
    let mut budget = YieldBudget::default();
    if let Some(dictionary) = entries.context().pack.doubted_dictionary() {
        // Compresses some of the sampled objects as a test of the dictionary, and keeps only their sizes (STORE-6).
        let mut share = PackRatio::default();
        for at in wanted.clone().step_by(KEPT_BACK) {
            let body = stored[at].raw_body();
            body.with_json(|json| entries.context().pack.try_on(&dictionary, json, &mut share));
            budget.after(body.bytes()).await;
        }
        if entries.context().pack.confirms(share) {
            return;
        }
    }
    let mut samples = entries.context().pack.collected_samples();
    for at in wanted {
        let body = stored[at].raw_body();
        body.with_json(|json| samples.add(json));
        if samples.is_enough() {
            break;
        }
        budget.after(body.bytes()).await;
    }
    entries.context().pack.complete(samples);
}

/// Trains on a blocking thread, because the training takes long (PACK-5).
async fn train(
    entries: &EntryMaker,
    samples: Samples,
    present: Option<Arc<Dictionary>>,
) -> Option<TrainedDictionary> {
    let budget = entries.context().pack.budget().clone();
    let train = move || samples.train(budget.codec(), present.as_ref());
    let trained = tokio::task::spawn_blocking(train);
    // The task fails only if the runtime ends or the training panics; then there is no new dictionary.
    trained.await.ok().flatten()
}

/// Packs again each body that used another dictionary or none. Returns whether there was such a body.
async fn repack(entries: &EntryMaker) -> bool {
    let mut budget = YieldBudget::default();
    let mut any = false;
    for entry in entries.stored() {
        let body = entry.raw_body();
        let done = body.repack();
        any |= done;
        budget
            .after(if done { AT_ONCE } else { body.bytes() })
            .await;
    }
    any
}

impl YieldBudget {
    /// Counts the work for a body, in bytes of its JSON, and yields after [`AT_ONCE`] bytes.
    async fn after(&mut self, bytes: usize) {
        self.done += bytes.max(LOOK);
        if self.done >= AT_ONCE {
            self.done = 0;
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn the_task_yields_after_a_bounded_amount_of_work() {
        let turns_of_others = Cell::new(0);
        let others = async {
            loop {
                turns_of_others.set(turns_of_others.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        let work = async {
            let mut budget = YieldBudget::default();
            for (objects, bytes, at_least) in [(200, 1 << 20, 200), (640, 100, 10), (8, 8 << 10, 1)]
            {
                let before = turns_of_others.get();
                for _ in 0..objects {
                    budget.after(bytes).await;
                }
                let since: usize = turns_of_others.get() - before;
                assert!((at_least..=at_least + 1).contains(&since), "{since}");
            }
        };
        tokio::select! {
            biased;
            () = work => {}
            () = others => {}
        }
    }
}
