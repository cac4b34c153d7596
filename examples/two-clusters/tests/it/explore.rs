//! The copier survives crashes and failures at each of its requests to the cluster of the originals.
//!
//! The engine disturbs requests to one cluster, in which the copier only reads. The other cluster is an external system
//! with ConfigMaps that are compared.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman::{ClientConfig, Error, Manager, ObjectKey};
use steersman_harness::{External, OperatorTest, Scenario};
use steersman_testenv::apiserver::ApiServer;
use two_clusters::copier;

#[tokio::test]
async fn no_crash_leaves_a_wrong_copy_in_the_other_cluster() {
    let motd = ObjectKey::namespaced("default", "motd");
    let scenario = Scenario::new("copier")
        .initial(original("logo", "a picture"))
        .apply(original("motd", "good morning"))
        .quiet()
        .merge::<ConfigMap>(&motd, json!({"data": {"text": "good evening"}}))
        .quiet()
        .delete::<ConfigMap>(&motd);
    let west = External::new(ApiServer::new).records("Copy", copies);
    let operator = OperatorTest::declared_with(west, declare).cache(copier::cache());
    let report = operator.explore(scenario).await.unwrap();
    assert!(!report.points.is_empty(), "{}", report.summary());
}

fn declare(manager: &Manager, west: &ApiServer) -> Result<(), Error> {
    copier::add(manager)?;
    let to_west = ClientConfig::in_process(west.service(), "default");
    manager.add_cluster("west", to_west, copier::cache())?;
    Ok(())
}

fn original(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"copy": "yes"}},
        "data": {"text": text},
    })
}

/// Returns the labels and the data of each ConfigMap in the other cluster.
fn copies(west: &ApiServer) -> Vec<(String, Value)> {
    let all = west.objects().into_iter();
    let copies = all.filter(|object| object["kind"] == "ConfigMap");
    let content = copies.map(|copy| {
        let (namespace, name) = (&copy["metadata"]["namespace"], &copy["metadata"]["name"]);
        let name = [namespace, name].map(|text| text.as_str().unwrap_or_default());
        let record = json!({"labels": copy["metadata"]["labels"], "data": copy["data"]});
        (name.join("/"), record)
    });
    content.collect()
}
