//! Machine: the Deployment controller, which changes from one ReplicaSet to the next (a rollout).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_store::Stored;

use super::deployment_replica_sets::{
    DESIRED_REPLICAS, DeploymentSets, MAX_REPLICAS, REVISION, REVISION_HISTORY, copied_annotations,
    is_complete, new_replica_set, put_condition, revision_of, same_template, set_replica_failure,
    size_annotations,
};
use super::rollout::{RolloutTerms, ScaledSet, SetSize};
use crate::actions::turn_context::TurnContext;
use crate::pods::owned_pods::selector_of;
use crate::state::facts::{
    Component, SimulatedKind, annotation, annotations_of, cloned_items, condition, number,
    put_counts, time,
};

/// The sums of the numbers of Pods in all ReplicaSets of a Deployment, for its status.
#[derive(Debug, Clone, Copy)]
struct ReplicaCounts {
    total: i64,
    ready: i64,
    available: i64,
    updated: i64,
}

impl ReplicaCounts {
    fn of(status: &Value) -> Self {
        let read = |field: &str| number(&status[field], 0);
        Self {
            total: read("replicas"),
            ready: read("readyReplicas"),
            available: read("availableReplicas"),
            updated: read("updatedReplicas"),
        }
    }
}

/// What this reconcile has found out about the ReplicaSet of the Deployment's current template.
#[derive(Debug, Default)]
struct Rollout {
    /// The Deployment's revision, as the value of its annotation; empty if this reconcile did not compute it.
    revision: String,
    /// The reason and the message for the condition `Progressing`, if this reconcile changes them.
    progress: Option<(&'static str, String)>,
}

impl TurnContext<'_> {
    /// Takes the next step of a rollout: scales ReplicaSets within the limits, and writes the Deployment's status.
    pub(crate) fn reconcile_deployment(&mut self, deployment: &Stored) {
        let mut rollout = Rollout::default();
        let deletes = deployment.is_terminating();
        if !deletes {
            self.adopt_sets(deployment);
        }
        let mut sets = self.sets_of(deployment);
        if !deletes {
            let paused = deployment.lean()["spec"]["paused"] == true;
            if !paused {
                rollout = self.ensure_new_set(deployment, &sets);
                self.refresh_sets(deployment, &mut sets);
            }
            self.scale_sets(deployment, &sets, paused);
            self.refresh_sets(deployment, &mut sets);
            self.delete_old_sets(deployment, &sets);
            self.refresh_sets(deployment, &mut sets);
        }
        self.report_deployment(deployment, &sets, rollout);
    }

    /// Reads the ReplicaSets of a Deployment again if the store has changed since they were read.
    fn refresh_sets(&self, deployment: &Stored, sets: &mut DeploymentSets) {
        if sets.read_at != self.registry.revision() {
            *sets = self.sets_of(deployment);
        }
    }

    fn sets_of(&self, deployment: &Stored) -> DeploymentSets {
        let kind = self.kinds.of(SimulatedKind::ReplicaSet);
        let mut all = self.controlled(kind, deployment.meta("uid"));
        let created = |set: &Stored| set.meta("creationTimestamp").to_owned();
        all.sort_by_cached_key(|set| (created(set), Arc::clone(&set.name)));
        let template = &deployment.lean()["spec"]["template"];
        let mut templates = all.iter().map(|set| &set.lean()["spec"]["template"]);
        let at = templates.position(|own| same_template(own, template));
        let new = at.map(|at| all.remove(at));
        DeploymentSets {
            new,
            old: all,
            read_at: self.registry.revision(),
        }
    }

    fn adopt_sets(&mut self, deployment: &Stored) {
        let orphans = self
            .cluster
            .orphans(SimulatedKind::ReplicaSet, &deployment.namespace);
        if orphans.is_empty() {
            return;
        }
        let Some(selector) = selector_of(deployment.lean()) else {
            return;
        };
        for key in orphans {
            if let Some(set) = self.get(SimulatedKind::ReplicaSet, &key.namespace, &key.name)
                && !set.is_terminating()
                && selector.matches_labels(|key| set.label(key))
            {
                self.adopt(SimulatedKind::ReplicaSet, &set, deployment);
            }
        }
    }

