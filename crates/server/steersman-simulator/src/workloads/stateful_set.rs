//! Machine: the StatefulSet controller, which creates Pods with ordinals in order, or all at once (`Parallel`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_store::Stored;

use super::revisions::{self, Revision};
use crate::actions::turn_context::TurnContext;
use crate::state::facts::{
    PodStage, SimulatedKind, controller_reference, count, items, max_unavailable, number,
    put_counts, stage_of, text,
};

struct SetMember {
    pod: Arc<Stored>,
    stage: PodStage,
    ready: bool,
    available: bool,
}

/// A StatefulSet in one reconcile: its Pods, its revisions, and the settings that decide about the next step.
struct SetSync<'a> {
    set: &'a Stored,
    members: BTreeMap<i64, SetMember>,
    /// The name of the ControllerRevision before the update; Pods with ordinals below `partition` keep it.
    current: String,
    update: Revision,
    /// The ordinals of the Pods that the StatefulSet wants.
    ordinals: Range<i64>,
    /// Whether each Pod waits until the Pods before it are available (`podManagementPolicy: OrderedReady`).
    in_order: bool,
    /// Whether Pods of the old revision stay until a client deletes them (`updateStrategy: OnDelete`).
    by_hand: bool,
    /// The lowest ordinal that a rolling update replaces; Pods with lower ordinals keep the old revision.
    partition: i64,
    /// How many Pods may be unavailable during a rolling update (`maxUnavailable`).
    most_unavailable: i64,
}

