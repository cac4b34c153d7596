//! Driver: learns how to pack the objects beside what is going on, and packs again what came before.

use std::sync::Arc;

use super::Core;
use crate::pack::{Dictionary, KEPT_BACK, PackRatio, Samples, TrainedDictionary};

/// So many bytes of JSON are packed again, or looked at for that, before others get their turn: that takes
/// as long as some dozens of small messages.
const AT_ONCE: usize = 64 << 10;
/// What looking at a body takes at least, in bytes.
const LOOK: usize = 1 << 10;

/// Gives others their turn, by what was done since the last one.
#[derive(Default)]
struct YieldBudget {
    done: usize,
}

/// Trains where there is something to learn; ends when it is dropped.
#[expect(clippy::infinite_loop, reason = "the caller cancels by dropping")]
pub(super) async fn train_dictionaries(core: &Core) {
    loop {
        core.train.notified().await;
        let given_up = core.context.drop_unused_dictionary();
        complete_samples(core).await;
        if let Some((samples, present)) = core.context.samples() {
            let trained = train(core, samples, present).await;
            core.context.finish_training(trained);
        }
        if (given_up || core.context.has_dictionary()) && repack(core).await {
            // What was on its way into the store meanwhile may be packed by the old one, which would live on.
            core.train.notify_one();
        }
    }
}

/// Once there is a store, the samples are of all of it: what arrives may be of one namespace, or one object.
async fn complete_samples(core: &Core) {
    if !core.context.wants_samples() {
        return;
    }
    let stored = core.entries();
    let Some(wanted) = core.context.sample_positions(stored.len()) else {
        return;
    };
    let mut budget = YieldBudget::default();
    if let Some(dictionary) = core.context.doubted_dictionary() {
        // As many as a new one would be tried on. Nothing is kept of them, so a list holds no more for it
        // (STORE-6).
        let mut share = PackRatio::default();
        for at in wanted.clone().step_by(KEPT_BACK) {
            let body = stored[at].raw_body();
            body.with_json(|json| core.context.try_on(&dictionary, json, &mut share));
            budget.after(body.bytes()).await;
        }
        if core.context.confirms(share) {
            return;
        }
    }
    let mut samples = core.context.collected_samples();
    for at in wanted {
        let body = stored[at].raw_body();
        body.with_json(|json| samples.add(json));
        if samples.is_enough() {
            break;
        }
        budget.after(body.bytes()).await;
    }
    core.context.complete(samples);
}

/// Training takes long, so it has a thread of its own (PACK-5).
async fn train(
    core: &Core,
    samples: Samples,
    present: Option<Arc<Dictionary>>,
) -> Option<TrainedDictionary> {
    let budget = core.options.budget.clone();
    let train = move || samples.train(budget.codec(), present.as_ref());
    let trained = tokio::task::spawn_blocking(train);
    // It is cancelled only with the runtime. Should it ever panic, nothing was learned.
    trained.await.ok().flatten()
}

/// Packs anew what was packed by no dictionary, or another one, a few at a time. Says whether there was any.
async fn repack(core: &Core) -> bool {
    let mut budget = YieldBudget::default();
    let mut any = false;
    for entry in core.entries() {
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
    /// So many bytes were looked at.
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
    async fn others_get_their_turn_by_how_much_was_done() {
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
