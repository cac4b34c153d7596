//! Machine: the Deployment controller, which rolls out ReplicaSets.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_store::Stored;

use super::deployment_replica_sets::{
    DESIRED_REPLICAS, DeploymentSets, MAX_REPLICAS, NOT_COPIED, REVISION, REVISION_HISTORY,
    is_complete, new_replica_set, progressing, put_condition, revision_of, same_template,
    set_replica_failure,
};
use super::rollout::{RolloutTerms, ScaledSet, SetSize};
use crate::actions::event_correlator::{EventContent, EventSource};
use crate::actions::turn_context::{Component, TurnContext};
use crate::pods::owned_pods::selector_of;
use crate::state::facts::{SimulatedKey, SimulatedKind, annotation, annotations_of, number, time};

/// The sums over the ReplicaSets of a Deployment that its status reports.
#[derive(Debug, Clone, Copy)]
struct ReplicaCounts {
    total: i64,
    ready: i64,
    available: i64,
    updated: i64,
}

/// The result of a turn for the ReplicaSet of the current template.
#[derive(Debug, Default)]
struct Rollout {
    /// The revision of the Deployment; empty if this turn did not determine it.
    revision: String,
    /// The reason and message of the Progressing condition, if they are new.
    progress: Option<(&'static str, String)>,
}

impl TurnContext<'_> {
    /// Takes the next step of a Deployment's rollout and writes its status.
    pub(crate) fn reconcile_deployment(&mut self, key: &SimulatedKey) {
        let Some(deployment) = self.get(SimulatedKind::Deployment, &key.namespace, &key.name)
        else {
            return;
        };
        let mut rollout = Rollout::default();
        let deletes = !deployment.meta("deletionTimestamp").is_empty();
        if !deletes {
            self.adopt_sets(&deployment);
        }
        let mut sets = self.sets_of(&deployment);
        if !deletes {
            let paused = deployment.lean()["spec"]["paused"] == true;
            if !paused {
                rollout = self.ensure_new_set(&deployment, &sets);
                self.refresh_sets(&deployment, &mut sets);
            }
            self.scale_sets(&deployment, &sets, paused);
            self.refresh_sets(&deployment, &mut sets);
            self.delete_old_sets(&deployment, &sets);
            self.refresh_sets(&deployment, &mut sets);
        }
        self.report_deployment(key, &deployment, &sets, rollout);
    }

    /// Reads the ReplicaSets again if anything was written since they were read.
    fn refresh_sets(&self, deployment: &Stored, sets: &mut DeploymentSets) {
        if sets.read_at != self.registry.revision() {
            *sets = self.sets_of(deployment);
        }
    }

