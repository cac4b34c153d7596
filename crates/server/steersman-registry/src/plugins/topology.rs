//! Machine: copies the zone and the region of a node to the labels of its Pods.
//!
//! Kubernetes source: `plugin/pkg/admission/podtopologylabels`.

use serde_json::Value;

use crate::requests::metadata;
use crate::state::registry::Registry;
use crate::values::text;

/// The labels of a node that are copied to its Pods.
const LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

impl Registry {
    /// Copies the labels of a Pod's node to the Pod, if the node exists and has them.
    pub(crate) fn take_topology(&self, pod: &mut Value) {
        let node = self.object(("", "nodes"), "", text(&pod["spec"]["nodeName"]));
        for name in LABELS {
            if let Some(label) = node.and_then(|node| node.label(name)) {
                let labels = metadata::map_in(metadata::of(pod), "labels");
                labels.insert(name.to_owned(), label.into());
            }
        }
    }
}