    /// Creates the ReplicaSet of the current template, or gives the existing one the highest revision.
    fn ensure_new_set(&mut self, deployment: &Stored, sets: &DeploymentSets) -> Rollout {
        let newest = sets.old.iter().map(|set| revision_of(set.lean())).max();
        let newest = newest.unwrap_or(0);
        let revision = (newest + 1).to_string();
        let Some(new) = &sets.new else {
            let (name, body) = new_replica_set(deployment, sets, &revision);
            let kind = self.kinds.of(SimulatedKind::ReplicaSet);
            let size = number(&body["spec"]["replicas"], 0);
            let (revision, progress) = match self.create(kind, &deployment.namespace, body) {
                Ok(_) => {
                    self.record_scaling(deployment, &name, 0, size);
                    let message = format!("Created new replica set \"{name}\"");
                    (revision, ("NewReplicaSetCreated", message))
                }
                Err(refusal) => {
                    let why = &refusal.message;
                    let message = format!("Failed to create new replica set \"{name}\": {why}");
                    self.warn(deployment, "ReplicaSetCreateError", message);
                    self.requeue_after(Duration::from_secs(1));
                    (String::new(), ("ReplicaSetCreateError", refusal.message))
                }
            };
            return Rollout {
                revision,
                progress: Some(progress),
            };
        };
        let is_newest = revision_of(new.lean()) > newest;
        if !is_newest {
            self.edit(SimulatedKind::ReplicaSet, new, |set| {
                let was = annotation(set, REVISION).to_owned();
                let history = annotation(set, REVISION_HISTORY).to_owned();
                let annotations = annotations_of(set);
                if !was.is_empty() {
                    let comma = if history.is_empty() { "" } else { "," };
                    let history = format!("{history}{comma}{was}");
                    annotations.insert(REVISION_HISTORY.to_owned(), json!(history));
                }
                annotations.insert(REVISION.to_owned(), json!(revision));
            });
        }
        let is_known = condition(deployment.lean(), "Progressing").is_some();
        let message = format!("Found new replica set \"{}\"", new.name);
        let own = is_newest.then(|| annotation(new.lean(), REVISION).to_owned());
        Rollout {
            revision: own.unwrap_or(revision),
            progress: (!is_known).then_some(("FoundNewReplicaSet", message)),
        }
    }

    fn scale_sets(&mut self, deployment: &Stored, sets: &DeploymentSets, paused: bool) {
        let terms = RolloutTerms::of(deployment.lean());
        let size = |set: &Arc<Stored>| SetSize {
            wanted: number(&set.lean()["spec"]["replicas"], 0),
            available: number(&set.lean()["status"]["availableReplicas"], 0),
        };
        let new = sets.new.as_ref().map(size).unwrap_or_default();
        let old: Vec<SetSize> = sets.old.iter().map(size).collect();
        let mut new_size = new.wanted;
        let mut old_sizes: Vec<i64> = old.iter().map(|size| size.wanted).collect();
        let recreate = deployment.lean()["spec"]["strategy"]["type"] == "Recreate";
        let scaled_set = |set| ScaledSet {
            size: size(set),
            desired: annotation(set.lean(), DESIRED_REPLICAS).parse().ok(),
            max_replicas: annotation(set.lean(), MAX_REPLICAS).parse().ok(),
        };
        let scaled_sets: Vec<ScaledSet> = sets.all().map(scaled_set).collect();
        let scaled = scaled_sets.iter().any(|set| {
            let other = set.desired.is_some_and(|desired| desired != terms.replicas);
            set.size.wanted > 0 && other
        });
        if paused || scaled {
            let at = sets.new.is_some().then_some(old.len());
            let mut sizes = terms.rescale(&scaled_sets, at, !recreate);
            if at.is_some() {
                new_size = sizes.pop().unwrap_or(new_size);
            }
            old_sizes = sizes;
        } else if recreate {
            old_sizes.fill(0);
            let is_running = |set: &Arc<Stored>| {
                let tally = self.cluster.tally(set.meta("uid"));
                tally.active + tally.terminating > 0
            };
            if !sets.old.iter().any(is_running) && old.iter().all(|size| size.wanted == 0) {
                new_size = terms.replicas;
            }
        } else {
            let total = old.iter().map(|size| size.wanted).sum::<i64>() + new.wanted;
            new_size = terms.grow(new, total);
            if new_size == new.wanted {
                old_sizes = terms.shrink(&old, new);
            }
        }
        if let Some(set) = &sets.new {
            self.record_scaling(deployment, &set.name, new.wanted, new_size);
            self.scale(set, new_size, terms, Some(deployment.lean()));
        }
        for ((set, was), wanted) in sets.old.iter().zip(&old).zip(old_sizes) {
            self.record_scaling(deployment, &set.name, was.wanted, wanted);
            self.scale(set, wanted, terms, None);
        }
    }

