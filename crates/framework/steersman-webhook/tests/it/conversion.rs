//! Tests conversions between three versions of a kind, directly and through the API server.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use kube_derive::CustomResource;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_webhook::{BoxError, ConversionError, Conversions, Spoke, WebhookServer};
use tower::ServiceExt as _;

use crate::world::{World, definition};

/// The hub version of the spec.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced)]
#[kube(crates(kube_core = "kube_core"))]
pub(crate) struct ShopSpec {
    host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<String>,
    #[serde(default)]
    shelves: Vec<Shelf>,
}

#[derive(Serialize, Deserialize, Clone, Debug, JsonSchema)]
struct Shelf {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    colour: Option<String>,
}

/// The version v1alpha1, which has no TLS and no colours of shelves.
mod v1alpha1 {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[kube(group = "example.com", version = "v1alpha1", kind = "Shop", namespaced)]
    #[kube(crates(kube_core = "kube_core"))]
    pub(crate) struct ShopSpec {
        pub(crate) domain: String,
        #[serde(default)]
        pub(crate) shelves: Vec<String>,
    }
}

/// The version v1beta1, which has a field that the hub lacks.
mod v1beta1 {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[kube(group = "example.com", version = "v1beta1", kind = "Shop", namespaced)]
    #[kube(crates(kube_core = "kube_core"))]
    pub(crate) struct ShopSpec {
        pub(crate) host: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) tls: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) opening: Option<i64>,
    }
}

impl Spoke for v1alpha1::Shop {
    type Hub = Shop;

    fn to_hub(&self) -> Result<Shop, BoxError> {
        if self.spec.domain == "refused" {
            return Err("this domain is refused".into());
        }
        assert_ne!(self.spec.domain, "panic", "on purpose");
        let shelves = self.spec.shelves.iter().map(|name| Shelf {
            name: name.clone(),
            colour: None,
        });
        let spec = ShopSpec {
            host: self.spec.domain.clone(),
            tls: None,
            shelves: shelves.collect(),
        };
        Ok(Shop {
            metadata: self.metadata.clone(),
            spec,
        })
    }

    fn from_hub(hub: &Shop) -> Result<Self, BoxError> {
        let shelves = hub.spec.shelves.iter().map(|shelf| shelf.name.clone());
        let spec = v1alpha1::ShopSpec {
            domain: hub.spec.host.clone(),
            shelves: shelves.collect(),
        };
        Ok(Self {
            metadata: hub.metadata.clone(),
            spec,
        })
    }
}

impl Spoke for v1beta1::Shop {
    type Hub = Shop;

    fn to_hub(&self) -> Result<Shop, BoxError> {
        let spec = ShopSpec {
            host: self.spec.host.clone(),
            tls: self.spec.tls.clone(),
            shelves: Vec::new(),
        };
        Ok(Shop {
            metadata: self.metadata.clone(),
            spec,
        })
    }

    fn from_hub(hub: &Shop) -> Result<Self, BoxError> {
        let spec = v1beta1::ShopSpec {
            host: hub.spec.host.clone(),
            tls: hub.spec.tls.clone(),
            opening: None,
        };
        Ok(Self {
            metadata: hub.metadata.clone(),
            spec,
        })
    }
}

const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

fn conversions() -> Conversions {
    Conversions::new()
        .hub::<Shop>()
        .spoke::<v1beta1::Shop>()
        .spoke::<v1alpha1::Shop>()
}

fn group_version(version: &str) -> String {
    format!("example.com/{version}")
}

fn shop(version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": group_version(version), "kind": "Shop",
        "metadata": {"name": "a", "namespace": "default", "labels": {"a": "b"}}, "spec": spec,
    })
}

