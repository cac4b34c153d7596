//! Driver: the stop about indexes, which find objects by their content.

use k8s_openapi::api::core::v1::Pod;
use steersman::cache::IndexKey;
use steersman::{ByObject, CacheOptions, ListOptions};

use crate::BoxError;
use crate::cluster::{Cluster, pods};
use crate::page::{Page, Table};

const NODE: IndexKey<Pod, String> = IndexKey::new("spec.nodeName");

/// Finds Pods by a field, an owner and a label.
pub(crate) async fn visit(cluster: &Cluster) -> Result<Page, BoxError> {
    let options = CacheOptions::new().by_object::<Pod>(ByObject::new());
    let opened = cluster.open(options, |cache| {
        cache.index_by(&NODE, |pod: &Pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            node.into_iter().collect()
        })?;
        cache.index_controller_uid::<Pod>()?;
        cache.index_label::<Pod>("tier")
    });
    let opened = opened.await?;
    let held = opened.pods()?;
    let page = Page::new("2. Indexes: found, not searched")
        .say("By a field, by the controlling owner, and by the value of a label.")
        .quote(
            "cache.index_by(&NODE, |pod: &Pod| …)?;\n\
             cache.index_controller_uid::<Pod>()?;\n\
             cache.index_label::<Pod>(\"tier\")?;",
        );
    let page = opened.report(page, held);

    let asked = opened.requests();
    let reads = opened.cache.of::<Pod>(&pods());
    let owner = cluster.server().get("replicasets.apps", "shop", "shop");
    let uid = owner
        .as_ref()
        .and_then(|set| set["metadata"]["uid"].as_str());
    let on_node = ListOptions::new().by(&NODE, "node-7");
    let front = ListOptions::new()
        .by(&NODE, "node-9")
        .index("tier", "front");
    let owned = ListOptions::new().controlled_by(uid.unwrap_or_default());
    let first = ListOptions::new().by(&NODE, "node-7").limit(1);
    let nodes = reads.index_values(NODE.name()).await?;
    let keys = reads.keys(&first).await?;
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let on_node = reads.list(&on_node).await?.len();
    let front = reads.list(&front).await?.len();
    let owned = reads.list(&owned).await?.len();
    let found = Table::new(["read", "found"])
        .row([&".by(&NODE, \"node-7\")", &on_node])
        .row([&".by(&NODE, \"node-9\").index(\"tier\", \"front\")", &front])
        .row([&".controlled_by(uid of ReplicaSet shop/shop)", &owned])
        .row([&"distinct values of NODE", &nodes.len()]);
    let page = page
        .say("Terms combine; values and keys are returned without decoding an object.")
        .table(&found)
        .say(format_args!(
            "The first key on node-7 is {}. All of this sent {} requests.",
            keys.join(", "),
            opened.requests() - asked,
        ));
    opened.close().await?;
    Ok(page)
}
