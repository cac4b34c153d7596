//! Driver: reads from the cache, once it has seen what it has to see.

use std::sync::Arc;

use steersman_cache::{Answer, Asks, Sight};
use steersman_object::{Kind, Object, ObjectKey, Selection};

use crate::error::Error;
use crate::outcome::is_refused_for_good;
use crate::own_reads::{Owed, Settled};
use crate::own_writes::{Mark, Marked, Note, Read};
use crate::shared::Shared;

type Cached<T> = Result<T, steersman_cache::Error>;

/// The object of a key: from the cache, or from the server where the cache is too far behind (RYOW-1). `cached` reads
/// the cache, once more where the cache moved meanwhile in a way that matters (RYOW-7).
pub(crate) async fn get<K, F>(
    shared: &Shared,
    kind: &Kind,
    key: &ObjectKey,
    cached: impl Fn() -> F,
) -> Result<Arc<K>, Error>
where
    K: Object,
    F: Future<Output = Cached<Arc<K>>>,
{
    let key = &*key.placed(kind);
    let read = Read::Object(key);
    let is_itself = |mark: &Mark| matches!(mark.marked, Marked::Object(_));
    loop {
        let Owed { marks, mut notes } = shared.owed(kind, read);
        if marks.is_empty() && notes.is_empty() {
            return Ok(cached().await?);
        }
        let (marks, others): (Vec<_>, Vec<_>) = marks.into_iter().partition(is_itself);
        if !others.is_empty() {
            // Rare and large: it would make the future of each read as large.
            Box::pin(look(shared, kind, others)).await?;
            // What the server showed is noted.
            notes = shared.owed(kind, read).notes;
        }
        let late = match marks.is_empty() {
            false => Vec::new(),
            true => match shared.settle(kind, read, notes).await {
                Settled::Cache(unstored) => {
                    let found = cached().await;
                    if shared.still_hold(kind, &unstored) {
                        return Ok(found?);
                    }
                    continue;
                }
                Settled::Late(late) => late,
            },
        };
        return match shared.cache().asks_in(kind.gvk(), key.namespace()) {
            Some(asks) => Box::pin(ask(shared, &asks, key, &marks, &late)).await,
            // It is not cached any more, and nothing of it is owed.
            None => Ok(cached().await?),
        };
    }
}

/// The objects that `selection` selects, as [`get`]; an error where the cache does not come so far in time.
pub(crate) async fn list<K, F>(
    shared: &Shared,
    kind: &Kind,
    selection: &Selection,
    cached: impl Fn() -> F,
) -> Result<Vec<Arc<K>>, Error>
where
    K: Object,
    F: Future<Output = Cached<Vec<Arc<K>>>>,
{
    let namespace = selection
        .selected_namespace()
        .filter(|_| kind.is_namespaced());
    let read = Read::List(namespace);
    loop {
        let Owed { marks, mut notes } = shared.owed(kind, read);
        if !marks.is_empty() {
            Box::pin(look(shared, kind, marks)).await?;
            // What the server showed is noted.
            notes = shared.owed(kind, read).notes;
        }
        match shared.settle(kind, read, notes).await {
            Settled::Cache(unstored) => {
                let found = cached().await;
                if shared.still_hold(kind, &unstored) {
                    return Ok(found?);
                }
            }
            Settled::Late(late) => {
                return Err(Error::OwnWritesUnseen {
                    kind: kind.clone(),
                    waited: shared.options().own_write_wait,
                    unseen: late.into_iter().map(|note| note.key).collect(),
                });
            }
        }
    }
}

/// The object as the server has it and the cache would answer it, which is what a read learns of `marks`, or has
/// instead of the `late` ones.
async fn ask<K: Object>(
    shared: &Shared,
    asks: &Asks,
    key: &ObjectKey,
    marks: &[Mark],
    late: &[Note],
) -> Result<Arc<K>, Error> {
    let (kind, own) = (asks.mirror().kind(), &shared.door().own);
    let question = |client| asks.object::<K>(client, key.name());
    let answer = shared.ask(kind, question).await;
    if answer.as_ref().err().is_some_and(is_final) {
        own.give_up(kind.gvk(), late);
    }
    let sight = answer.as_ref().map(|answer| &answer.sight);
    for mark in marks {
        settle(shared, kind, mark, sight);
    }
    let Answer { read, .. } = answer?;
    Ok(read?)
}

/// Asks the server about each mark as narrowly as it can be asked, so that it is settled whatever is read: the
/// cache answers then, once it has what the server showed (RYOW-3).
async fn look(shared: &Shared, kind: &Kind, marks: Vec<Mark>) -> Result<(), Error> {
    for mark in marks {
        let Some(asks) = shared.cache().asks_in(kind.gvk(), mark.marked.namespace()) else {
            continue;
        };
        let question = |client| {
            let (asks, marked) = (&asks, &mark.marked);
            async move {
                match marked {
                    Marked::Object(key) => asks.one(client, key.name()).await,
                    Marked::Generated { .. } => asks.all(client).await,
                }
            }
        };
        let sight = shared.ask(kind, question).await;
        settle(shared, kind, &mark, sight.as_ref());
        sight?;
    }
    Ok(())
}

/// What a question about a mark comes to. Where the server refuses it for good, one read has that answer, and
/// later ones are not kept from the cache.
fn settle(shared: &Shared, kind: &Kind, mark: &Mark, sight: Result<&Sight, &Error>) {
    let (own, gvk) = (&shared.door().own, kind.gvk());
    match sight {
        Ok(sight) => own.learn(gvk, mark, sight),
        Err(refused) if is_final(refused) => own.asked(gvk, mark),
        Err(_) => {}
    }
}

fn is_final(refused: &Error) -> bool {
    refused.api().is_some_and(is_refused_for_good)
}
