//! Words: checks a definition without a server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use steersman_testenv::apiserver::definition_check;
pub use steersman_testenv::apiserver::definition_check::RuleCost;
use thiserror::Error;

/// The error of a definition that an API server would refuse.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the definition {name} is invalid{}",
    problems.iter().map(|problem| format!("\n- {problem}")).collect::<String>()
)]
#[non_exhaustive]
pub struct InvalidCrd {
    /// The name of the definition.
    pub name: String,
    /// The problems, each with the path of its field.
    pub problems: Vec<String>,
}

/// Checks a definition like an API server that creates it: its names, versions and schemas, and that each CEL rule
/// compiles and is cheap enough. Returns the costs of the rules.
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
/// All problems for which an API server would refuse the definition.
pub fn check_definition(
    definition: &CustomResourceDefinition,
) -> Result<Vec<RuleCost>, InvalidCrd> {
    let invalid = |problems| InvalidCrd {
        name: definition.metadata.name.clone().unwrap_or_default(),
        problems,
    };
    let json = serde_json::to_value(definition);
    let json = json.map_err(|error| invalid(vec![error.to_string()]))?;
    definition_check::check_definition(&json).map_err(|errors| {
        let problems = errors.iter();
        let problems = problems.map(|error| format!("{}: {}", error.field, error.message));
        invalid(problems.collect())
    })
}
