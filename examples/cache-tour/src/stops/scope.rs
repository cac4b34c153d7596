//! Driver: the stop about a cache that holds part of a kind.

use k8s_openapi::api::core::v1::Pod;
use steersman::cache::Settings;
use steersman::{ByObject, CacheOptions, ListOptions, ObjectKey};

use crate::BoxError;
use crate::cluster::Cluster;
use crate::page::{Page, Table};

/// Reads objects out of scope, objects that a selector hides, and cached objects.
pub(crate) async fn visit(cluster: &Cluster) -> Result<Page, BoxError> {
    let pods = ByObject::new()
        .namespace("shop", Settings::new())
        .namespace("web", Settings::new().labels("tier=front"));
    let options = CacheOptions::new().by_object::<Pod>(pods);
    let opened = cluster.open(options, |cache| cache.informers::<Pod>().map(drop));
    let opened = opened.await?;
    let held = opened.pods()?;
    let page = Page::new("1. Scope: the server selects")
        .say("All Pods of one namespace, and of another one those with a label.")
        .quote(
            "ByObject::new()\n    .namespace(\"shop\", Settings::new())\n    \
             .namespace(\"web\", Settings::new().labels(\"tier=front\"))",
        );
    let page = opened.report(page, held);

    let cache = &opened.cache;
    let read = |namespace: &str, name: &str| {
        let key = ObjectKey::namespaced(namespace, name);
        async move {
            let found = cache.get::<Pod>(&key).await;
            found.map_or_else(|error| error.to_string(), |_| "found".to_owned())
        }
    };
    let all = cache.list::<Pod>(&ListOptions::new()).await?;
    let page = page
        .say("Reads span both scopes, and name what is out of scope:")
        .table(
            &Table::new(["read", "answer"])
                .row([&"all", &format!("{} Pods", all.len())])
                .row([&"shop/shop-001", &read("shop", "shop-001").await]),
        )
        .say("web/web-001 has another label:")
        .quote(read("web", "web-001").await)
        .say("batch/batch-001 is in a namespace that is not cached:")
        .quote(read("batch", "batch-001").await);
    drop(all);
    opened.close().await?;
    Ok(page)
}