/// Returns a strategy for objects of one version, some with fields that the Rust type lacks.
fn any_shop() -> impl Strategy<Value = Value> {
    let text = "[a-z]{1,6}";
    let maybe = || proptest::option::of(text);
    let shelves = proptest::collection::vec((text, maybe()), 0..4);
    let parts = (
        0..3_usize,
        text,
        maybe(),
        shelves,
        proptest::option::of(0..24_i64),
        any::<bool>(),
    );
    parts.prop_map(|(version, host, tls, shelves, opening, unknown)| {
        let version = VERSIONS[version];
        let mut spec = match version {
            "v1" => json!({"host": host, "shelves": shelves.iter().map(|(name, colour)| match colour {
                Some(colour) => json!({"name": name, "colour": colour}),
                None => json!({"name": name}),
            }).collect::<Vec<_>>()}),
            "v1beta1" => json!({"host": host}),
            _ => json!({"domain": host, "shelves": shelves.iter().map(|(name, _)| name).collect::<Vec<_>>()}),
        };
        if let (Some(tls), "v1" | "v1beta1") = (tls, version) {
            spec["tls"] = json!(tls);
        }
        if let (Some(opening), "v1beta1") = (opening, version) {
            spec["opening"] = json!(opening);
        }
        if unknown {
            spec["later"] = json!({"x": 1});
        }
        shop(version, &spec)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// CONV-2: a conversion to another version and back loses no field.
    #[test]
    fn an_object_is_the_same_after_a_way_through_any_other_versions(
        original in any_shop(),
        way in proptest::collection::vec(0..3_usize, 1..4),
    ) {
        let conversions = conversions();
        let home = original["apiVersion"].as_str().unwrap();
        let mut object = original.clone();
        for version in way {
            object = conversions.convert(&object, &group_version(VERSIONS[version])).unwrap();
        }
        let back = conversions.convert(&object, home).unwrap();
        prop_assert_eq!(&back["spec"], &original["spec"]);
    }
}

/// CONV-2: a conversion to another version and back loses no field.
#[tokio::test(start_paused = true)]
async fn a_number_keeps_all_its_digits() {
    let number = "9.536743164034567e-7";
    let object = shop("v1", &json!({"host": "a.org", "later": "NUMBER"}));
    for desired in VERSIONS {
        let mut review = review(&json!([object]));
        review["request"]["desiredAPIVersion"] = json!(group_version(desired));
        let body = review.to_string().replace("\"NUMBER\"", number);
        let answer = answered(body).await.to_string();
        assert!(answer.contains(number), "{answer}");
    }
}

/// CONV-2: a conversion to another version and back loses no field.
#[test]
fn a_change_in_an_older_version_keeps_the_fields_that_it_cannot_hold() {
    let conversions = conversions();
    let original = shop(
        "v1",
        &json!({
            "host": "a.org", "tls": "secret",
            "shelves": [{"name": "books", "colour": "red"}, {"name": "maps"}],
        }),
    );
    let mut old = conversions
        .convert(&original, "example.com/v1alpha1")
        .unwrap();
    assert_eq!(
        old["spec"],
        json!({"domain": "a.org", "shelves": ["books", "maps"]})
    );
    assert!(old["metadata"]["annotations"]["example.com/fields-of-v1"].is_string());
    old["spec"]["domain"] = json!("b.org");
    old["metadata"]["labels"]["new"] = json!("label");
    let new = conversions.convert(&old, "example.com/v1").unwrap();
    let mut expected = original["spec"].clone();
    expected["host"] = json!("b.org");
    assert_eq!(new["spec"], expected);
    assert_eq!(new["metadata"]["labels"], json!({"a": "b", "new": "label"}));
    assert!(new["metadata"].get("annotations").is_none(), "{new}");

    // After a shelf was added, the other shelf keeps its colour.
    old["spec"]["shelves"] = json!(["books", "maps", "toys"]);
    let new = conversions.convert(&old, "example.com/v1").unwrap();
    let shelves = json!([{"name": "books", "colour": "red"}, {"name": "maps"}, {"name": "toys"}]);
    assert_eq!(new["spec"]["shelves"], shelves);

    let dropping = conversions.clone().without_kept_fields();
    let old = dropping.convert(&original, "example.com/v1alpha1").unwrap();
    assert!(old["metadata"].get("annotations").is_none());
    // An annotation that no conversion has written is not read as kept content.
    let mut foreign = old;
    foreign["metadata"]["annotations"] = json!({"example.com/fields-of-v1": "{"});
    let new = conversions.convert(&foreign, "example.com/v1").unwrap();
    assert_eq!(new["spec"]["host"], "a.org");
}

fn review(objects: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
        "uid": "u-1", "desiredAPIVersion": "example.com/v1", "objects": objects,
    }})
}

