//! Tests of live lists with objects that do not decode.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use kube_core::{ObjectMeta, Resource};
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_cache::{Cache, CacheOptions};
use steersman_testenv::log::capture;

use super::*;
use crate::Client;

/// A type for ConfigMaps with numbers as values. The values of a ConfigMap are text, so every ConfigMap with data fails
/// to decode as this type.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Numbers {
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, u64>,
}

impl Resource for Numbers {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ConfigMap".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_list_warns_of_the_objects_that_it_leaves_out() {
    let log = capture();
    let said = || log.text();
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let cache = Cache::new(CacheOptions::new()).unwrap();
    let live = Client::new(cache, client_config).live();
    let put = |name: &str, data: &serde_json::Value| {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"}, "data": data,
        });
        server.create(object).unwrap();
    };
    put("a", &json!({}));
    let options = ListOptions::new().namespace("default");
    assert_eq!(live.list::<Numbers>(&options).await.unwrap().len(), 1);
    assert!(!said().contains("WARN"), "{}", said());
    put("b", &json!({"n": "many"}));
    put("c", &json!({"n": "none"}));
    // CACHE-4: the list fails as a list of the cache would, with the error that names the first object that does not
    // decode.
    let error = live.list::<Numbers>(&options).await.unwrap_err();
    assert!(error.is_malformed() && !error.is_not_found(), "{error}");
    assert!(error.to_string().contains("default/b"), "{error}");
    assert!(!said().contains("WARN"), "{}", said());
    let readable = options.skip_malformed();
    let listed = live.list::<Numbers>(&readable).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].data.is_empty());
    assert!(
        said()
            .contains("left out of a live list kind=configmaps left_out=2 first=default/b error="),
        "{}",
        said()
    );
    let b = ObjectKey::namespaced("default", "b");
    let error = live.get_opt::<Numbers>(&b).await.unwrap_err();
    assert!(error.is_malformed(), "{error}");
}
