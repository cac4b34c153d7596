//! Driver: the stop about the memory that an object takes.

use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use steersman::cache::{Cache, Error, Settings, Transform};
use steersman::kube_core::DynamicObject;
use steersman::{ByObject, CacheOptions, ObjectKey};

use crate::BoxError;
use crate::cluster::{Cluster, PODS, pods};
use crate::page::{Page, Table};
use crate::stops::views::PlacedPod;

/// Caches the Pods in several ways, one after the other, and shows the bytes per Pod for each way.
pub(crate) async fn visit(cluster: &Cluster) -> Result<Page, BoxError> {
    let (with_managed, without) = json_sizes(cluster)?;
    let empty = |cache: &Cache| cache.informer::<Service>().map(drop);
    let base = measure(cluster, CacheOptions::new(), empty, Read::Nothing).await?;
    let mut each = Table::new(["a Pod is cached", "bytes"]);
    for (way, settings, declare, read) in ways() {
        let options = CacheOptions::new().by_object::<Pod>(ByObject::new().settings(settings));
        let bytes = measure(cluster, options, declare, read).await?;
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

/// What is read before the memory is measured. Only objects in protobuf wait for a read to be decoded.
#[derive(Clone, Copy)]
enum Read {
    Nothing,
    EachPod,
}

/// A way to cache Pods: a name, the settings, the declaration and the reads.
type Way = (&'static str, Settings, Declare, Read);

fn ways() -> [Way; 9] {
    let all = Settings::new;
    let packed = all().decoded_budget(0);
    let whole = all().keep_managed_fields(true);
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
        ("metadata alone", all(), metadata, Read::Nothing),
        ("as a struct with one field", all(), placed, Read::Nothing),
        ("as Pod", all(), typed, Read::EachPod),
        ("as Pod, all of them packed", packed, typed, Read::EachPod),
        ("as DynamicObject", all(), dynamic, Read::Nothing),
        ("as Pod and as metadata", all(), both, Read::EachPod),
        ("as Pod, with managedFields", whole, typed, Read::EachPod),
        (
            "as Pod, spec and status dropped by a transform",
            all().transform(no_spec),
            typed,
            Read::EachPod,
        ),
        (
            "as Pod, one of three selected by label",
            all().labels("tier=front"),
            typed,
            Read::EachPod,
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
    read: Read,
) -> Result<usize, BoxError> {
    let opened = cluster.open(options, declare).await?;
    opened.cache.wait_for_sync().await?;
    // During this second the cache trains a dictionary, which takes no virtual time.
    tokio::time::sleep(Duration::from_secs(1)).await;
    if let Read::EachPod = read {
        for pod in cluster.server().list("pods", "") {
            let [namespace, name] =
                ["namespace", "name"].map(|field| pod["metadata"][field].as_str());
            let key =
                ObjectKey::namespaced(namespace.unwrap_or_default(), name.unwrap_or_default());
            match opened.cache.get::<Pod>(&key).await {
                Ok(_) => {}
                // One of the ways selects Pods by a label.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let held = opened.held();
    opened.close().await?;
    Ok(held)
}