async fn answered(body: String) -> Value {
    let webhooks = WebhookServer::new("0").conversions(conversions());
    let request = Request::post("/convert")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = webhooks
        .in_process()
        .unwrap()
        .oneshot(request)
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// CONV-1: one object that cannot be converted fails its review, and is named.
#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_converted_fails_its_review_and_is_named() {
    let good = shop("v1alpha1", &json!({"domain": "a.org"}));
    for (bad, problem) in [
        (
            shop("v1alpha1", &json!({"domain": "refused"})),
            "object 1 (Shop default/a): it cannot be converted from Shop.v1alpha1.example.com to \
             Shop.v1.example.com: this domain is refused",
        ),
        (
            shop("v1alpha1", &json!({"domain": "panic"})),
            "object 1 (Shop default/a): its conversion panicked",
        ),
        (
            shop("v1alpha1", &json!({"domain": 7})),
            "it cannot be read as Shop.v1alpha1.example.com: spec.domain: invalid type",
        ),
        (
            shop("v2", &json!({})),
            "Shop.v2.example.com is not registered for conversion: the versions of the kind are v1, v1beta1, v1alpha1",
        ),
        (json!(7), "object 1 (? ?): it is no object"),
    ] {
        let answer = answered(review(&json!([good, bad])).to_string()).await;
        let response = &answer["response"];
        assert_eq!(response["uid"], "u-1");
        assert_eq!(response["result"]["status"], "Failure");
        let message = response["result"]["message"].as_str().unwrap();
        assert!(message.contains(problem), "{message}");
    }
    let second = shop("v1beta1", &json!({"host": "b.org"}));
    let answer = answered(review(&json!([good, second])).to_string()).await;
    let objects = answer["response"]["convertedObjects"].as_array().unwrap();
    let hosts: Vec<&Value> = objects
        .iter()
        .map(|object| &object["spec"]["host"])
        .collect();
    assert_eq!(hosts, ["a.org", "b.org"]);
    for body in [
        "",
        "{}",
        "[]",
        "{\"apiVersion\":\"apiextensions.k8s.io/v1\"}",
    ] {
        let answer = answered(body.to_owned()).await;
        assert_eq!(answer["response"]["result"]["status"], "Failure", "{body}");
    }
}

#[test]
fn a_version_without_its_hub_and_a_version_twice_are_refused_at_once() {
    for (conversions, problem) in [
        (Conversions::new().spoke::<v1beta1::Shop>(), "needs its hub"),
        (conversions().spoke::<v1beta1::Shop>(), "registered twice"),
    ] {
        let error = WebhookServer::new("0")
            .conversions(conversions)
            .check()
            .unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
    let alone = Conversions::new().hub::<Shop>();
    let unknown = alone
        .convert(&shop("v1", &json!({"host": "a"})), "example.com/v9")
        .unwrap_err();
    assert!(
        matches!(unknown, ConversionError::UnknownVersion { .. }),
        "{unknown}"
    );
}

/// CONV-2: a conversion to another version and back loses no field.
#[tokio::test(start_paused = true)]
async fn an_api_server_serves_an_object_in_each_version() {
    let world = World::new();
    let webhooks = WebhookServer::new("0").conversions(conversions());
    world
        .server
        .route_service_to("hooks", "hooks", webhooks.in_process().unwrap());
    let version = |name: &str| {
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {
                "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        }}})
    };
    let mut shops = definition("Shop", &VERSIONS.map(version));
    shops["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "hooks", "name": "hooks", "path": "/convert"}},
    }});
    world.server.create(shops).unwrap();
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/shops");
    let spec = json!({"host": "a.org", "opening": 7});
    let created = world
        .send(Method::POST, &path("v1beta1"), &shop("v1beta1", &spec))
        .await;
    assert_eq!(created.code, 201, "{}", created.body);
    let one = |version: &str| format!("{}/a", path(version));
    let mut old = world
        .send(Method::GET, &one("v1alpha1"), &Value::Null)
        .await
        .body;
    assert_eq!(old["spec"]["domain"], "a.org");
    old["spec"]["domain"] = json!("b.org");
    let replaced = world.send(Method::PUT, &one("v1alpha1"), &old).await;
    assert_eq!(replaced.code, 200, "{}", replaced.body);
    let new = world
        .send(Method::GET, &one("v1beta1"), &Value::Null)
        .await
        .body;
    assert_eq!(new["spec"], json!({"host": "b.org", "opening": 7}));
}