    fn sets_of(&self, deployment: &Stored) -> DeploymentSets {
        let kind = self.kinds.of(SimulatedKind::ReplicaSet);
        let mut all = self.controlled(kind, deployment.meta("uid"));
        all.sort_by(|a, b| {
            fn age(set: &Stored) -> (&str, &str) {
                (set.meta("creationTimestamp"), &set.name)
            }
            age(a).cmp(&age(b))
        });
        let template = &deployment.lean()["spec"]["template"];
        let at = all
            .iter()
            .position(|set| same_template(&set.lean()["spec"]["template"], template));
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
                && set.meta("deletionTimestamp").is_empty()
                && selector.matches_labels(|key| set.label(key))
            {
                self.adopt(SimulatedKind::ReplicaSet, &set, deployment);
            }
        }
    }

    /// Creates the ReplicaSet of the current template, or gives the existing one the newest
    /// revision.
    fn ensure_new_set(&mut self, deployment: &Stored, sets: &DeploymentSets) -> Rollout {
        let newest = sets
            .old
            .iter()
            .map(|set| revision_of(set.lean()))
            .max()
            .unwrap_or(0);
        let revision = (newest + 1).to_string();
        let Some(new) = &sets.new else {
            let (name, body) = new_replica_set(deployment, sets, &revision);
            let kind = Arc::clone(self.kinds.of(SimulatedKind::ReplicaSet));
            let size = number(&body["spec"]["replicas"], 0);
            let (revision, progress) = match self.create(&kind, &deployment.namespace, body) {
                Ok(_) => {
                    self.record_scaling(deployment, &name, 0, size);
                    let message = format!("Created new replica set \"{name}\"");
                    (revision, ("NewReplicaSetCreated", message))
                }
                Err(refusal) => {
                    let why = &refusal.message;
                    let message = format!("Failed to create new replica set \"{name}\": {why}");
                    let content = EventContent::warning("ReplicaSetCreateError", message);
                    self.event(deployment, EventSource::Deployments, &content);
                    let requeue = self.now.tick.saturating_add(Duration::from_secs(1));
                    self.requeue_at(
                        SimulatedKey::of(SimulatedKind::Deployment, deployment),
                        requeue,
                    );
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
                    let history = if history.is_empty() {
                        was
                    } else {
                        format!("{history},{was}")
                    };
                    annotations.insert(REVISION_HISTORY.to_owned(), json!(history));
                }
                annotations.insert(REVISION.to_owned(), json!(revision));
            });
        }
        let known = progressing(deployment.lean()).is_some();
        Rollout {
            revision: if is_newest {
                annotation(new.lean(), REVISION).to_owned()
            } else {
                revision
            },
            progress: (!known).then(|| {
                let message = format!("Found new replica set \"{}\"", new.name);
                ("FoundNewReplicaSet", message)
            }),
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
        let (mut new_size, mut old_sizes): (i64, Vec<i64>) =
            (new.wanted, old.iter().map(|size| size.wanted).collect());
        let recreate = deployment.lean()["spec"]["strategy"]["type"] == "Recreate";
        let scaled_sets: Vec<ScaledSet> = sets
            .all()
            .map(|set| ScaledSet {
                size: size(set),
                desired: annotation(set.lean(), DESIRED_REPLICAS).parse().ok(),
                max_replicas: annotation(set.lean(), MAX_REPLICAS).parse().ok(),
            })
            .collect();
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
            let running: i64 = sets
                .old
                .iter()
                .map(|set| {
                    let tally = self.cluster.tally(set.meta("uid"));
                    tally.active + tally.terminating
                })
                .sum();
            if running == 0 && old.iter().all(|size| size.wanted == 0) {
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
            let content = EventContent::normal("ScalingReplicaSet", message);
            self.event(deployment, EventSource::Deployments, &content);
        }
    }

    /// Sets the size of a ReplicaSet, and what it copies from its Deployment if that is given.
    fn scale(
        &mut self,
        set: &Stored,
        replicas: i64,
        terms: RolloutTerms,
        deployment: Option<&Value>,
    ) {
        let (spec, stored_annotations) =
            (&set.lean()["spec"], &set.lean()["metadata"]["annotations"]);
        let min_ready_seconds = deployment.map(|deployment| &deployment["spec"]["minReadySeconds"]);
        let min_ready_seconds = min_ready_seconds.filter(|seconds| !seconds.is_null());
        let own = deployment.and_then(|it| it["metadata"]["annotations"].as_object());
        let own = own.into_iter().flatten();
        let own = own.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
        let mut annotations: Vec<(&str, Value)> = own
            .map(|(key, value)| (key.as_str(), value.clone()))
            .collect();
        if replicas > 0 || !stored_annotations[DESIRED_REPLICAS].is_null() {
            let max_replicas = terms.replicas + terms.surge;
            annotations.push((DESIRED_REPLICAS, json!(terms.replicas.to_string())));
            annotations.push((MAX_REPLICAS, json!(max_replicas.to_string())));
        }
        let is_scaled = number(&spec["replicas"], 1) == replicas;
        if is_scaled
            && min_ready_seconds.is_none_or(|seconds| spec["minReadySeconds"] == *seconds)
            && annotations
                .iter()
                .all(|(key, value)| stored_annotations[*key] == *value)
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
            let annotations = annotations.into_iter();
            annotations_of(object).extend(annotations.map(|(key, value)| (key.to_owned(), value)));
        });
    }

    /// Deletes the oldest scaled-down sets beyond the revision history limit.
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
                && set.meta("deletionTimestamp").is_empty()
        };
        let mut empty: Vec<&Arc<Stored>> = sets.old.iter().filter(is_empty).collect();
        let many = empty
            .len()
            .saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
        empty.sort_by_key(|set| revision_of(set.lean()));
        let kind = Arc::clone(self.kinds.of(SimulatedKind::ReplicaSet));
        for set in empty.into_iter().take(many) {
            self.delete(&kind, set, None);
        }
    }

    fn report_deployment(
        &mut self,
        key: &SimulatedKey,
        deployment: &Stored,
        sets: &DeploymentSets,
        Rollout { revision, progress }: Rollout,
    ) {
        let terms = RolloutTerms::of(deployment.lean());
        let old = &deployment.lean()["status"];
        let (total, ready) = (sets.sum("replicas"), sets.sum("readyReplicas"));
        let available = sets.sum("availableReplicas");
        let asked: i64 = sets
            .all()
            .map(|set| number(&set.lean()["spec"]["replicas"], 0))
            .sum();
        let new = sets.new.as_ref();
        let updated = new.map_or(0, |set| number(&set.lean()["status"]["replicas"], 0));
        let wall = self.wall();
        let mut conditions = old["conditions"].as_array().cloned().unwrap_or_default();
        let enough = available >= terms.replicas - terms.unavailable;
        let (holds, why, message) = if enough {
            (
                "True",
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            )
        } else {
            (
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            )
        };
        put_condition(&mut conditions, ("Available", holds, why, message), &wall);
        let name = new.map_or("", |set| &*set.name);
        let numbers = ReplicaCounts {
            total,
            ready,
            available,
            updated,
        };
        let progress = self.progress(key, deployment, (name, numbers), progress);
        if let Some((holds, why, message)) = progress {
            put_condition(
                &mut conditions,
                ("Progressing", holds, why, &message),
                &wall,
            );
        }
        if deployment.lean()["spec"]["paused"] != true {
            set_replica_failure(&mut conditions, sets.new.iter().chain(&sets.old));
        }
        let mut status = json!({"observedGeneration": deployment.lean()["metadata"]["generation"]});
        for (field, count) in [
            ("replicas", total),
            ("updatedReplicas", updated),
            ("readyReplicas", ready),
            ("availableReplicas", available),
            ("unavailableReplicas", (asked - available).max(0)),
            ("collisionCount", number(&old["collisionCount"], 0)),
        ] {
            if count > 0 {
                status[field] = json!(count);
            }
        }
        status["terminatingReplicas"] = json!(sets.sum("terminatingReplicas"));
        status["conditions"] = Value::Array(conditions);
        // The revision is written with the status, as upstream.
        let revision = Some((REVISION, revision.as_str())).filter(|_| !revision.is_empty());
        let writer = (SimulatedKind::Deployment, Component::Controllers);
        self.write_annotated_status(writer, deployment, status, revision);
    }

    /// Computes the status, reason and message of the Progressing condition; `None` if they do not
    /// change.
    fn progress(
        &mut self,
        key: &SimulatedKey,
        deployment: &Stored,
        (name, numbers): (&str, ReplicaCounts),
        reason: Option<(&'static str, String)>,
    ) -> Option<(&'static str, &'static str, String)> {
        let ReplicaCounts {
            total,
            ready,
            available,
            updated,
        } = numbers;
        let terms = RolloutTerms::of(deployment.lean());
        let old = &deployment.lean()["status"];
        let done = updated == terms.replicas && total == updated && available == updated;
        if deployment.lean()["spec"]["paused"] == true {
            Some((
                "Unknown",
                "DeploymentPaused",
                "Deployment is paused".to_owned(),
            ))
        } else if done {
            let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
            Some(("True", "NewReplicaSetAvailable", message))
        } else {
            let moved = updated > number(&old["updatedReplicas"], 0)
                || total - updated
                    < number(&old["replicas"], 0) - number(&old["updatedReplicas"], 0)
                || ready > number(&old["readyReplicas"], 0)
                || available > number(&old["availableReplicas"], 0);
            let late = self.is_late(key, deployment, moved);
            match reason {
                _ if late => {
                    let message = format!("ReplicaSet \"{name}\" has timed out progressing.");
                    Some(("False", "ProgressDeadlineExceeded", message))
                }
                Some((why, message)) if why == "ReplicaSetCreateError" => {
                    Some(("False", why, message))
                }
                Some((why, message)) => Some(("True", why, message)),
                None if moved => {
                    let message = format!("ReplicaSet \"{name}\" is progressing.");
                    Some(("True", "ReplicaSetUpdated", message))
                }
                None => None,
            }
        }
    }

    /// Returns whether the rollout made no progress for the Deployment's progress deadline. If not,
    /// requeues the Deployment for that time.
    fn is_late(&mut self, key: &SimulatedKey, deployment: &Stored, moved: bool) -> bool {
        let Some(seconds) = deployment.lean()["spec"]["progressDeadlineSeconds"].as_i64() else {
            return false;
        };
        let Some(condition) = progressing(deployment.lean()).filter(|_| !moved) else {
            self.requeue_at(
                key.clone(),
                self.now
                    .tick
                    .saturating_add(Duration::from_secs(seconds.unsigned_abs())),
            );
            return false;
        };
        if condition["reason"] == "ProgressDeadlineExceeded" {
            return true;
        }
        let complete = condition["reason"] == "NewReplicaSetAvailable";
        let since = time(&condition["lastUpdateTime"]).filter(|_| !complete);
        let gone = since.map_or(0, |since| self.now.wall.as_second() - since.as_second());
        if gone < seconds {
            let left = Duration::from_secs((seconds - gone).unsigned_abs());
            self.requeue_at(key.clone(), self.now.tick.saturating_add(left));
        }
        gone >= seconds
    }
}
