//! Words: the kinds that the webhooks decide and convert.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use steersman_webhook::{BoxError, Spoke};

/// The kind of the defaulter and the validator.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Site")]
#[kube(namespaced, schema = "disabled")]
#[kube(crates(kube_core = "kube_core"))]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteSpec {
    pub(crate) host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    #[serde(default)]
    pub(crate) pages: Vec<Page>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<IntOrString>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resources: Option<ResourceRequirements>,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(crate) struct Page {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) title: Option<String>,
}

/// The hub of the conversions.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Shop")]
#[kube(namespaced, schema = "disabled", status = "ShopStatus")]
#[kube(crates(kube_core = "kube_core"))]
pub(crate) struct ShopSpec {
    host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<String>,
    #[serde(default)]
    shelves: Vec<BookShelf>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<String, i64>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct BookShelf {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    colour: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct ShopStatus {
    #[serde(default)]
    visitors: u64,
}

/// A version with a field that the hub does not have.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "example.com", version = "v1beta1", kind = "Shop")]
#[kube(root = "BetaShop", namespaced, schema = "disabled")]
#[kube(status = "ShopStatus")]
#[kube(crates(kube_core = "kube_core"))]
pub(crate) struct BetaShopSpec {
    host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opening: Option<i64>,
}

/// A version that has no TLS and no status, shelves without colours, and limits as a list.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "example.com", version = "v1alpha1", kind = "Shop")]
#[kube(root = "AlphaShop", namespaced, schema = "disabled")]
#[kube(crates(kube_core = "kube_core"))]
pub(crate) struct AlphaShopSpec {
    domain: String,
    #[serde(default)]
    shelves: Vec<String>,
    #[serde(default)]
    limits: Vec<NamedLimit>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct NamedLimit {
    name: String,
    limit: i64,
}

/// Refuses one host in each direction.
fn check(host: &str) -> Result<(), BoxError> {
    if host == "refused" {
        return Err("this host is refused".into());
    }
    Ok(())
}

impl Spoke for BetaShop {
    type Hub = Shop;

    fn to_hub(&self) -> Result<Shop, BoxError> {
        let spec = ShopSpec {
            host: self.spec.host.clone(),
            tls: self.spec.tls.clone(),
            shelves: Vec::new(),
            limits: BTreeMap::new(),
        };
        Ok(Shop {
            metadata: self.metadata.clone(),
            spec,
            status: self.status.clone(),
        })
    }

    fn from_hub(hub: &Shop) -> Result<Self, BoxError> {
        let spec = BetaShopSpec {
            host: hub.spec.host.clone(),
            tls: hub.spec.tls.clone(),
            opening: None,
        };
        Ok(Self {
            metadata: hub.metadata.clone(),
            spec,
            status: hub.status.clone(),
        })
    }
}

impl Spoke for AlphaShop {
    type Hub = Shop;

    fn to_hub(&self) -> Result<Shop, BoxError> {
        check(&self.spec.domain)?;
        let shelves = self.spec.shelves.iter().map(|name| BookShelf {
            name: name.clone(),
            colour: None,
        });
        let limits = self.spec.limits.iter();
        let spec = ShopSpec {
            host: self.spec.domain.clone(),
            tls: None,
            shelves: shelves.collect(),
            limits: limits
                .map(|limit| (limit.name.clone(), limit.limit))
                .collect(),
        };
        Ok(Shop {
            metadata: self.metadata.clone(),
            spec,
            status: None,
        })
    }

    fn from_hub(hub: &Shop) -> Result<Self, BoxError> {
        check(&hub.spec.host)?;
        let limits = hub.spec.limits.iter().map(|(name, limit)| NamedLimit {
            name: name.clone(),
            limit: *limit,
        });
        let shelves = hub.spec.shelves.iter().map(|shelf| shelf.name.clone());
        let spec = AlphaShopSpec {
            domain: hub.spec.host.clone(),
            shelves: shelves.collect(),
            limits: limits.collect(),
        };
        Ok(Self {
            metadata: hub.metadata.clone(),
            spec,
        })
    }
}