impl TurnContext<'_> {
    /// Creates, deletes or replaces Pods as far as the policies allow now, and writes the status of a StatefulSet.
    pub(crate) fn reconcile_stateful_set(&mut self, set: &Stored) {
        let terminating = set.is_terminating();
        if !terminating && self.claim_pods(set) {
            return;
        }
        let update = self.revision(set);
        let current = match text(&set.lean()["status"], "currentRevision") {
            "" => update.name.clone(),
            current => current.to_owned(),
        };
        let spec = &set.lean()["spec"];
        let first = number(&spec["ordinals"]["start"], 0);
        let replicas = number(&spec["replicas"], 1).max(0);
        let rolling = &spec["updateStrategy"]["rollingUpdate"];
        let sync = SetSync {
            set,
            members: self.members(set),
            current,
            update,
            ordinals: first..first.saturating_add(replicas),
            in_order: spec["podManagementPolicy"] != "Parallel",
            by_hand: spec["updateStrategy"]["type"] == "OnDelete",
            partition: first.saturating_add(number(&rolling["partition"], 0)),
            most_unavailable: max_unavailable(rolling, replicas),
        };
        if !terminating {
            self.step(&sync);
        }
        self.report_set(sync);
    }

    fn members(&mut self, set: &Stored) -> BTreeMap<i64, SetMember> {
        let seconds = number(&set.lean()["spec"]["minReadySeconds"], 0);
        let prefix = format!("{}-", set.name);
        let mut members = BTreeMap::new();
        for pod in self.controlled(self.kinds.of(SimulatedKind::Pod), set.meta("uid")) {
            let ordinal = pod.name.strip_prefix(&prefix);
            let Some(ordinal) = ordinal.and_then(|text| text.parse().ok()) else {
                continue;
            };
            let facts = self.facts(&pod);
            let available = facts.is_some_and(|facts| self.is_available(facts, seconds));
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

    /// Creates missing Pods, then deletes surplus Pods, then replaces Pods of the old revision. With `OrderedReady`,
    /// creates and deletes one Pod at a time.
    fn step(&mut self, sync: &SetSync<'_>) {
        let Some(created) = self.fill(sync) else {
            return;
        };
        if self.delete_surplus(sync) && !sync.by_hand && !created {
            self.update_members(sync);
        }
    }

    /// Creates missing Pods and deletes finished ones. Returns whether a Pod was created; `None` if no further change
    /// may follow in this reconcile.
    fn fill(&mut self, sync: &SetSync<'_>) -> Option<bool> {
        let (set, current) = (sync.set, sync.update.hash.as_str());
        let previous = sync.current.strip_prefix(&format!("{}-", set.name));
        let mut created = false;
        for ordinal in sync.ordinals.clone() {
            if self.is_interrupted() {
                return None;
            }
            let waits = match sync.members.get(&ordinal) {
                None => {
                    // Below the partition, a Pod is created from the old template.
                    let is_old = ordinal < sync.partition && !sync.by_hand;
                    let hash = previous.filter(|_| is_old).unwrap_or(current);
                    if !self.create_member(set, ordinal, hash) {
                        return None;
                    }
                    created = true;
                    true
                }
                Some(member) if member.stage == PodStage::Finished => {
                    self.delete_pod(set, &member.pod);
                    true
                }
                Some(member) => member.stage == PodStage::Terminating || !member.available,
            };
            if waits && sync.in_order {
                return None;
            }
        }
        Some(created)
    }

    /// Deletes the Pods with ordinals outside `sync.ordinals`. Returns false if no further change may follow now.
    fn delete_surplus(&mut self, sync: &SetSync<'_>) -> bool {
        let above = sync.members.range(sync.ordinals.end..).rev();
        let below = sync.members.range(..sync.ordinals.start).rev();
        for (_, member) in above.chain(below) {
            if self.is_interrupted() {
                return false;
            }
            if member.stage != PodStage::Terminating {
                self.delete_pod(sync.set, &member.pod);
            }
            if sync.in_order {
                return false;
            }
        }
        true
    }

    /// Deletes Pods of the old revision, the highest ordinals first, as many as may be unavailable at the same time.
    fn update_members(&mut self, sync: &SetSync<'_>) {
        let mut unavailable = 0;
        for (ordinal, member) in sync.members.range(sync.ordinals.clone()).rev() {
            let is_old = revisions::hash_of(member.pod.lean()) != sync.update.hash;
            let stays = member.stage != PodStage::Terminating;
            if is_old && *ordinal >= sync.partition && stays {
                unavailable += 1;
                self.delete_pod(sync.set, &member.pod);
            } else if !(member.available && stays) {
                unavailable += 1;
            }
            if unavailable >= sync.most_unavailable {
                return;
            }
        }
    }

    /// Creates the Pod with an ordinal, after its PersistentVolumeClaims. Returns false if the server refused the Pod.
    fn create_member(&mut self, set: &Stored, ordinal: i64, hash: &str) -> bool {
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
        for claim in items(&set.lean()["spec"]["volumeClaimTemplates"]) {
            self.claim(set, claim, &name, &mut pod);
        }
        self.create_pod(set, pod).is_ok()
    }

    /// Creates the claim of one Pod from one of `volumeClaimTemplates`, and adds the volume to the Pod.
    fn claim(&mut self, set: &Stored, template: &Value, pod_name: &str, pod: &mut Value) {
        let volume = text(&template["metadata"], "name").to_owned();
        let name = format!("{volume}-{pod_name}");
        let kind = self.kinds.of(SimulatedKind::Claim);
        if self.stored(kind, &set.namespace, &name).is_none() {
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
            let spec = &set.lean()["spec"];
            let selected = spec["selector"]["matchLabels"].as_object();
            for (key, value) in selected.into_iter().flatten() {
                labels[key] = value.clone();
            }
            if spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete" {
                let owners = json!([controller_reference(set)]);
                fields.insert("ownerReferences".to_owned(), owners);
            }
            let whole = &set.name;
            match self.create(kind, &set.namespace, body) {
                Ok(_) => {
                    let message = format!(
                        "create Claim {name} Pod {pod_name} in StatefulSet {whole} success"
                    );
                    self.report(set, "SuccessfulCreate", message);
                }
                Err(refusal) => {
                    let why = refusal.message;
                    let message = format!(
                        "create Claim {name} for Pod {pod_name} in StatefulSet {whole} failed error: {why}"
                    );
                    self.warn(set, "FailedCreate", message);
                }
            }
        }
        let spec = steersman_registry::members_of(&mut pod["spec"]);
        let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
        if let Some(list) = volumes.as_array_mut() {
            list.retain(|one| one["name"] != volume);
            list.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}));
        }
    }

    /// Returns the Pod template in the ControllerRevision with this hash; the current template if that was deleted.
    fn template_of(&self, set: &Stored, hash: &str) -> Value {
        let name = format!("{}-{hash}", set.name);
        let revision = self.stored(&self.kinds.revisions, &set.namespace, &name);
        let template = revision.map(|one| one.lean()["data"]["spec"]["template"].clone());
        let template = template.filter(Value::is_object);
        template.unwrap_or_else(|| set.lean()["spec"]["template"].clone())
    }

    fn report_set(&mut self, sync: SetSync<'_>) {
        let SetSync {
            set,
            members,
            current,
            update,
            ..
        } = sync;
        let there = || members.values().filter(|one| one.stage.is_active());
        let number_of =
            |fits: &dyn Fn(&SetMember) -> bool| count(there().filter(|one| fits(one)).count());
        let is_of = |one: &SetMember, revision: &str| {
            format!("{}-{}", set.name, revisions::hash_of(one.pod.lean())) == revision
        };
        let replicas = number_of(&|_| true);
        let updated = number_of(&|one| is_of(one, &update.name));
        let ready = number_of(&|one| one.ready);
        let wanted = number(&set.lean()["spec"]["replicas"], 1);
        let ends = |one: &SetMember| one.stage == PodStage::Terminating;
        let rolled = [updated, wanted, ready] == [replicas; 3] && !members.values().any(ends);
        let current = if rolled { update.name.clone() } else { current };
        let mut status = json!({
            "observedGeneration": set.lean()["metadata"]["generation"],
            "replicas": replicas,
            "currentRevision": current,
            "updateRevision": update.name,
            "collisionCount": 0,
            "availableReplicas": number_of(&|one| one.available),
        });
        let positive = [
            ("readyReplicas", ready),
            ("currentReplicas", number_of(&|one| is_of(one, &current))),
            ("updatedReplicas", updated),
        ];
        put_counts(&mut status, &positive);
        if let Some(conditions) = set.lean()["status"].get("conditions") {
            status["conditions"] = conditions.clone();
        }
        self.write_status(set, status);
    }
}
