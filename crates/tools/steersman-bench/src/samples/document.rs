//! Words: the kind of the ported operator.

use kube_client::core::CustomResourceExt as _;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const FINALIZER: &str = "docs.example.com/withdraw";

/// A document that its operator publishes as a ConfigMap.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "docs.example.com", version = "v1", kind = "Document")]
#[kube(namespaced, status = "DocumentStatus")]
#[kube(crates(kube_core = "::kube_client::core"))]
#[serde(rename_all = "camelCase")]
pub(crate) struct DocumentSpec {
    pub(crate) title: String,
    pub(crate) content: String,
    /// Hides the document: its ConfigMap has no content.
    #[serde(default)]
    pub(crate) hide: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DocumentStatus {
    pub(crate) hidden: bool,
}

impl DocumentSpec {
    /// Returns the text of the ConfigMap.
    pub(crate) fn text(&self) -> String {
        match self.hide {
            true => self.title.clone(),
            false => format!("{}\n\n{}", self.title, self.content),
        }
    }
}

pub(crate) fn documents() -> serde_json::Result<Value> {
    serde_json::to_value(Document::crd())
}

/// Returns the document of a number, about a kilobyte.
pub(crate) fn document(number: u64, namespace: &str) -> Value {
    let line = format!("Line of document {number}. ");
    json!({
        "apiVersion": "docs.example.com/v1",
        "kind": "Document",
        "metadata": {"name": document_name(number), "namespace": namespace},
        "spec": {"title": format!("Document {number}"), "content": line.repeat(40)},
    })
}

pub(crate) fn document_name(number: u64) -> String {
    format!("document-{number:06}")
}
