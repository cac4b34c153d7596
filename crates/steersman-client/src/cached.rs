//! Driver: reads from the cache, once it has seen what it has to see.

use std::sync::Arc;

use steersman_cache::ListOptions;
use steersman_object::{Kind, Object, ObjectKey};

use crate::error::Error;
use crate::live;
use crate::own_reads::Settled;
use crate::own_writes::Read;
use crate::shared::Shared;

type Cached<T> = Result<T, steersman_cache::Error>;

/// The object of a key: from the cache, or from the server where the cache is too far behind (RYOW-1).
pub(crate) async fn get<K: Object>(
    shared: &Shared,
    kind: &Kind,
    key: &ObjectKey,
    cached: impl Future<Output = Cached<Arc<K>>>,
) -> Result<Arc<K>, Error> {
    let unplaced;
    let named = match key.namespace() {
        Some(_) if !kind.is_namespaced() => {
            unplaced = ObjectKey::cluster(key.name());
            &unplaced
        }
        _ => key,
    };
    match shared.settle(kind, Read::Object(named)).await {
        Settled::Cache => Ok(cached.await?),
        Settled::Late(_) => Ok(Arc::new(live::get(shared, kind, key).await?)),
        Settled::Ask(asking) => {
            let read = live::get::<K>(shared, kind, key).await;
            match &read {
                Ok(object) => asking.found(named, Some(object)),
                Err(error) if error.is_not_found() => asking.found::<K>(named, None),
                Err(_) => {}
            }
            Ok(Arc::new(read?))
        }
    }
}

/// The objects that `options` select, as [`get`]; an error where the cache does not come so far in time.
pub(crate) async fn list<K: Object>(
    shared: &Shared,
    kind: &Kind,
    options: &ListOptions,
    cached: impl Future<Output = Cached<Vec<Arc<K>>>>,
) -> Result<Vec<Arc<K>>, Error> {
    let namespace = options
        .selected_namespace()
        .filter(|_| kind.is_namespaced());
    let mut settled = shared.settle(kind, Read::List(namespace)).await;
    if let Settled::Ask(asking) = settled {
        let selects_all =
            options.selected_labels().is_everything() && options.selected_limit().is_none();
        if options.selected_indexes().is_empty() {
            let objects = live::list::<K>(shared, kind, options).await?;
            asking.listed(&objects, selects_all);
            return Ok(objects.into_iter().map(Arc::new).collect());
        }
        // The server knows no index, but what there is, and that is waited for.
        let mut all = ListOptions::new().skip_malformed();
        if let Some(namespace) = namespace {
            all = all.namespace(namespace);
        }
        let objects = live::list::<K>(shared, kind, &all).await?;
        asking.listed(&objects, true);
        settled = shared.settle(kind, Read::List(namespace)).await;
    }
    match settled {
        Settled::Cache => Ok(cached.await?),
        // Another write became unknown meanwhile: its own next read asks.
        Settled::Ask(asking) => {
            drop(asking);
            Ok(cached.await?)
        }
        Settled::Late(unseen) => Err(Error::OwnWritesUnseen {
            kind: kind.clone(),
            waited: shared.options().own_write_wait,
            unseen,
        }),
    }
}
