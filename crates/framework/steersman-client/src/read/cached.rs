//! Driver: reads from the cache after the cache has seen the writes that the read must see.

use std::sync::Arc;

use steersman_cache::internal::{CacheInternals as _, LiveList, LiveReads};
use steersman_object::{Kind, ListOptions, Object, ObjectKey};

use crate::error::Error;
use crate::own_writes::unseen_writes::{Note, Question, Read, UncertainObject};
use crate::own_writes::write_tracker::{RequiredWrites, WaitOutcome};
use crate::shared::SharedClient;
use crate::write::outcome::is_refused_for_good;

type Cached<T> = Result<T, steersman_cache::Error>;

/// Returns the object that the closure `cached` reads, once the cache has seen the writes that the read must see.
/// RYOW-5: if the cache does not see these writes in time, returns the server's object.
pub(crate) async fn get<K, F>(
    shared: &SharedClient,
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
    let is_of_key = |question: &Question| matches!(question.subject, UncertainObject::Object(_));
    loop {
        let RequiredWrites {
            questions,
            mut notes,
        } = shared.owed(kind, read);
        if questions.is_empty() && notes.is_empty() {
            return Ok(cached().await?);
        }
        let (questions, others): (Vec<_>, Vec<_>) = questions.into_iter().partition(is_of_key);
        if !others.is_empty() {
            // This future is boxed, because it is rarely needed, and large enough to enlarge the future of every read.
            Box::pin(answer(shared, kind, others)).await?;
            // The objects in the server's answers are known writes now: the read may have to wait for them.
            notes = shared.owed(kind, read).notes;
        }
        if questions.is_empty()
            && let Some(answered) = answered(shared, kind, key, &notes)
        {
            return answered;
        }
        let late = match questions.is_empty() {
            false => Vec::new(),
            true => match shared.wait(kind, read, notes).await {
                WaitOutcome::Cache(unstored) => {
                    let found = cached().await;
                    if shared.still_hold(kind, &unstored) {
                        return Ok(found?);
                    }
                    continue;
                }
                WaitOutcome::Late(late) => late,
            },
        };
        return match shared.cache().live_reads(kind.gvk(), key.namespace()) {
            Some(reads) => Box::pin(get_live(shared, &reads, key, &questions, &late)).await,
            // No informer covers the object any more, so the cache will show no write that the read could wait for.
            None => Ok(cached().await?),
        };
    }
}

/// Returns the objects that the closure `cached` lists, once the cache has seen the writes that the read must see.
///
/// # Errors
///
/// [`Error::OwnWritesUnseen`] if the cache does not see the writes in time.
pub(crate) async fn list<K, F>(
    shared: &SharedClient,
    kind: &Kind,
    list_options: &ListOptions,
    cached: impl Fn() -> F,
) -> Result<Vec<Arc<K>>, Error>
where
    K: Object,
    F: Future<Output = Cached<Vec<Arc<K>>>>,
{
    let namespace = list_options
        .selected_namespace()
        .filter(|_| kind.is_namespaced());
    let read = Read::List(namespace);
    loop {
        let mut required = shared.owed(kind, read);
        if !required.questions.is_empty() {
            Box::pin(answer(shared, kind, required.questions)).await?;
            // The objects in the server's answers are known writes now: the read may have to wait for them.
            required = shared.owed(kind, read);
        }
        match shared.wait(kind, read, required.notes).await {
            WaitOutcome::Cache(unstored) => {
                let found = cached().await;
                if shared.still_hold(kind, &unstored) {
                    return Ok(found?);
                }
            }
            WaitOutcome::Late(late) => {
                return Err(Error::OwnWritesUnseen {
                    kind: kind.clone(),
                    waited: shared.options().own_write_wait,
                    unseen: late.into_iter().map(|note| note.key).collect(),
                });
            }
        }
    }
}

/// Returns the object of a get from the server's answer to the last write of the object, if the get must see no other
/// write. Otherwise returns `None`, and the get waits for the cache.
///
/// RYOW-12: the answer is kept only until the informer has reached its version. The object is transformed and decoded
/// as the cache would do it.
fn answered<K: Object>(
    shared: &SharedClient,
    kind: &Kind,
    key: &ObjectKey,
    notes: &[Note],
) -> Option<Result<Arc<K>, Error>> {
    let [note] = notes else { return None };
    let answer = note.answer().filter(|_| shared.options().own_answers)?;
    let reads = shared.cache().live_reads(kind.gvk(), key.namespace())?;
    Some(reads.answered(answer.body()).map_err(Error::from))
}

/// Reads the object from the server as the cache would return it. The answer settles `questions`, the writes with an
/// unknown result, and replaces the wait for the `late` writes.
async fn get_live<K: Object>(
    shared: &SharedClient,
    reads: &LiveReads,
    key: &ObjectKey,
    questions: &[Question],
    late: &[Note],
) -> Result<Arc<K>, Error> {
    let (kind, own) = (reads.untyped().kind(), &shared.sender().own);
    let request = |client| reads.object::<K>(client, key.name());
    let live = shared.read_live(kind, Some(key), request).await;
    if live.as_ref().err().is_some_and(is_final) {
        own.give_up(kind.gvk(), late);
    }
    let list = live.as_ref().map(|live| &live.list);
    for question in questions {
        close(shared, kind, question, list);
    }
    Ok(live?.object?)
}

/// Asks the server about each write with an unknown result: lists the written object or, if the server generated its
/// name, all objects of the namespace. Afterwards the read waits until the cache shows the listed objects (RYOW-3).
async fn answer(shared: &SharedClient, kind: &Kind, questions: Vec<Question>) -> Result<(), Error> {
    for question in questions {
        let namespace = question.subject.namespace();
        let Some(reads) = shared.cache().live_reads(kind.gvk(), namespace) else {
            continue;
        };
        let request = |client| {
            let (reads, subject) = (&reads, &question.subject);
            async move {
                match subject {
                    UncertainObject::Object(key) => reads.identity(client, key.name()).await,
                    UncertainObject::Generated { .. } => reads.identities(client).await,
                }
            }
        };
        let key = match &question.subject {
            UncertainObject::Object(key) => Some(key),
            UncertainObject::Generated { .. } => None,
        };
        let list = shared.read_live(kind, key, request).await;
        close(shared, kind, &question, list.as_ref());
        list?;
    }
    Ok(())
}

/// Settles a write with an unknown result by the server's answer, or by a lasting refusal such as a 403. After a
/// refusal only the current read fails; later reads return the state of the cache.
fn close(shared: &SharedClient, kind: &Kind, question: &Question, list: Result<&LiveList, &Error>) {
    let (own, gvk) = (&shared.sender().own, kind.gvk());
    match list {
        Ok(list) => own.learn(gvk, question, list),
        Err(refused) if is_final(refused) => own.close(gvk, question),
        Err(_) => {}
    }
}

fn is_final(refused: &Error) -> bool {
    refused.api().is_some_and(is_refused_for_good)
}
