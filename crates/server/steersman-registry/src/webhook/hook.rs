//! Machine: one webhook of a configuration, and whether its rules match a request.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use steersman_cel::{Environment, Expression};

use super::call::WebhookAddress;

/// A webhook of a configuration.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, as the configuration has them"
)]
pub struct RegisteredWebhook {
    /// The webhook's name, for instance `pods.example.com`.
    pub name: String,
    /// Identifies the webhook: configuration, name and position.
    pub id: String,
    /// The address of the webhook.
    pub endpoint: WebhookAddress,
    /// The URL of calls, which error messages name.
    pub url: String,
    /// The beginning of the keys of its calls: its id and its address.
    pub call_prefix: String,
    /// Authorities of the webhook's certificate, in PEM.
    pub ca: Bytes,
    /// The timeout of a call.
    pub timeout: Duration,
    /// Whether a failed call lets the request pass (`failurePolicy: Ignore`).
    pub ignores_failure: bool,
    /// Whether its rules also match other versions of the resources they name (`matchPolicy:
    /// Equivalent`).
    pub equivalent: bool,
    /// Whether a dry run may call it.
    pub dry_run: bool,
    /// Whether the webhook is called again after a later webhook changed the object (`reinvocationPolicy:
    /// IfNeeded`).
    pub again: bool,
    /// The first review version that both sides support; `None` if there is none.
    pub review: Option<&'static str>,
    /// The selector of the namespace's labels (`namespaceSelector`).
    pub namespaces: Value,
    /// The selector of the object's labels (`objectSelector`).
    pub objects: Value,
    /// The conditions under which the webhook is called (`matchConditions`).
    pub conditions: Vec<Expression>,
    rules: Vec<Value>,
}

/// The attributes of a request that rules match.
#[derive(Debug, Clone, Copy)]
pub struct RuleAttributes<'a> {
    /// API group.
    pub group: &'a str,
    /// Version of the request.
    pub version: &'a str,
    /// Plural name.
    pub resource: &'a str,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'static str,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// The name of the object; may be empty.
    pub name: &'a str,
}

impl RegisteredWebhook {
    /// Returns the webhooks of a configuration, in its order.
    pub fn all_of(configuration: &Value) -> Vec<Self> {
        let own = configuration["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        let hooks = configuration["webhooks"].as_array();
        let hooks = hooks.into_iter().flatten().enumerate();
        hooks.map(|(at, hook)| Self::of(own, at, hook)).collect()
    }

    fn of(configuration: &str, at: usize, hook: &Value) -> Self {
        let name = hook["name"].as_str().unwrap_or_default();
        let client = &hook["clientConfig"];
        let listed = |field: &str| hook[field].as_array().cloned().unwrap_or_default();
        let versions = listed("admissionReviewVersions");
        let review = versions.iter().find_map(|version| match version.as_str() {
            Some("v1") => Some("v1"),
            Some("v1beta1") => Some("v1beta1"),
            _ => None,
        });
        let id = format!("{configuration}/{name}/{at}");
        let endpoint = WebhookAddress::of(client);
        let timeout = Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10));
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
            review,
            namespaces: hook["namespaceSelector"].clone(),
            objects: hook["objectSelector"].clone(),
            conditions: Expression::conditions(
                &Environment::new(false, true),
                &hook["matchConditions"],
            ),
            rules: listed("rules"),
        }
    }

    /// Returns the match constraints of a policy or a binding in the form of a webhook that is
    /// never called; `rules` is the name of the member with the rules.
    pub fn of_policy(name: &str, constraints: &Value, rules: &str) -> Self {
        let members = json!({
            "name": name,
            "matchPolicy": constraints["matchPolicy"],
            "namespaceSelector": constraints["namespaceSelector"],
            "objectSelector": constraints["objectSelector"],
            "rules": constraints[rules],
        });
        Self::of(name, 0, &members)
    }

    /// Returns whether one of its rules matches.
    pub fn is_about(&self, occasion: RuleAttributes<'_>) -> bool {
        self.rules.iter().any(|rule| applies(rule, occasion))
    }
}

fn applies(rule: &Value, occasion: RuleAttributes<'_>) -> bool {
    let scope = match rule["scope"].as_str() {
        Some("Cluster") => !occasion.namespaced,
        Some("Namespaced") => occasion.namespaced,
        _ => true,
    };
    scope
        && (texts(&rule["resourceNames"]).next().is_none()
            || texts(&rule["resourceNames"]).any(|name| name == occasion.name))
        && names(&rule["operations"], occasion.operation)
        && names(&rule["apiGroups"], occasion.group)
        && names(&rule["apiVersions"], occasion.version)
        && texts(&rule["resources"]).any(|named| {
            let (resource, sub) = named.split_once('/').unwrap_or((named, ""));
            (resource == "*" || resource == occasion.resource)
                && (sub == "*" || sub == occasion.subresource)
        })
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str)
}

fn names(list: &Value, wanted: &str) -> bool {
    texts(list).any(|named| named == "*" || named == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_resources_and_subresources() {
        let about = |resource: &'static str, subresource: &'static str| RuleAttributes {
            group: "apps",
            version: "v1",
            resource,
            subresource,
            operation: "UPDATE",
            namespaced: true,
            name: "",
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
            assert_eq!(hook.is_about(about("deployments", "")), main, "{resources}");
            let found = hook.is_about(about("deployments", "status"));
            assert_eq!(found, status, "{resources}");
        }
        assert!(!hook(json!(["*"]), "Cluster").is_about(about("deployments", "")));
        let mut other = about("deployments", "");
        other.operation = "DELETE";
        assert!(!hook(json!(["*"]), "*").is_about(other));
    }
}
