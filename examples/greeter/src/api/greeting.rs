//! The kind Greeting: what its users write, and what the operator answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman::CustomResource;
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use steersman::status_conditions::HasConditions;

/// What the users of a Greeting write.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "example.com",
    version = "v1alpha1",
    kind = "Greeting",
    plural = "greetings",
    doc = "A message that the operator publishes in a ConfigMap.",
    namespaced,
    status = "GreetingStatus",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
pub struct GreetingSpec {
    /// The text that the operator publishes in a ConfigMap.
    #[schemars(length(min = 1, max = 1000))]
    pub message: String,
}

/// What the operator says about a Greeting.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GreetingStatus {
    /// The generation of the spec that the conditions are about.
    pub observed_generation: Option<i64>,
    /// `Ready` is `True` when the message is published.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl HasConditions for Greeting {
    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}
