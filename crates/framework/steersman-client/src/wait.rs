//! Driver: waits until an object meets a condition.

use std::sync::Arc;
use std::time::Duration;

use steersman_object::{FieldSelector, Kind, ListOptions, Object, ObjectKey};
use tokio::time::timeout;

use crate::condition::{Condition, LastSeen};
use crate::error::Error;
use crate::shared::SharedClient;
use crate::watch::PrivateCache;

/// Waits until the object with this key meets a condition, and returns the object in that state; `None` if its absence
/// met the condition.
///
/// CLIENT-9: the condition is checked after the first complete list, and then whenever the object changes.
pub(crate) async fn await_condition<K: Object>(
    shared: &SharedClient,
    kind: &Kind,
    key: &ObjectKey,
    condition: &dyn Condition<K>,
    limit: Duration,
) -> Result<Option<Arc<K>>, Error> {
    let key = shared.options().key_in_namespace(kind, key)?;
    let name = FieldSelector::new().equals("metadata.name", key.name());
    let mut list_options = ListOptions::new().fields(name);
    if let Some(namespace) = key.namespace() {
        list_options = list_options.namespace(namespace);
    }
    let private = PrivateCache::new(shared.client_config(), kind, &list_options)?;
    let (mut last_seen, mut problem) = (LastSeen::Nothing, None);
    let judged = async {
        let informers = private.reads.informers()?;
        // The list options name at most one namespace, so this cache has one informer.
        let Some(mut applied) = informers.first().map(|i| i.untyped().applied()) else {
            return std::future::pending().await;
        };
        loop {
            // The current version is marked as known before the read. So a change between the read and the wait ends
            // the wait.
            applied.mark_unchanged();
            match private.reads.get_opt(&key).await {
                Ok(object) => {
                    if condition.is_met(object.as_deref()) {
                        return Ok(object);
                    }
                    (last_seen, problem) = (LastSeen::of(object.as_deref()), None);
                }
                Err(error) if is_passing(&error) => problem = Some(error),
                Err(error) => return Err(Error::Cache(error)),
            }
            if applied.changed().await.is_err() {
                // The informer has ended. The future of the cache is polled beside this future and returns the reason.
                return std::future::pending().await;
            }
        }
    };
    let limit_or_max = match limit {
        Duration::ZERO => Duration::MAX,
        limit => limit,
    };
    let ended = tokio::select! {
        biased;
        ended = timeout(limit_or_max, judged) => ended,
        ended = private.run => Ok(match ended {
            Err(error) => Err(Error::Cache(error)),
            // The token of this cache is never cancelled, so the cache does not end without an error.
            Ok(()) => Err(Error::Cache(steersman_cache::Error::Stopped { kind: kind.clone() })),
        }),
    };
    ended.unwrap_or_else(|_| {
        Err(Error::ConditionNotMet {
            kind: kind.clone(),
            key,
            condition: condition.name().into_owned(),
            timeout: limit,
            last_seen: Box::new(last_seen),
            source: problem.map(Box::new),
        })
    })
}

/// Returns whether the kind may become readable while the wait goes on, for example when the server has started or the
/// CustomResourceDefinition is established. False for other errors, and if the server forbids the watch.
fn is_passing(error: &steersman_cache::Error) -> bool {
    let unsynced = error.unsynced();
    error.is_unavailable() && !unsynced.iter().any(|unsynced| unsynced.is_forbidden())
}
