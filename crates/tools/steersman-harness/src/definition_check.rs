//! Words: the check of a definition without a server.

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use steersman_testenv::apiserver::definition_check;

/// The estimated cost of one CEL rule of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleCost {
    /// The path of the rule in the definition.
    pub path: String,
    /// The source of the rule.
    pub rule: String,
    /// The estimated cost for the largest object that the schema permits, in the units of Kubernetes.
    pub cost: u64,
    /// The largest cost with which Kubernetes accepts the rule.
    pub limit: u64,
}

/// A definition that an API server would refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidCrd {
    /// The name of the definition.
    pub name: String,
    /// Each problem, with the path of its field.
    pub problems: Vec<String>,
}

/// Checks a definition as an API server does when it is created: its names and versions, its schemas, and that each
/// CEL rule compiles and is cheap enough. Returns the costs of the rules.
///
/// ```
/// # use kube_core::CustomResourceExt as _;
/// # use kube_derive::{CustomResource, KubeSchema};
/// # use serde::{Deserialize, Serialize};
/// #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, KubeSchema)]
/// #[kube(group = "example.com", version = "v1", kind = "Site", crates(kube_core = "kube_core"))]
/// #[x_kube(crates(kube_core = "kube_core"))]
/// struct SiteSpec {
///     #[x_kube(validation = "self < 100")]
///     replicas: i32,
/// }
///
/// let costs = steersman_harness::check_definition(&Site::crd()).unwrap();
/// assert_eq!(costs[0].rule, "self < 100");
/// assert!(costs[0].cost < costs[0].limit / 1000);
/// ```
///
/// # Errors
///
/// Every problem for which an API server would refuse the definition.
pub fn check_definition(
    definition: &CustomResourceDefinition,
) -> Result<Vec<RuleCost>, InvalidCrd> {
    let invalid = |problems| InvalidCrd {
        name: definition.metadata.name.clone().unwrap_or_default(),
        problems,
    };
    let json = serde_json::to_value(definition);
    let json = json.map_err(|error| invalid(vec![error.to_string()]))?;
    match definition_check::check_definition(&json) {
        Ok(costs) => Ok(costs
            .into_iter()
            .map(|cost| RuleCost {
                path: cost.path,
                rule: cost.rule,
                cost: cost.cost,
                limit: cost.limit,
            })
            .collect()),
        Err(errors) => {
            let problems = errors
                .iter()
                .map(|error| format!("{}: {}", error.field, error.message));
            Err(invalid(problems.collect()))
        }
    }
}

impl fmt::Display for InvalidCrd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the definition {} is invalid", self.name)?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "\n- {problem}"))
    }
}

impl std::error::Error for InvalidCrd {}
