//! Driver: the stop about the memory that an object takes.

use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use steersman::cache::{Cache, Error, Settings, Transform};
use steersman::kube_core::DynamicObject;
use steersman::{ByObject, CacheOptions};

use crate::BoxError;
use crate::cluster::{Cluster, PODS, pods};
use crate::page::{Page, Table};
use crate::stops::views::PlacedPod;

/// Caches the Pods in several ways, one after the other, and shows the bytes per Pod for each way.
///
/// # Errors
///
/// The first error of the cache or the server.
///
/// # Cancel safety
///
/// Dropping the future stops the cache.
pub async fn visit(cluster: &Cluster) -> Result<Page, BoxError> {
    let (with_managed, without) = json_sizes(cluster)?;
    let empty = |cache: &Cache| cache.informer::<Service>().map(drop);
    let base = measure(cluster, CacheOptions::new(), empty).await?;
    let mut each = Table::new(["a Pod is cached", "bytes"]);
    for (way, settings, declare) in ways() {
        let options = CacheOptions::new().by_object::<Pod>(ByObject::new().settings(settings));
        let bytes = measure(cluster, options, declare).await?;
        each = each.row([&way, &(bytes.saturating_sub(base) / PODS)]);
    }
    Ok(Page::new("7. What an object takes")
        .say(format_args!(
            "Allocated bytes, divided by the {PODS} Pods of the server. As JSON a Pod is {with_managed} bytes,\n\
             and {without} without managedFields. An informer of an empty kind took {} KiB.",
            base / 1024,
        ))
        .table(&each))
}

/// A function that declares the readers of Pods.
type Declare = fn(&Cache) -> Result<(), Error>;

/// Returns the ways to cache Pods: a name, the settings and the declaration.
fn ways() -> [(&'static str, Settings, Declare); 9] {
    let all = Settings::new;
    let typed: Declare = |cache| cache.informers::<Pod>().map(drop);
    let metadata: Declare = |cache| cache.metadata::<Pod>().informers().map(drop);
    let placed: Declare = |cache| cache.of::<PlacedPod>(&pods()).informers().map(drop);
    let dynamic: Declare = |cache| cache.of::<DynamicObject>(&pods()).informers().map(drop);
    let both: Declare = |cache| {
        cache.informers::<Pod>()?;
        cache.metadata::<Pod>().informers().map(drop)
    };
    let no_spec = Transform::json("drop spec and status", |pod| {
        if let Some(pod) = pod.as_object_mut() {
            pod.remove("spec");
            pod.remove("status");
        }
        Ok::<_, Infallible>(())
    });
    [
        ("metadata alone", all(), metadata),
        ("as a struct with one field", all(), placed),
        ("as Pod", all(), typed),
        ("as Pod, all of them packed", all().decoded_budget(0), typed),
        ("as DynamicObject", all(), dynamic),
        ("as Pod and as metadata", all(), both),
        (
            "as Pod, with managedFields",
            all().keep_managed_fields(true),
            typed,
        ),
        (
            "as Pod, spec and status dropped by a transform",
            all().transform(no_spec),
            typed,
        ),
        (
            "as Pod, one of three selected by label",
            all().labels("tier=front"),
            typed,
        ),
    ]
}

/// Returns the size of a Pod as JSON in bytes, with and without `managedFields`.
fn json_sizes(cluster: &Cluster) -> Result<(usize, usize), BoxError> {
    let (mut with_managed, mut without) = (0, 0);
    for mut pod in cluster.server().list("pods", "") {
        with_managed += serde_json::to_vec(&pod)?.len();
        if let Some(meta) = pod["metadata"].as_object_mut() {
            meta.remove("managedFields");
        }
        without += serde_json::to_vec(&pod)?.len();
    }
    Ok((with_managed / PODS, without / PODS))
}

/// Opens a cache only to measure it, and returns its memory in bytes.
async fn measure(
    cluster: &Cluster,
    options: CacheOptions,
    declare: impl FnOnce(&Cache) -> Result<(), Error>,
) -> Result<usize, BoxError> {
    let opened = cluster.open(options, declare).await?;
    opened.cache.wait_for_sync().await?;
    // During this second the cache trains a dictionary, which takes no virtual time.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = opened.held();
    opened.close().await?;
    Ok(held)
}
