//! Driver: the stop about four types that view one kind.

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use steersman::kube_core::{DynamicObject, object::NotUsed};
use steersman::{CacheOptions, ListOptions, ObjectKey};

use crate::BoxError;
use crate::cluster::{Cluster, pods};
use crate::page::{Page, Table};

/// The fields of a Pod that a scheduler would need.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Placed {
    /// The node that the Pod runs on.
    pub(crate) node_name: Option<String>,
}

/// A Pod that decodes only the node.
pub(crate) type PlacedPod = steersman::kube_core::Object<Placed, NotUsed>;

/// Reads one Pod as four types.
pub(crate) async fn visit(cluster: &Cluster) -> Result<Page, BoxError> {
    let kind = pods();
    let opened = cluster.open(CacheOptions::new(), |cache| {
        cache.informers::<Pod>().map(drop)
    });
    let opened = opened.await?;
    let page = Page::new("4. Views: one informer, any types")
        .say("Pods as k8s-openapi has them, as a struct of three lines, as JSON, and as metadata.")
        .quote(
            "cache.informers::<Pod>()?;\n\
             cache.of::<PlacedPod>(&kind).informers()?;\n\
             cache.of::<DynamicObject>(&kind).informers()?;\n\
             cache.metadata::<Pod>().informers()?;",
        );
    let typed = opened.held();
    let placed = opened.cache.of::<PlacedPod>(&kind);
    placed.informers()?;
    let with_placed = opened.held();
    let metadata = opened.cache.metadata::<Pod>();
    metadata.informers()?;
    let with_metadata = opened.held();
    let dynamic = opened.cache.of::<DynamicObject>(&kind);
    dynamic.informers()?;
    let with_dynamic = opened.held();

    let key = ObjectKey::namespaced("shop", "shop-001");
    let whole = opened.cache.get::<Pod>(&key).await?;
    let node = placed.get(&key).await?.spec.node_name.clone();
    let any = dynamic.get(&key).await?;
    let uid = metadata.get(&key).await?.metadata.uid.clone();
    let node = node.unwrap_or_default();
    let of_any = any.data["spec"]["nodeName"].as_str().unwrap_or_default();
    let agree = whole.metadata.uid == uid && of_any == node;
    let listed = metadata.list(&ListOptions::new()).await?;
    let versions = listed.versions.iter();
    let versions: Vec<String> = versions.map(|(_, version)| version.to_string()).collect();

    let kib = |bytes: usize| bytes / 1024;
    let grown = |from: usize, to: usize| kib(to.saturating_sub(from));
    let held = Table::new(["held in memory", "objects", "KiB"])
        .row([&"Pod", &format!("+{}", listed.len()), &kib(typed)])
        .row([&"+ PlacedPod", &"+0", &grown(typed, with_placed)])
        .row([&"+ metadata", &"+0", &grown(with_placed, with_metadata)])
        .row([
            &"+ DynamicObject",
            &"+0",
            &grown(with_metadata, with_dynamic),
        ]);
    let page = page.table(&opened.asked()).table(&held).say(format_args!(
        "Each type costs its own form of the objects, and no watch. {key} is on {node}: {}.\n\
         They were listed at version {}.",
        if agree {
            "all four agree"
        } else {
            "they differ, as they never should"
        },
        versions.join(", "),
    ));
    drop((whole, any, listed));
    opened.close().await?;
    Ok(page)
}
