//! Machine: copies the zone and region labels of a node to the Pods that are bound to it (upstream:
//! `plugin/pkg/admission/podtopologylabels`).

use serde_json::Value;

use crate::requests::metadata;
use crate::state::registry::Registry;
use crate::values::text;

/// The labels with the zone and the region, which Pods get from their node.
const LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

impl Registry {
    /// Copies the zone and region labels of the node in `spec.nodeName`, if it exists, to a Pod.
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
