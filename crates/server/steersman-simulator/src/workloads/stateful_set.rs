//! Machine: the StatefulSet controller: Pods with ordinals, created one after the other or all at
//! once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_store::Stored;

use super::revisions::{self, Revision};
use crate::actions::event_correlator::{EventContent, EventSource};
use crate::actions::turn_context::{Component, TurnContext};
use crate::state::facts::{
    PodStage, SimulatedKey, SimulatedKind, controller_reference, number, scaled_value, stage_of,
    text,
};

/// One Pod of a set.
struct SetMember {
    pod: Arc<Stored>,
    stage: PodStage,
    ready: bool,
    available: bool,
}

/// The settings of a set that decide its next step.
struct SetPlan {
    /// The ordinals that the set has.
    ordinals: Range<i64>,
    /// Whether the Pods are changed one after the other.
    in_order: bool,
    /// Whether Pods of the old revision stay until they are deleted by hand.
    by_hand: bool,
    /// The first ordinal that gets the new revision.
    partition: i64,
    /// The number of Pods that may be unavailable during an update.
    most_unavailable: i64,
}

impl SetPlan {
    fn of(set: &Stored) -> Self {
        let spec = &set.lean()["spec"];
        let first = number(&spec["ordinals"]["start"], 0);
        let replicas = number(&spec["replicas"], 1).max(0);
        let rolling = &spec["updateStrategy"]["rollingUpdate"];
        Self {
            ordinals: first..first.saturating_add(replicas),
            in_order: spec["podManagementPolicy"] != "Parallel",
            by_hand: spec["updateStrategy"]["type"] == "OnDelete",
            partition: first.saturating_add(number(&rolling["partition"], 0)),
            most_unavailable: match &rolling["maxUnavailable"] {
                Value::Null => 1,
                value => scaled_value(value, replicas, true).max(1),
            },
        }
    }
}

