//! Words: a rule of a role.

use serde::{Deserialize, Serialize};

use crate::kind::Kind;
use crate::object::TypedObject;

/// A rule of a role: the verbs that are granted on resources or paths.
///
/// ```
/// use steersman_object::PolicyRule;
///
/// let rule = PolicyRule::new("apps", &["deployments/scale"], &["patch"]).named(&["web"]);
/// assert_eq!(rule.resource_names, ["web"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PolicyRule {
    /// The API groups; the empty text is the core group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The plural names of the kinds, such as `deployments`, or with a subresource `deployments/status`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The names of the objects; an empty list means all objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Granted paths that are no API resources, such as `/metrics`.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
    /// The granted verbs, such as `get`.
    pub verbs: Vec<String>,
}

impl PolicyRule {
    /// Makes a rule for all objects of these resources in one group.
    pub fn new(group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        Self {
            api_groups: vec![group.to_owned()],
            resources: owned(resources),
            verbs: owned(verbs),
            ..Self::default()
        }
    }

    /// Makes a rule for all objects of kind `K`.
    ///
    /// ```
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use steersman_object::PolicyRule;
    /// let rule = PolicyRule::on::<Deployment>(&["patch"]);
    /// assert_eq!(rule, PolicyRule::new("apps", &["deployments"], &["patch"]));
    /// ```
    pub fn on<K: TypedObject>(verbs: &[&str]) -> Self {
        let kind = Kind::of::<K>();
        Self::new(kind.gvk().group(), &[kind.plural()], verbs)
    }

    /// Limits the rule to the objects with these names.
    #[must_use]
    pub fn named(mut self, names: &[&str]) -> Self {
        self.resource_names = owned(names);
        self
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}
