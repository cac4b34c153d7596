//! Driver: the stop about readers of metadata, and the first reader of whole objects.

use k8s_openapi::api::core::v1::Pod;
use steersman::{CacheOptions, ObjectKey};

use crate::BoxError;
use crate::cluster::Cluster;
use crate::page::Page;

/// Follows Pods by their metadata, then reads one whole.
pub(crate) async fn visit(cluster: &Cluster) -> Result<Page, BoxError> {
    let options = CacheOptions::new();
    let opened = cluster.open(options, |cache| {
        cache.metadata::<Pod>().informers().map(drop)
    });
    let opened = opened.await?;
    let informers = opened.cache.metadata::<Pod>().informers()?;
    let held = informers.iter().map(|pods| pods.store().len()).sum();
    let page = Page::new("3. Metadata alone")
        .say("A reader of metadata gets no more than metadata.")
        .quote("cache.metadata::<Pod>()");
    let page = opened.report(page, held);

    opened.cache.informers::<Pod>()?;
    let key = ObjectKey::namespaced("shop", "shop-001");
    opened.cache.get::<Pod>(&key).await?;
    let page = page
        .say("Then Pods are declared and one is read. The informer asks for whole objects, once:")
        .quote("cache.informers::<Pod>()?;\ncache.get::<Pod>(&key).await?");
    let page = opened.report(page, opened.pods()?);
    drop(informers);
    opened.close().await?;
    Ok(page)
}
