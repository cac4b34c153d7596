//! Machine: what the controllers of Pods share: making them, adopting them, choosing whom to delete.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::selector::LabelSelector;
use crate::status::Status;
use crate::store::Stored;

use super::facts::{Key, Kind, PodFacts, Stage, annotation, reference};
use super::world::World;

/// How many Pods a controller creates before it looks again.
pub(super) const BURST: i64 = 500;

/// How long a controller waits after its Pods were refused.
const REFUSED: Duration = Duration::from_secs(1);

impl World<'_> {
    /// A Pod of a template, owned by `owner`; its name begins with the owner's.
    pub(super) fn pod_of(owner: &Stored, template: &Value) -> Value {
        let empty = Map::new();
        let given = template["metadata"].as_object().unwrap_or(&empty);
        let mut metadata = Map::new();
        for field in ["labels", "annotations", "finalizers"] {
            if let Some(value) = given.get(field) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        let prefix = format!("{}-", owner.name);
        metadata.insert("generateName".to_owned(), Value::String(prefix));
        metadata.insert("ownerReferences".to_owned(), json!([reference(owner)]));
        let mut pod = Map::new();
        pod.insert("apiVersion".to_owned(), json!("v1"));
        pod.insert("kind".to_owned(), json!("Pod"));
        pod.insert("metadata".to_owned(), Value::Object(metadata));
        pod.insert("spec".to_owned(), template["spec"].clone());
        Value::Object(pod)
    }

    /// Creates a Pod for an owner, and looks at the owner again where it is refused.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn create_pod(&mut self, key: &Key, pod: Value) -> Result<(), Status> {
        let pods = Arc::clone(self.kinds.of(Kind::Pod));
        match self.create(&pods, &key.namespace, pod) {
            Ok(_) => Ok(()),
            Err(refusal) => {
                self.later(key.clone(), self.now.tick.saturating_add(REFUSED));
                Err(refusal)
            }
        }
    }

    /// Makes an owner the controller of the Pods that its selector finds and nobody controls.
    /// Answers whether there were any: the owner is looked at again when they are counted (PLAY-2).
    pub(super) fn adopt_pods(&mut self, owner: &Stored) -> bool {
        let loose = self.view.loose(Kind::Pod, &owner.namespace);
        if loose.is_empty() {
            return false;
        }
        let Some(selector) = selector_of(&owner.value) else {
            return false;
        };
        let before = self.registry.revision();
        for key in loose {
            let Some(pod) = self.get(Kind::Pod, &key.namespace, &key.name) else {
                continue;
            };
            let stage = super::facts::stage_of(&pod.value);
            if selector.matches_labels(|key| pod.label(key))
                && !matches!(stage, Stage::Over | Stage::Leaving)
            {
                self.adopt(Kind::Pod, &pod, owner);
            }
        }
        self.registry.revision() > before
    }

    /// What is known of a Pod.
    pub(super) fn facts(&self, pod: &Stored) -> Option<&PodFacts> {
        let place = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        self.view.pods.get(&place)
    }

    /// Whether a Pod has been ready for so many seconds. Where it has not yet, the owner is looked
    /// at again when it will have been.
    pub(super) fn is_available(&mut self, owner: &Key, pod: &Stored, seconds: i64) -> bool {
        let Some(facts) = self.facts(pod).filter(|facts| facts.ready) else {
            return false;
        };
        let since = facts.ready_at;
        let at = since.saturating_add(Duration::from_secs(seconds.max(0).unsigned_abs()));
        if at > self.now.tick {
            self.later(owner.clone(), at);
        }
        at <= self.now.tick
    }

    /// The Pods that an owner can do without, the best to delete first: those without a node, not
    /// running and not ready before the others, then by their deletion cost, then the youngest.
    pub(super) fn victims(&self, owner: &Stored) -> Vec<Arc<Stored>> {
        let pods = self.kinds.of(Kind::Pod);
        let rank = |pod: &Arc<Stored>| {
            let facts = self.facts(pod)?;
            let rank = match facts.stage {
                Stage::Unplaced => 0,
                Stage::Placed => 1,
                Stage::Running => 2,
                Stage::Over | Stage::Leaving => return None,
            };
            let cost = annotation(&pod.value, "controller.kubernetes.io/pod-deletion-cost");
            let cost: i64 = cost.parse().unwrap_or(0);
            let age = Reverse(pod.meta("creationTimestamp").to_owned());
            Some((rank, facts.ready, cost, age))
        };
        let own = self.controlled(pods, owner.meta("uid"));
        let ranked = own.into_iter().filter_map(|pod| Some((rank(&pod)?, pod)));
        let mut active: Vec<_> = ranked.collect();
        active.sort_by(|(a, _), (b, _)| a.cmp(b));
        active.into_iter().map(|(_, pod)| pod).collect()
    }
}

/// The selector of a controller; `None` where there is none.
pub(super) fn selector_of(object: &Value) -> Option<LabelSelector> {
    let selector = &object["spec"]["selector"];
    if !selector.is_object() {
        return None;
    }
    let parsed = LabelSelector::parse(&crate::registry::selector_text(selector)).ok()?;
    (!parsed.is_empty()).then_some(parsed)
}

/// Puts a condition into a list of them, in the place of the one of its type.
pub(super) fn set_condition(conditions: &mut Vec<Value>, condition: Value) {
    match conditions
        .iter_mut()
        .find(|one| one["type"] == condition["type"])
    {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}
