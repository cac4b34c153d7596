//! Driver: learns how to pack the objects beside what is going on, and packs again what came before.

use super::Core;
use crate::pack::{Lesson, Samples};

/// So many bodies are packed again, or looked at for that, before others get their turn.
const AT_ONCE: usize = 64;

/// Trains where there is something to learn; ends when it is dropped.
#[expect(clippy::infinite_loop, reason = "the caller cancels by dropping")]
pub(super) async fn learn(core: &Core) {
    loop {
        core.learn.notified().await;
        complete(core);
        if let Some(samples) = core.shelf.samples() {
            let lesson = train(core, samples).await;
            core.shelf.learn(lesson);
        }
        repack(core).await;
    }
}

/// Once there is a store, the samples are of all of it: what arrives may be of one namespace, or one object.
fn complete(core: &Core) {
    let stored = core.entries();
    let Some(wanted) = core.shelf.wanted(stored.len()) else {
        return;
    };
    let mut samples = Samples::default();
    for at in wanted {
        stored[at].raw_body().sample(|json| samples.add(json));
    }
    core.shelf.complete(samples);
}

/// Training takes long, so it has a thread of its own (PACK-5).
async fn train(core: &Core, samples: Samples) -> Option<Lesson> {
    let budget = core.options.budget.clone();
    let trained = tokio::task::spawn_blocking(move || samples.train(budget.tools()));
    // It neither panics nor is it cancelled but with the runtime.
    trained.await.ok().flatten()
}

/// Packs anew what was packed before there was a dictionary, a few at a time.
async fn repack(core: &Core) {
    if !core.shelf.has_dictionary() {
        return;
    }
    for (number, entry) in core.entries().into_iter().enumerate() {
        // Others get their turn often: each takes as long as a dozen of small messages.
        if entry.raw_body().repack() || number % AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
}