    fn record_scaling(&mut self, deployment: &Stored, set: &str, was: i64, size: i64) {
        if was != size {
            let way = if size > was { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {set} from {was} to {size}");
            self.report(deployment, "ScalingReplicaSet", message);
        }
    }

    /// Scales a ReplicaSet. From `deployment`, if given, copies annotations and `minReadySeconds` to the ReplicaSet.
    fn scale(
        &mut self,
        set: &Stored,
        replicas: i64,
        terms: RolloutTerms,
        deployment: Option<&Value>,
    ) {
        let spec = &set.lean()["spec"];
        let stored_annotations = &set.lean()["metadata"]["annotations"];
        let min_ready_seconds = deployment.map(|deployment| &deployment["spec"]["minReadySeconds"]);
        let min_ready_seconds = min_ready_seconds.filter(|seconds| !seconds.is_null());
        let mut annotations = deployment.map(copied_annotations).unwrap_or_default();
        if replicas > 0 || !stored_annotations[DESIRED_REPLICAS].is_null() {
            annotations.extend(size_annotations(terms));
        }
        let is_scaled = number(&spec["replicas"], 1) == replicas;
        let is_copied = |(key, value): (&String, &Value)| stored_annotations[key] == *value;
        if is_scaled
            && min_ready_seconds.is_none_or(|seconds| spec["minReadySeconds"] == *seconds)
            && annotations.iter().all(is_copied)
        {
            return;
        }
        self.edit(SimulatedKind::ReplicaSet, set, |object| {
            if !is_scaled {
                object["spec"]["replicas"] = json!(replicas);
            }
            if let Some(seconds) = min_ready_seconds {
                object["spec"]["minReadySeconds"] = seconds.clone();
            }
            annotations_of(object).extend(annotations);
        });
    }

    fn delete_old_sets(&mut self, deployment: &Stored, sets: &DeploymentSets) {
        let Some(keep) = deployment.lean()["spec"]["revisionHistoryLimit"].as_u64() else {
            return;
        };
        if !is_complete(deployment.lean()) {
            return;
        }
        let is_empty = |set: &&Arc<Stored>| {
            number(&set.lean()["spec"]["replicas"], 0) == 0
                && number(&set.lean()["status"]["replicas"], 0) == 0
                && !set.is_terminating()
        };
        let mut empty: Vec<&Arc<Stored>> = sets.old.iter().filter(is_empty).collect();
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let many = empty.len().saturating_sub(keep);
        empty.sort_by_key(|set| revision_of(set.lean()));
        let kind = self.kinds.of(SimulatedKind::ReplicaSet);
        for set in empty.into_iter().take(many) {
            self.delete(kind, set, None);
        }
    }

    fn report_deployment(
        &mut self,
        deployment: &Stored,
        sets: &DeploymentSets,
        Rollout { revision, progress }: Rollout,
    ) {
        let terms = RolloutTerms::of(deployment.lean());
        let old = &deployment.lean()["status"];
        let new = sets.new.as_ref();
        let counts = ReplicaCounts {
            total: sets.sum("status", "replicas"),
            ready: sets.sum("status", "readyReplicas"),
            available: sets.sum("status", "availableReplicas"),
            updated: new.map_or(0, |set| number(&set.lean()["status"]["replicas"], 0)),
        };
        let wall = self.wall();
        let mut conditions = cloned_items(&old["conditions"]);
        let (holds, able, has) = if counts.available >= terms.replicas - terms.unavailable {
            ("True", "Available", "has")
        } else {
            ("False", "Unavailable", "does not have")
        };
        let why = format!("MinimumReplicas{able}");
        let message = format!("Deployment {has} minimum availability.");
        put_condition(&mut conditions, ("Available", holds, &why, &message), &wall);
        let name = new.map_or("", |set| &*set.name);
        let progress = self.progress(deployment, (name, counts), progress);
        if let Some((holds, why, message)) = progress {
            let condition = ("Progressing", holds, why, message.as_str());
            put_condition(&mut conditions, condition, &wall);
        }
        if deployment.lean()["spec"]["paused"] != true {
            set_replica_failure(&mut conditions, sets.new.iter().chain(&sets.old));
        }
        let mut status = json!({"observedGeneration": deployment.lean()["metadata"]["generation"]});
        let missing = sets.sum("spec", "replicas") - counts.available;
        let positive = [
            ("replicas", counts.total),
            ("updatedReplicas", counts.updated),
            ("readyReplicas", counts.ready),
            ("availableReplicas", counts.available),
            ("unavailableReplicas", missing),
            ("collisionCount", number(&old["collisionCount"], 0)),
        ];
        put_counts(&mut status, &positive);
        status["terminatingReplicas"] = json!(sets.sum("status", "terminatingReplicas"));
        status["conditions"] = Value::Array(conditions);
        // As upstream, the annotation with the revision is written in the same request as the status.
        let revision = Some((REVISION, revision.as_str())).filter(|_| !revision.is_empty());
        self.write_status_as(Component::Controllers, deployment, status, revision);
    }

    /// Returns status, reason and message of the condition `Progressing`; `None` if it stays as it is.
    fn progress(
        &mut self,
        deployment: &Stored,
        (name, counts): (&str, ReplicaCounts),
        reason: Option<(&'static str, String)>,
    ) -> Option<(&'static str, &'static str, String)> {
        let ReplicaCounts { updated, .. } = counts;
        let terms = RolloutTerms::of(deployment.lean());
        let old = ReplicaCounts::of(&deployment.lean()["status"]);
        let about_set = |what: &str| format!("ReplicaSet \"{name}\" {what}.");
        if deployment.lean()["spec"]["paused"] == true {
            let message = "Deployment is paused".to_owned();
            return Some(("Unknown", "DeploymentPaused", message));
        }
        if [terms.replicas, counts.total, counts.available] == [updated; 3] {
            let message = about_set("has successfully progressed");
            return Some(("True", "NewReplicaSetAvailable", message));
        }
        let moved = updated > old.updated
            || counts.total - updated < old.total - old.updated
            || counts.ready > old.ready
            || counts.available > old.available;
        if self.is_late(deployment, moved) {
            let message = about_set("has timed out progressing");
            return Some(("False", "ProgressDeadlineExceeded", message));
        }
        let updated = || ("ReplicaSetUpdated", about_set("is progressing"));
        let (why, message) = reason.or_else(|| moved.then(updated))?;
        let holds = if why == "ReplicaSetCreateError" {
            "False"
        } else {
            "True"
        };
        Some((holds, why, message))
    }

    /// Returns whether `progressDeadlineSeconds` is over. If not, queues the Deployment for the end of that time.
    fn is_late(&mut self, deployment: &Stored, moved: bool) -> bool {
        let Some(seconds) = deployment.lean()["spec"]["progressDeadlineSeconds"].as_i64() else {
            return false;
        };
        let progressing = condition(deployment.lean(), "Progressing");
        let Some(condition) = progressing.filter(|_| !moved) else {
            self.requeue_after(Duration::from_secs(seconds.unsigned_abs()));
            return false;
        };
        if condition["reason"] == "ProgressDeadlineExceeded" {
            return true;
        }
        let complete = condition["reason"] == "NewReplicaSetAvailable";
        let since = time(&condition["lastUpdateTime"]).filter(|_| !complete);
        let gone = since.map_or(0, |since| self.seconds_since(since));
        if gone < seconds {
            self.requeue_after(Duration::from_secs((seconds - gone).unsigned_abs()));
        }
        gone >= seconds
    }
}
