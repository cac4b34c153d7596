//! Driver: the stop about a stale cache and a request key that reads its own write.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman::client::{Client, ReadConsistency, RequestId};
use steersman::object::Object as _;
use steersman::{ByObject, CacheOptions, ClientConfig, ListOptions, ObjectKey};
use tokio::time::{Instant, sleep};

use crate::BoxError;
use crate::cluster::Cluster;
use crate::page::{Page, Table};

/// How long the cache receives no event.
const LAG: Duration = Duration::from_secs(2);

/// Writes a ConfigMap and reads it four times. Its event reaches the cache late.
pub(crate) async fn visit(cluster: &Cluster) -> Result<Page, BoxError> {
    let options = CacheOptions::new().by_object::<ConfigMap>(ByObject::new().namespaces(["shop"]));
    let opened = cluster.open(options, |cache| cache.informers::<ConfigMap>().map(drop));
    let opened = opened.await?;
    let client_config = ClientConfig::in_process(cluster.server().service(), "shop");
    let client = Client::new(opened.cache.clone(), client_config);
    let [writer, other] = ["one", "two"].map(|name| {
        let key = ObjectKey::namespaced("shop", name);
        client.for_request(RequestId::new("shops", key))
    });
    let careless = writer.read_consistency(ReadConsistency::None);

    let faults = cluster.server().faults();
    faults.silence_watches_of("configmaps");
    let prices: ConfigMap = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "prices"}, "data": {"tea": "3"},
    }))?;
    let key = prices.key();
    writer.create(&prices).await?;
    let server = cluster.server().clone();
    let heard = tokio::spawn(async move {
        sleep(LAG).await;
        server.faults().resume_watches();
    });

    let name_of = |found| if found { "the object" } else { "nothing" };
    let mut table = Table::new(["reader, right after the write", "finds", "waits"]);
    for (who, client) in [
        ("another key", &other),
        ("the key that wrote, with ReadConsistency::None", &careless),
        ("the key that wrote", &writer),
    ] {
        let began = Instant::now();
        let found = client.get_opt::<ConfigMap>(&key).await?;
        table = table.row([&who, &name_of(found.is_some()), &seconds_since(began)]);
    }
    let began = Instant::now();
    let shop = ListOptions::new().namespace("shop");
    let found = !writer.list::<ConfigMap>(&shop).await?.is_empty();
    let who = "a list of the key that wrote";
    table = table.row([&who, &name_of(found), &seconds_since(began)]);
    heard.await?;
    let page = Page::new("5. Reading one's own writes")
        .say("A reconciler creates a ConfigMap while the watch of them is silent for two seconds.")
        .quote(
            "ctx.client().create(&prices).await?;\nctx.client().get_opt::<ConfigMap>(&key).await?;",
        )
        .table(&table)
        .table(&opened.asked())
        .say(
            "The key that wrote gets the answer to its write at once; its list waits until the cache has the object.\n\
             Other readers do not wait, and do not see the object yet.\n\
             No request was sent for it.",
        );
    opened.close().await?;
    Ok(page)
}

fn seconds_since(began: Instant) -> String {
    format!("{:.1} s", began.elapsed().as_secs_f64())
}
