//! Machine: the volume binder: binds a PersistentVolumeClaim to a matching PersistentVolume, or to a new one.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_apimachinery::quantity::Quantity;
use steersman_registry::Subresource;
use steersman_store::Stored;

use crate::actions::event_correlator::EventContent;
use crate::actions::turn_context::{MAIN, TurnContext};
use crate::state::cluster_facts::selects_by;
use crate::state::facts::{
    Component, SimulatedKey, SimulatedKind, annotation, cloned_items, items, label_selector,
    object_reference, text,
};

/// The name of the simulator's own provisioner, which creates the volumes of claims without a StorageClass.
const PROVISIONER: &str = "play.steersman";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

struct ClassSettings {
    provisioner: String,
    reclaim: String,
    /// Whether a volume is created only once a Pod uses the claim (`WaitForFirstConsumer`).
    waits: bool,
}

impl TurnContext<'_> {
    /// Binds an unbound claim to a volume. For a deleted claim (`None`), applies the reclaim policy to its volume.
    pub(crate) fn reconcile_volume_claim(&mut self, claim: Option<&Stored>) {
        let name = self.key.namespaced_name();
        let Some(claim) = claim else {
            if let Some(volume) = self.memory.bound.remove(&name) {
                self.reclaim(&volume);
            }
            return;
        };
        let volume = text(&claim.lean()["spec"], "volumeName");
        if !volume.is_empty() {
            self.memory.bound.insert(name, volume.into());
        }
        if claim.is_terminating() || text(&claim.lean()["status"], "phase") == "Bound" {
            return;
        }
        let volume = if volume.is_empty() {
            self.matching_volume(claim)
                .or_else(|| self.provision(claim))
        } else {
            let named = self.get(SimulatedKind::Volume, "", volume);
            named.filter(|named| is_free_for(named.lean(), claim))
        };
        if let Some(volume) = volume {
            self.bind_claim(claim, &volume);
        }
    }

    /// Marks an unbound volume as available, or applies the reclaim policy if the volume's claim was deleted.
    pub(crate) fn reconcile_volume(&mut self, volume: &Stored) {
        let of = &volume.lean()["spec"]["claimRef"];
        let phase = text(&volume.lean()["status"], "phase");
        if !text(of, "uid").is_empty() {
            if phase == "Bound" {
                self.reclaim(&volume.name);
            }
        } else if phase != "Available" {
            let mut status = volume.lean()["status"].clone();
            status["phase"] = json!("Available");
            self.write_status(volume, status);
        }
    }

    /// Returns the scheduler's message if a claim of a Pod is missing or unbound, so that the Pod must wait.
    pub(crate) fn claim_wait_message(&mut self, pod: &Stored) -> Option<String> {
        let mut waits = None;
        for volume in items(&pod.lean()["spec"]["volumes"]) {
            let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() else {
                continue;
            };
            match self.get(SimulatedKind::Claim, &pod.namespace, name) {
                None => waits = Some(format!("persistentvolumeclaim \"{name}\" not found")),
                Some(claim) if text(&claim.lean()["status"], "phase") != "Bound" => {
                    // With `WaitForFirstConsumer`, the claim has waited for a Pod that uses it, as this Pod does.
                    let claim = SimulatedKey::of(SimulatedKind::Claim, &claim);
                    self.work_queue.add(claim);
                    let why = "pod has unbound immediate PersistentVolumeClaims";
                    waits = Some(why.to_owned());
                }
                Some(_) => {}
            }
        }
        waits
    }

    /// Returns a free volume that fits a claim's selector, class, modes and size: a reserved one, or else the smallest.
    fn matching_volume(&self, claim: &Stored) -> Option<Arc<Stored>> {
        let spec = &claim.lean()["spec"];
        let wanted = size(&spec["resources"]["requests"]["storage"]);
        let selects_all = !spec["selector"].is_object();
        let selector = label_selector(&spec["selector"]);
        let storage = &self.kinds.of(SimulatedKind::Volume).storage;
        let all = self.registry.store().list(storage, None).filter(|volume| {
            let own = &volume.lean()["spec"];
            let labelled = selects_all || selects_by(selector.as_ref(), volume);
            let modes = |spec: &Value| cloned_items(&spec["accessModes"]);
            let offered = modes(own);
            labelled
                && !volume.is_terminating()
                && is_free_for(volume.lean(), claim)
                && text(own, "storageClassName") == text(spec, "storageClassName")
                && own["volumeMode"] == spec["volumeMode"]
                && modes(spec).iter().all(|mode| offered.contains(mode))
                && size(&own["capacity"]["storage"]) >= wanted
        });
        let bytes = |volume: &Arc<Stored>| size(&volume.lean()["spec"]["capacity"]["storage"]);
        let reserved = |volume: &Arc<Stored>| volume.lean()["spec"]["claimRef"].is_object();
        all.min_by(|one, two| {
            let (one, two) = ((!reserved(one), bytes(one)), (!reserved(two), bytes(two)));
            one.partial_cmp(&two).unwrap_or(std::cmp::Ordering::Equal)
        })
        .cloned()
    }

    /// Creates a volume for a claim. `None` if its StorageClass creates no volumes, or waits for a Pod with the claim.
    fn provision(&mut self, claim: &Stored) -> Option<Arc<Stored>> {
        let spec = &claim.lean()["spec"];
        let class = match self.class_of(claim) {
            Ok(class) => class?,
            Err(content) => {
                self.event(claim, &content);
                return None;
            }
        };
        if class.waits && !self.has_consumer(claim) {
            let message = "waiting for first consumer to be created before binding";
            self.report(claim, "WaitForFirstConsumer", message);
            return None;
        }
        let name = format!("pvc-{}", claim.meta("uid"));
        let mut volume = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: class.provisioner}},
            "spec": {
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "accessModes": spec["accessModes"],
                "persistentVolumeReclaimPolicy": class.reclaim,
                "volumeMode": spec["volumeMode"],
                "claimRef": object_reference(claim),
                "hostPath": {"path": format!("/var/lib/{PROVISIONER}/{name}")},
            },
        });
        if let Some(class) = spec.get("storageClassName") {
            volume["spec"]["storageClassName"] = class.clone();
        }
        match self.create(self.kinds.of(SimulatedKind::Volume), "", volume) {
            Ok(volume) => {
                let by = &class.provisioner;
                let message = format!("Successfully provisioned volume {name} using {by}");
                self.report(claim, "ProvisioningSucceeded", message);
                Some(volume)
            }
            Err(refusal) => {
                self.warn(claim, "ProvisioningFailed", refusal.message);
                None
            }
        }
    }

    /// Returns the settings of a claim's StorageClass. `None` means that the class creates no volumes. A claim without
    /// a class gets the settings of the simulator's own provisioner.
    ///
    /// # Errors
    /// Returns the Event to write if the StorageClass does not exist, or if the claim names the class `""`.
    fn class_of(&self, claim: &Stored) -> Result<Option<ClassSettings>, EventContent> {
        let Some(name) = claim.lean()["spec"]["storageClassName"].as_str() else {
            return Ok(Some(ClassSettings {
                provisioner: PROVISIONER.to_owned(),
                reclaim: "Delete".to_owned(),
                waits: false,
            }));
        };
        if name.is_empty() {
            let message =
                "no persistent volumes available for this claim and no storage class is set";
            return Err(EventContent::normal("FailedBinding", message));
        }
        let Some(class) = self.get(SimulatedKind::Class, "", name) else {
            let message = format!("storageclass.storage.k8s.io \"{name}\" not found");
            return Err(EventContent::warning("ProvisioningFailed", message));
        };
        let provisioner = text(class.lean(), "provisioner");
        if provisioner == "kubernetes.io/no-provisioner" {
            return Ok(None);
        }
        let reclaim = class.lean()["reclaimPolicy"].as_str().unwrap_or("Delete");
        Ok(Some(ClassSettings {
            provisioner: provisioner.to_owned(),
            reclaim: reclaim.to_owned(),
            waits: class.lean()["volumeBindingMode"] == "WaitForFirstConsumer",
        }))
    }

    fn has_consumer(&self, claim: &Stored) -> bool {
        let storage = &self.kinds.of(SimulatedKind::Pod).storage;
        let mut pods = self.registry.store().list(storage, Some(&claim.namespace));
        pods.any(|pod| {
            items(&pod.lean()["spec"]["volumes"])
                .any(|one| one["persistentVolumeClaim"]["claimName"] == *claim.name)
        })
    }

    fn bind_claim(&mut self, claim: &Stored, volume: &Stored) {
        let kind = self.kinds.of(SimulatedKind::Volume);
        let mut object = volume.lean().clone();
        if object["spec"]["claimRef"]["uid"] != claim.meta("uid") {
            object["spec"]["claimRef"] = object_reference(claim);
            object["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] =
                json!("yes");
            let Some(written) = self.update(kind, MAIN, object) else {
                return;
            };
            object = written.lean().clone();
        }
        object["status"]["phase"] = json!("Bound");
        let status = (Component::Controllers, Subresource::Status);
        if self.update(kind, status, object).is_none() {
            return;
        }
        let provisioner = annotation(volume.lean(), PROVISIONED_BY).to_owned();
        self.edit(SimulatedKind::Claim, claim, |claim| {
            claim["spec"]["volumeName"] = json!(*volume.name);
            let annotations = &mut claim["metadata"]["annotations"];
            annotations["pv.kubernetes.io/bind-completed"] = json!("yes");
            annotations["pv.kubernetes.io/bound-by-controller"] = json!("yes");
            if !provisioner.is_empty() {
                annotations["volume.kubernetes.io/storage-provisioner"] = json!(provisioner);
            }
        });
        if let Some(claim) = self.get(SimulatedKind::Claim, &claim.namespace, &claim.name) {
            let status = json!({
                "phase": "Bound",
                "accessModes": volume.lean()["spec"]["accessModes"],
                "capacity": volume.lean()["spec"]["capacity"],
            });
            self.write_status(&claim, status);
        }
    }

    fn reclaim(&mut self, name: &str) {
        let kind = self.kinds.of(SimulatedKind::Volume);
        let Some(volume) = self.get(SimulatedKind::Volume, "", name) else {
            return;
        };
        let of = &volume.lean()["spec"]["claimRef"];
        let (namespace, name) = (text(of, "namespace"), text(of, "name"));
        let claim = self.get(SimulatedKind::Claim, namespace, name);
        if !of.is_object() || claim.is_some_and(|claim| of["uid"] == claim.meta("uid")) {
            return;
        }
        let made = !annotation(volume.lean(), PROVISIONED_BY).is_empty();
        if made && volume.lean()["spec"]["persistentVolumeReclaimPolicy"] == "Delete" {
            self.delete(kind, &volume, None);
            return;
        }
        let mut object = volume.lean().clone();
        object["status"]["phase"] = json!("Released");
        self.update(kind, (Component::Controllers, Subresource::Status), object);
    }
}

/// Returns whether a volume is unbound, or bound to or reserved for `claim`.
fn is_free_for(volume: &Value, claim: &Stored) -> bool {
    let of = &volume["spec"]["claimRef"];
    let own = of["namespace"] == *claim.namespace && of["name"] == *claim.name;
    let uid = text(of, "uid");
    !of.is_object() || (own && (uid.is_empty() || uid == claim.meta("uid")))
}

fn size(quantity: &Value) -> f64 {
    let read = quantity.as_str().map(Quantity::parse);
    read.and_then(Result::ok).map_or(0.0, Quantity::approximate)
}
