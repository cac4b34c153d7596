//! Machine: copies the zone and the region of a node to the labels of its Pods.
//!
//! Kubernetes source: `plugin/pkg/admission/podtopologylabels`.

use serde_json::{Map, Value};

use crate::requests::metadata;
use crate::state::registry::Registry;

/// The labels of a node that are copied to its Pods.
const LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

impl Registry {
    /// Returns the labels that a node gives to its Pods; none for a node that does not exist.
    pub(crate) fn topology_of(&self, node: &str) -> Map<String, Value> {
        let Some(node) = self.object(("", "nodes"), "", node) else {
            return Map::new();
        };
        let labels = LABELS.iter();
        labels
            .filter_map(|name| Some(((*name).to_owned(), node.label(name)?.into())))
            .collect()
    }

    pub(crate) fn take_topology(&self, pod: &mut Value) {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let labels = self.topology_of(node);
        if !labels.is_empty() {
            metadata::map_in(metadata::of(pod), "labels").extend(labels);
        }
    }
}
