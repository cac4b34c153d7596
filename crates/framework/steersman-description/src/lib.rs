//! The description of an operator, which its program prints as JSON with the argument `describe`.
//!
//! `steersman-cli` writes a [`Description`], and `steersman-manifests` and `cargo steersman` read it. It is a crate of its
//! own, so that those who read it compile no manager.
//!
//! ```
//! use steersman_description::Description;
//!
//! # fn main() -> Result<(), serde_json::Error> {
//! let text = r#"{
//!     "name": "greeter", "version": "0.1.0", "framework": "0.1.0", "definitions": [], "kinds": [
//!         {"group": "apps", "version": "v1", "kind": "Deployment", "plural": "deployments", "namespaced": true}
//!     ], "controllers": [], "webhooks": [], "converted": []
//! }"#;
//! let description: Description = serde_json::from_str(text)?;
//! assert_eq!(description.kinds[0].plural, "deployments");
//! # Ok(())
//! # }
//! ```

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steersman_object::{Kind, PolicyRule};

/// The kinds, controllers and webhooks of a program, as `PROGRAM describe` prints them.
///
/// `cargo steersman generate` makes manifests from it. New versions may add fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Description {
    /// The name of the program.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The version of this framework that the program is built with.
    pub framework: String,
    /// The `CustomResourceDefinitions` that the program can install, as JSON.
    pub definitions: Vec<Value>,
    /// The kinds that the cache holds, each once, ordered by group, version and kind.
    pub kinds: Vec<DescribedKind>,
    /// The kinds that the cache holds only in some namespaces, ordered by group and plural name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limited_kinds: Vec<LimitedKind>,
    /// The controllers, ordered by name.
    pub controllers: Vec<DescribedController>,
    /// The defaulters and validators.
    pub webhooks: Vec<DescribedWebhook>,
    /// The kinds that a webhook of the program converts, in the version of their hub.
    pub converted: Vec<ConvertedKind>,
}

/// A controller, with the facts from which its permissions follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DescribedController {
    /// The name of the controller.
    pub name: String,
    /// The kind that the controller's requests are about, if they are all about one kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<DescribedKind>,
    /// The kinds that objects of the primary kind own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<DescribedKind>,
    /// Every kind that the controller watches, the primary kind and the owned kinds included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<DescribedKind>,
    /// The rules that the code of the controller declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needed_rules: Vec<DescribedRule>,
}

/// A rule that the code of a controller needs, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedRule {
    /// The permission, as a rule of a role.
    pub rule: PolicyRule,
    /// Why the controller needs the rule.
    pub reason: String,
}

/// A kind, with the facts that a rule of a role needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The version within the group, such as `v1`.
    pub version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The plural name, such as `deployments`.
    pub plural: String,
    /// Whether the objects of the kind are in namespaces.
    pub namespaced: bool,
}

/// A kind that the cache holds only in some namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitedKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The plural name, such as `secrets`.
    pub plural: String,
    /// The namespaces in alphabetical order, at least one.
    pub namespaces: Vec<String>,
}

/// A defaulter or a validator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedWebhook {
    /// The path, such as `/mutate-apps-v1-deployment`.
    pub path: String,
    /// Whether the webhook may change objects.
    pub mutates: bool,
    /// The kind of the webhook's objects.
    pub object: DescribedKind,
}

/// A kind that a conversion webhook converts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConvertedKind {
    /// The group of the kind.
    pub group: String,
    /// The hub: the version to and from which all other versions are converted.
    pub version: String,
    /// The kind, such as `Website`.
    pub kind: String,
}

impl Description {
    /// Makes the description of a program without kinds, controllers and webhooks.
    #[must_use]
    pub fn new(name: &str, version: &str, framework: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            framework: framework.to_owned(),
            ..Self::default()
        }
    }
}

impl DescribedController {
    /// Makes the description of a controller. `watched` has every watched kind, `primary` and `owned` included.
    #[must_use]
    pub fn new(
        name: &str,
        primary: Option<&Kind>,
        owned: &[Kind],
        watched: &[Kind],
        needed_rules: Vec<DescribedRule>,
    ) -> Self {
        let all = |kinds: &[Kind]| kinds.iter().map(DescribedKind::from).collect();
        Self {
            name: name.to_owned(),
            primary: primary.map(DescribedKind::from),
            owned: all(owned),
            watched: all(watched),
            needed_rules,
        }
    }
}

impl From<&Kind> for DescribedKind {
    fn from(kind: &Kind) -> Self {
        let gvk = kind.gvk();
        Self {
            group: gvk.group().to_owned(),
            version: gvk.version().to_owned(),
            kind: gvk.kind().to_owned(),
            plural: kind.plural().to_owned(),
            namespaced: kind.is_namespaced(),
        }
    }
}