impl TurnContext<'_> {
    /// Takes the next step of a StatefulSet and writes its status.
    pub(crate) fn reconcile_stateful_set(&mut self, key: &SimulatedKey) {
        let Some(set) = self.get(SimulatedKind::StatefulSet, &key.namespace, &key.name) else {
            return;
        };
        let terminating = !set.meta("deletionTimestamp").is_empty();
        if !terminating && self.claim_pods(key, &set) {
            return;
        }
        let update = self.revision(&set);
        let status = &set.lean()["status"];
        let current = text(status, "currentRevision");
        let current = if current.is_empty() {
            update.name.clone()
        } else {
            current.to_owned()
        };
        let members = self.members(key, &set);
        if !terminating {
            self.step(key, &set, &members, (&current, &update));
        }
        self.report_set(&set, &members, (current, update));
    }

    fn members(&mut self, key: &SimulatedKey, set: &Stored) -> BTreeMap<i64, SetMember> {
        let kind = Arc::clone(self.kinds.of(SimulatedKind::Pod));
        let seconds = number(&set.lean()["spec"]["minReadySeconds"], 0);
        let mut members = BTreeMap::new();
        for pod in self.controlled(&kind, set.meta("uid")) {
            let prefix = format!("{}-", set.name);
            let ordinal = pod
                .name
                .strip_prefix(&prefix)
                .and_then(|text| text.parse().ok());
            let Some(ordinal) = ordinal else { continue };
            let facts = self.facts(&pod);
            let available = facts.is_some_and(|facts| self.is_available(key, facts, seconds));
            let member = SetMember {
                stage: stage_of(pod.lean()),
                ready: facts.is_some_and(|facts| facts.ready),
                available,
                pod,
            };
            members.insert(ordinal, member);
        }
        members
    }

    /// Creates missing Pods, deletes Pods of other ordinals, and then updates Pods of the old
    /// revision. In order, each step changes one Pod.
    fn step(
        &mut self,
        key: &SimulatedKey,
        set: &Stored,
        members: &BTreeMap<i64, SetMember>,
        (current, update): (&str, &Revision),
    ) {
        let plan = SetPlan::of(set);
        let filled = self.fill(key, set, members, &plan, (current, update));
        let Some(created) = filled else { return };
        if self.delete_surplus(key, set, members, &plan) && !plan.by_hand && !created {
            self.update_members(key, set, members, &plan, update);
        }
    }

    /// Creates the missing Pods and replaces the finished Pods. Returns whether Pods were created, or
    /// `None` if the step ends here.
    fn fill(
        &mut self,
        key: &SimulatedKey,
        set: &Stored,
        members: &BTreeMap<i64, SetMember>,
        plan: &SetPlan,
        (current, update): (&str, &Revision),
    ) -> Option<bool> {
        let mut created = false;
        for ordinal in plan.ordinals.clone() {
            if self.is_at_write_limit() {
                self.requeue(key);
                return None;
            }
            let waits = match members.get(&ordinal) {
                None => {
                    // Below the partition a Pod is recreated from the old revision.
                    let hash = if ordinal < plan.partition && !plan.by_hand {
                        current
                            .strip_prefix(&format!("{}-", set.name))
                            .unwrap_or(&update.hash)
                    } else {
                        &update.hash
                    };
                    if !self.create_member(key, set, ordinal, hash) {
                        return None;
                    }
                    created = true;
                    true
                }
                Some(member) if member.stage == PodStage::Finished => {
                    self.delete_pod(key, set, &member.pod);
                    true
                }
                Some(member) => member.stage == PodStage::Terminating || !member.available,
            };
            if waits && plan.in_order {
                return None;
            }
        }
        Some(created)
    }

    /// Deletes the Pods of ordinals that the set does not have. Returns whether the step goes on.
    fn delete_surplus(
        &mut self,
        key: &SimulatedKey,
        set: &Stored,
        members: &BTreeMap<i64, SetMember>,
        plan: &SetPlan,
    ) -> bool {
        let above = members.range(plan.ordinals.end..).rev();
        for (_, member) in above.chain(members.range(..plan.ordinals.start).rev()) {
            if self.is_at_write_limit() {
                self.requeue(key);
                return false;
            }
            if member.stage != PodStage::Terminating {
                self.delete_pod(key, set, &member.pod);
            }
            if plan.in_order {
                return false;
            }
        }
        true
    }

    /// Deletes Pods of the old revision, as many as may be unavailable at once.
    fn update_members(
        &mut self,
        key: &SimulatedKey,
        set: &Stored,
        members: &BTreeMap<i64, SetMember>,
        plan: &SetPlan,
        update: &Revision,
    ) {
        let mut unavailable = 0;
        for (ordinal, member) in members.range(plan.ordinals.clone()).rev() {
            let old = revisions::hash_of(member.pod.lean()) != update.hash;
            let healthy = member.available && member.stage != PodStage::Terminating;
            if old && *ordinal >= plan.partition && member.stage != PodStage::Terminating {
                unavailable += 1;
                self.delete_pod(key, set, &member.pod);
            } else if !healthy {
                unavailable += 1;
            }
            if unavailable >= plan.most_unavailable {
                return;
            }
        }
    }

    /// Creates the Pod of an ordinal and its claims. Returns whether that succeeded.
    fn create_member(
        &mut self,
        key: &SimulatedKey,
        set: &Stored,
        ordinal: i64,
        hash: &str,
    ) -> bool {
        let name = format!("{}-{ordinal}", set.name);
        let template = self.template_of(set, hash);
        let mut pod = Self::pod_of(set, &template);
        let fields = steersman_registry::metadata_of(&mut pod);
        fields.remove("generateName");
        fields.insert("name".to_owned(), json!(name));
        let labels = fields.entry("labels").or_insert_with(|| json!({}));
        labels["apps.kubernetes.io/pod-index"] = json!(ordinal.to_string());
        labels[revisions::HASH] = json!(hash);
        labels["statefulset.kubernetes.io/pod-name"] = json!(name);
        pod["spec"]["hostname"] = json!(name);
        let service = &set.lean()["spec"]["serviceName"];
        if service.as_str().is_some_and(|service| !service.is_empty()) {
            pod["spec"]["subdomain"] = service.clone();
        }
        let claims = set.lean()["spec"]["volumeClaimTemplates"].as_array();
        let claims: Vec<Value> = claims.cloned().unwrap_or_default();
        for claim in &claims {
            self.claim(set, claim, &name, &mut pod);
        }
        self.create_pod(key, set, pod).is_ok()
    }

    /// Creates the claim of one Pod from one claim template, and adds the volume to the Pod.
    fn claim(&mut self, set: &Stored, template: &Value, pod_name: &str, pod: &mut Value) {
        let volume = text(&template["metadata"], "name").to_owned();
        let name = format!("{volume}-{pod_name}");
        let kind = Arc::clone(self.kinds.of(SimulatedKind::Claim));
        if self
            .registry
            .store()
            .get(&kind.storage, &set.namespace, &name)
            .is_none()
        {
            let mut body = template.clone();
            if let Some(members) = body.as_object_mut() {
                members.remove("status");
            }
            body["apiVersion"] = json!("v1");
            body["kind"] = json!("PersistentVolumeClaim");
            let fields = steersman_registry::metadata_of(&mut body);
            fields.insert("name".to_owned(), json!(name));
            fields.remove("creationTimestamp");
            let labels = fields.entry("labels").or_insert_with(|| json!({}));
            for (key, value) in set.lean()["spec"]["selector"]["matchLabels"]
                .as_object()
                .into_iter()
                .flatten()
            {
                labels[key] = value.clone();
            }
            let retention =
                &set.lean()["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"];
            if retention == "Delete" {
                fields.insert(
                    "ownerReferences".to_owned(),
                    json!([controller_reference(set)]),
                );
            }
            let content = match self.create(&kind, &set.namespace, body) {
                Ok(_) => EventContent::normal(
                    "SuccessfulCreate",
                    format!(
                        "create Claim {name} Pod {pod_name} in StatefulSet {} success",
                        set.name
                    ),
                ),
                Err(refusal) => EventContent::warning(
                    "FailedCreate",
                    format!(
                        "create Claim {name} for Pod {pod_name} in StatefulSet {} failed error: {}",
                        set.name, refusal.message
                    ),
                ),
            };
            self.event(set, EventSource::StatefulSets, &content);
        }
        let volumes = pod["spec"]
            .as_object_mut()
            .map(|spec| spec.entry("volumes").or_insert_with(|| json!([])));
        if let Some(list) = volumes.and_then(Value::as_array_mut) {
            list.retain(|one| one["name"] != volume);
            list.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}));
        }
    }

    /// Returns the Pod template with this hash: the current template, or the template of a
    /// revision.
    fn template_of(&self, set: &Stored, hash: &str) -> Value {
        let name = format!("{}-{hash}", set.name);
        let storage = &self.kinds.revisions.storage;
        let revision = self.registry.store().get(storage, &set.namespace, &name);
        let template = revision.map(|one| one.lean()["data"]["spec"]["template"].clone());
        let template = template.filter(Value::is_object);
        template.unwrap_or_else(|| set.lean()["spec"]["template"].clone())
    }

    fn report_set(
        &mut self,
        set: &Stored,
        members: &BTreeMap<i64, SetMember>,
        (current, update): (String, Revision),
    ) {
        let there = || {
            members
                .values()
                .filter(|one| !matches!(one.stage, PodStage::Terminating | PodStage::Finished))
        };
        let count = |fits: &dyn Fn(&SetMember) -> bool| {
            i64::try_from(there().filter(|one| fits(one)).count()).unwrap_or(0)
        };
        let is_of = |one: &SetMember, revision: &str| {
            format!("{}-{}", set.name, revisions::hash_of(one.pod.lean())) == revision
        };
        let replicas = count(&|_| true);
        let updated = count(&|one| is_of(one, &update.name));
        let ready = count(&|one| one.ready);
        let wanted = number(&set.lean()["spec"]["replicas"], 1);
        let rolled = updated == replicas
            && replicas == wanted
            && ready == replicas
            && members
                .values()
                .all(|one| one.stage != PodStage::Terminating);
        let current = if rolled { update.name.clone() } else { current };
        let in_current = count(&|one| is_of(one, &current));
        let mut status = Map::new();
        status.insert(
            "observedGeneration".to_owned(),
            set.lean()["metadata"]["generation"].clone(),
        );
        status.insert("replicas".to_owned(), json!(replicas));
        for (field, many) in [
            ("readyReplicas", ready),
            ("currentReplicas", in_current),
            ("updatedReplicas", updated),
        ] {
            if many > 0 {
                status.insert(field.to_owned(), json!(many));
            }
        }
        status.insert("currentRevision".to_owned(), json!(current));
        status.insert("updateRevision".to_owned(), json!(update.name));
        status.insert("collisionCount".to_owned(), json!(0));
        status.insert(
            "availableReplicas".to_owned(),
            json!(count(&|one| one.available)),
        );
        if let Some(conditions) = set.lean()["status"].get("conditions") {
            status.insert("conditions".to_owned(), conditions.clone());
        }
        self.write_status(
            SimulatedKind::StatefulSet,
            Component::Controllers,
            set,
            Value::Object(status),
        );
    }
}
