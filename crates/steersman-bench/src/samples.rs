//! Words: the objects that are measured with, by number: the same number gives the same object.

mod dice;
mod others;
mod pods;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use others::{Widget, widgets};

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Sample {
    /// As a Deployment, a scheduler and a kubelet leave them; they resemble each other.
    Pod,
    /// Files of configuration, of which no two are alike.
    ConfigMap,
    /// Keys and passwords: noise.
    Secret,
    /// What controllers say again and again.
    Event,
    /// A custom resource, with a status.
    Widget,
}

/// An object, and the status that others report of it, where it has one.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) object: Value,
    pub(crate) status: Option<Value>,
}

/// The annotation that says which write it was that left an object as it is.
pub(crate) const NUMBER: &str = "bench.example.com/number";

/// What one Pod in about three is labelled with.
pub(crate) const SELECTED: &str = "tier=data";

/// The label that so many Pods share.
pub const SHARED: &str = "bench.example.com/batch";
/// How many of them.
pub const TOGETHER: u64 = 10;

impl Sample {
    /// As the command line has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::ConfigMap => "config-map",
            Self::Secret => "secret",
            Self::Event => "event",
            Self::Widget => "widget",
        }
    }

    /// The name of the resource, for instance `widgets.bench.example.com`.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::Event => "events",
            Self::Widget => "widgets.bench.example.com",
        }
    }

    /// Whether an object of its kind with this name is one of these: others give namespaces ConfigMaps of
    /// their own, such as `kube-root-ca.crt`.
    pub(crate) fn makes(self, name: &str) -> bool {
        self != Self::ConfigMap || name.starts_with(others::SETTINGS)
    }

    /// Where its collection is in a namespace.
    pub(crate) fn path(self, namespace: &str) -> String {
        let (api, plural) = match self {
            Self::Widget => ("/apis/bench.example.com/v1", "widgets"),
            _ => ("/api/v1", self.resource()),
        };
        format!("{api}/namespaces/{namespace}/{plural}")
    }

    /// The object of that number, in a namespace.
    pub(crate) fn make(self, number: u64, namespace: &str) -> Made {
        let mut made = match self {
            Self::Pod => pods::pod(number),
            Self::ConfigMap => others::config_map(number),
            Self::Secret => others::secret(number),
            Self::Event => others::event(number, namespace),
            Self::Widget => others::widget(number),
        };
        made.object["metadata"]["namespace"] = json!(namespace);
        made
    }
}

impl Made {
    /// The object as a cluster with controllers of its own leaves it alone: no scheduler looks at it, no
    /// collector takes it for an orphan, and what it names is there.
    #[must_use]
    pub(crate) fn left_alone(mut self) -> Self {
        if let Some(spec) = self.object["spec"].as_object_mut()
            && spec.remove("nodeName").is_some()
        {
            spec.insert("schedulerName".to_owned(), json!("nobody"));
            spec.insert("serviceAccountName".to_owned(), json!("default"));
        }
        self
    }
}
