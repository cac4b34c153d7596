//! Machine: parses a definition, and prepares it for API servers.

use serde_json::{Value, json};
use steersman_crds::INJECT_CA_FROM;
use steersman_object::{json_items, json_text};

use crate::error::Error;

#[cfg(test)]
mod tests;

/// A kind that the program defines, with its definition.
#[derive(Clone, Debug)]
pub(crate) struct OwnKind {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
    /// Whether the kind has more than one version, so that stored objects may be of another version.
    pub(crate) has_versions: bool,
    /// Whether a webhook of the program converts the objects of the kind.
    pub(crate) is_converted: bool,
    /// The `CustomResourceDefinition` for the manifests.
    pub(crate) definition: Value,
}

impl OwnKind {
    /// Parses a definition, and removes fields that the server sets or warns about.
    pub(crate) fn of(definition: &Value) -> Result<Self, Error> {
        let text = |pointer: &'static str| {
            let found = definition.pointer(pointer).and_then(Value::as_str);
            found.map(str::to_owned).ok_or_else(|| Error::Definition {
                name: json_text(&definition["metadata"]["name"]).to_owned(),
                field: &pointer[1..],
            })
        };
        Ok(Self {
            group: text("/spec/group")?,
            kind: text("/spec/names/kind")?,
            plural: text("/spec/names/plural")?,
            is_namespaced: definition["spec"]["scope"] == "Namespaced",
            has_versions: json_items(&definition["spec"]["versions"]).len() > 1,
            is_converted: false,
            definition: prepared(definition),
        })
    }

    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Returns whether a version of the kind has the subresource `name`: `status` or `scale`.
    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        json_items(&self.definition["spec"]["versions"])
            .any(|version| version["subresources"][name].is_object())
    }

    /// Sets the conversion webhook behind a Service, as the leader does when it installs the definition. cert-manager
    /// injects the authority of the `Certificate` that has the name of the Service.
    pub(crate) fn convert_by(&mut self, service: &str, namespace: &str, has_cert_manager: bool) {
        self.is_converted = true;
        self.definition["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {
                    "service": {"name": service, "namespace": namespace, "path": "/convert", "port": 443},
                },
                "conversionReviewVersions": ["v1"],
            },
        });
        if has_cert_manager {
            let annotations = &mut self.definition["metadata"]["annotations"];
            annotations[INJECT_CA_FROM] = json!(format!("{namespace}/{service}"));
        }
    }
}

/// Returns the definition with `apiVersion` and `kind`, and without a status.
fn prepared(definition: &Value) -> Value {
    let mut definition = definition.clone();
    if let Some(definition) = definition.as_object_mut() {
        definition.remove("status");
        definition.insert("apiVersion".to_owned(), json!("apiextensions.k8s.io/v1"));
        definition.insert("kind".to_owned(), json!("CustomResourceDefinition"));
    }
    definition
}
