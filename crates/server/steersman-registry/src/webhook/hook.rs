//! Machine: one webhook of a webhook configuration, with its compiled match conditions, and the matching of its rules.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use steersman_cel::{Environment, Expression};
use steersman_schema::resource::Resource;

use super::call::WebhookAddress;

use crate::values::{has_text, items, text, texts};

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, as the configuration has them"
)]
pub(crate) struct RegisteredWebhook {
    pub(crate) name: String,
    /// Identifies the webhook: the name of its configuration, its own name, and its position in the configuration.
    pub(crate) id: String,
    pub(crate) endpoint: WebhookAddress,
    /// The URL at which the webhook is called, for error messages.
    pub(crate) url: String,
    /// The start of the [key](crate::webhook::WebhookCall::key) of the webhook's calls: its id and its address.
    pub(crate) call_prefix: String,
    pub(crate) ca: Bytes,
    pub(crate) timeout: Duration,
    /// Whether a write passes if the call of the webhook fails (`failurePolicy: Ignore`).
    pub(crate) ignores_failure: bool,
    /// Whether the webhook's rules also match other versions of a resource (`matchPolicy: Equivalent`).
    pub(crate) equivalent: bool,
    /// Whether the webhook may be called for a dry run (`sideEffects` is `None` or `NoneOnDryRun`).
    pub(crate) dry_run: bool,
    /// Whether the webhook is called again if the object changes after its call (`reinvocationPolicy: IfNeeded`).
    pub(crate) again: bool,
    /// The first version in `admissionReviewVersions` that the server supports; `None` if it supports no such version.
    pub(crate) review: Option<&'static str>,
    /// `namespaceSelector`: the webhook is called only if this selector matches the labels of the object's namespace.
    pub(crate) namespaces: Value,
    /// `objectSelector`: the webhook is called only if this selector matches the labels of the object.
    pub(crate) objects: Value,
    /// `matchConditions`: the webhook is called only if all of these CEL expressions are true.
    pub(crate) conditions: Vec<Expression>,
    rules: Vec<Value>,
}

impl RegisteredWebhook {
    pub(crate) fn all_of(configuration: &Value) -> Vec<Self> {
        let own = text(&configuration["metadata"]["name"]);
        let hooks = items(&configuration["webhooks"]).iter().enumerate();
        hooks.map(|(at, hook)| Self::of(own, at, hook)).collect()
    }

    fn of(configuration: &str, at: usize, hook: &Value) -> Self {
        let name = text(&hook["name"]);
        let client = &hook["clientConfig"];
        let id = format!("{configuration}/{name}/{at}");
        let endpoint = WebhookAddress::of(client);
        let timeout = Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10));
        let environment = Environment::new(false, true);
        Self {
            name: name.to_owned(),
            url: endpoint.url(timeout),
            call_prefix: format!("{id} {endpoint:?}"),
            id,
            endpoint,
            ca: WebhookAddress::ca(client),
            timeout,
            ignores_failure: hook["failurePolicy"] == "Ignore",
            equivalent: hook["matchPolicy"] != "Exact",
            dry_run: matches!(hook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            again: hook["reinvocationPolicy"] == "IfNeeded",
            review: review_version(&hook["admissionReviewVersions"]),
            namespaces: hook["namespaceSelector"].clone(),
            objects: hook["objectSelector"].clone(),
            conditions: Expression::conditions(&environment, &hook["matchConditions"]),
            rules: items(&hook["rules"]).to_vec(),
        }
    }

    /// Returns the match constraints of a policy or binding as a webhook that is never called, so that policies and
    /// webhooks match writes with the same code. `rules` names the field of the constraints that has the rules.
    pub(crate) fn of_policy(name: &str, constraints: &Value, rules: &str) -> Self {
        let members = json!({
            "name": name,
            "matchPolicy": constraints["matchPolicy"],
            "namespaceSelector": constraints["namespaceSelector"],
            "objectSelector": constraints["objectSelector"],
            "rules": constraints[rules],
        });
        Self::of(name, 0, &members)
    }

    pub(crate) fn is_about(
        &self,
        resource: &Resource,
        (subresource, operation, name): (&str, &str, &str),
    ) -> bool {
        self.rules.iter().any(|rule| {
            let is_in_scope = match rule["scope"].as_str() {
                Some("Cluster") => !resource.namespaced,
                Some("Namespaced") => resource.namespaced,
                _ => true,
            };
            let resource_names = &rule["resourceNames"];
            is_in_scope
                && (texts(resource_names).next().is_none() || has_text(resource_names, name))
                && names(&rule["operations"], operation)
                && names(&rule["apiGroups"], &resource.group)
                && names(&rule["apiVersions"], &resource.version)
                && texts(&rule["resources"]).any(|named| {
                    let (plural, sub) = named.split_once('/').unwrap_or((named, ""));
                    (plural == "*" || plural == resource.plural)
                        && (sub == "*" || sub == subresource)
                })
        })
    }
}

/// Returns the first version in a list such as `admissionReviewVersions` that the server supports; otherwise `None`.
pub(crate) fn review_version(versions: &Value) -> Option<&'static str> {
    let known = ["v1", "v1beta1"];
    texts(versions).find_map(|version| known.into_iter().find(|known| *known == version))
}

fn names(list: &Value, wanted: &str) -> bool {
    texts(list).any(|one| one == "*" || one == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_resources_and_subresources() {
        let resources = steersman_schema::builtin::built_in();
        let mut resources = resources.iter();
        let deployments = resources.find(|one| one.plural == "deployments").unwrap();
        let about = |hook: &RegisteredWebhook, subresource: &str, operation: &str| {
            hook.is_about(deployments, (subresource, operation, ""))
        };
        let hook = |resources: Value, scope: &str| {
            let rule = json!({"operations": ["CREATE", "UPDATE"], "apiGroups": ["apps"],
                "apiVersions": ["*"], "resources": resources, "scope": scope});
            RegisteredWebhook::of("c", 0, &json!({"name": "h", "rules": [rule]}))
        };
        for (resources, main, status) in [
            (json!(["deployments"]), true, false),
            (json!(["deployments/status"]), false, true),
            (json!(["deployments/*"]), true, true),
            (json!(["*"]), true, false),
            (json!(["*/status"]), false, true),
            (json!(["*/*"]), true, true),
            (json!(["pods"]), false, false),
        ] {
            let hook = hook(resources.clone(), "*");
            assert_eq!(about(&hook, "", "UPDATE"), main, "{resources}");
            assert_eq!(about(&hook, "status", "UPDATE"), status, "{resources}");
        }
        assert!(!about(&hook(json!(["*"]), "Cluster"), "", "UPDATE"));
        assert!(!about(&hook(json!(["*"]), "*"), "", "DELETE"));
    }
}
