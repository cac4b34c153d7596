//! Words: the measured objects. The same number yields the same object.

mod random_text;
pub(crate) mod definitions;
pub(crate) mod document;
mod others;
mod pods;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use others::{Widget, widgets};

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sample {
    /// Pods in the form that a Deployment, a scheduler and a kubelet produce; they resemble each other.
    Pod,
    /// Configuration files, all different.
    ConfigMap,
    /// Keys and passwords: random data.
    Secret,
    /// Events, which controllers repeat.
    Event,
    /// A custom resource, with a status.
    Widget,
    /// The custom resource of the ported operator.
    Document,
}

/// The annotation with the number of the last write of an object.
pub(crate) const NUMBER: &str = "bench.example.com/number";

/// The label of about one Pod in three.
pub(crate) const SELECTED: &str = "tier=data";

/// The label with a value that [`TOGETHER`] Pods share.
pub const SHARED: &str = "bench.example.com/batch";
/// The number of Pods with the same value of [`SHARED`].
pub const TOGETHER: u64 = 10;

impl Sample {
    /// Returns the name of the resource, for example `widgets.bench.example.com`.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::Event => "events",
            Self::Widget => "widgets.bench.example.com",
            Self::Document => "documents.docs.example.com",
        }
    }

    /// Returns whether an object of this kind and name is a sample: controllers add ConfigMaps to
    /// namespaces, such as `kube-root-ca.crt`.
    pub(crate) fn makes(self, name: &str) -> bool {
        self != Self::ConfigMap || name.starts_with(others::SETTINGS)
    }

    pub(crate) fn path(self, namespace: &str) -> String {
        let resource = self.resource();
        match resource.split_once('.') {
            Some((plural, group)) => format!("/apis/{group}/v1/namespaces/{namespace}/{plural}"),
            None => format!("/api/v1/namespaces/{namespace}/{resource}"),
        }
    }

    /// Makes the object of a number, and its status if the kind has one.
    pub(crate) fn make(self, number: u64, namespace: &str) -> (Value, Option<Value>) {
        let (mut object, status) = match self {
            Self::Pod => pods::pod(number),
            Self::ConfigMap => (others::config_map(number), None),
            Self::Secret => (others::secret(number), None),
            Self::Event => (others::event(number, namespace), None),
            Self::Widget => others::widget(number),
            Self::Document => (document::document(number, namespace), None),
        };
        object["metadata"]["namespace"] = json!(namespace);
        (object, status)
    }
}

/// Changes an object so that the controllers of a cluster leave it alone: the scheduler ignores it, the garbage
/// collector does not treat it as an orphan, and its references exist.
pub(crate) fn leave_alone(object: &mut Value) {
    if let Some(spec) = object["spec"].as_object_mut()
        && spec.remove("nodeName").is_some()
    {
        spec.insert("schedulerName".to_owned(), json!("no-scheduler"));
        spec.insert("serviceAccountName".to_owned(), json!("default"));
    }
}
