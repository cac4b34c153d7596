//! Machine: the Deployment controller, which rolls out ReplicaSets.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_registry::store::Stored;

use super::deployment_replica_sets::{
    DESIRED_REPLICAS, DeploymentSets, MAX_REPLICAS, NOT_COPIED, REVISION, REVISION_HISTORY,
    annotations_of, is_complete, new_replica_set, progressing, put_condition, revision_of,
    same_template, set_replica_failure,
};
use super::rollout::{RolloutTerms, ScaledSet, SetSize};
use crate::actions::event_correlator::{EventContent, Source};
use crate::actions::turn_context::{Component, TurnContext};
use crate::pods::owned_pods::selector_of;
use crate::state::facts::{Key, Kind, annotation, number, time};

/// The sums over the ReplicaSets of a Deployment that its status reports.
#[derive(Debug, Clone, Copy)]
struct ReplicaCounts {
    total: i64,
    ready: i64,
    available: i64,
    updated: i64,
}

impl TurnContext<'_> {
    /// Takes the next step of a Deployment's rollout and writes its status.
    pub(crate) fn reconcile_deployment(&mut self, key: &Key) {
        let Some(deployment) = self.get(Kind::Deployment, &key.namespace, &key.name) else {
            return;
        };
        let mut reason = None;
        if deployment.meta("deletionTimestamp").is_empty() {
            self.adopt_sets(&deployment);
            let paused = deployment.lean()["spec"]["paused"] == true;
            if !paused {
                reason = self.ensure_new_set(&deployment);
            }
            self.scale_sets(&deployment, paused);
            self.delete_old_sets(&deployment);
        }
        // The step above may have changed the annotations.
        if let Some(deployment) = self.get(Kind::Deployment, &key.namespace, &key.name) {
            self.report_deployment(key, &deployment, reason);
        }
    }

    fn sets_of(&self, deployment: &Stored) -> DeploymentSets {
        let kind = self.kinds.of(Kind::ReplicaSet);
        let mut all = self.controlled(kind, deployment.meta("uid"));
        all.sort_by(|a, b| {
            let age = |set: &Stored| {
                (
                    set.meta("creationTimestamp").to_owned(),
                    Arc::clone(&set.name),
                )
            };
            age(a).cmp(&age(b))
        });
        let template = &deployment.lean()["spec"]["template"];
        let at = all
            .iter()
            .position(|set| same_template(&set.lean()["spec"]["template"], template));
        let new = at.map(|at| all.remove(at));
        DeploymentSets { new, old: all }
    }

    fn adopt_sets(&mut self, deployment: &Stored) {
        let orphans = self.view.orphans(Kind::ReplicaSet, &deployment.namespace);
        let Some(selector) = selector_of(deployment.lean()).filter(|_| !orphans.is_empty()) else {
            return;
        };
        for key in orphans {
            if let Some(set) = self.get(Kind::ReplicaSet, &key.namespace, &key.name)
                && set.meta("deletionTimestamp").is_empty()
                && selector.matches_labels(|key| set.label(key))
            {
                self.adopt(Kind::ReplicaSet, &set, deployment);
            }
        }
    }

    /// Creates the ReplicaSet of the current template, or gives the existing one the newest
    /// revision. Returns the reason and message of the Progressing condition.
    fn ensure_new_set(&mut self, deployment: &Stored) -> Option<(&'static str, String)> {
        let sets = self.sets_of(deployment);
        let newest = sets
            .old
            .iter()
            .map(|set| revision_of(set.lean()))
            .max()
            .unwrap_or(0);
        let revision = (newest + 1).to_string();
        let Some(new) = sets.new else {
            let (name, body) = new_replica_set(deployment, &sets, &revision);
            let kind = Arc::clone(self.kinds.of(Kind::ReplicaSet));
            let size = number(&body["spec"]["replicas"], 0);
            let reason = match self.create(&kind, &deployment.namespace, body) {
                Ok(_) => {
                    self.record_scaling(deployment, &name, 0, size);
                    (
                        "NewReplicaSetCreated",
                        format!("Created new replica set \"{name}\""),
                    )
                }
                Err(refusal) => {
                    let why = &refusal.message;
                    let message = format!("Failed to create new replica set \"{name}\": {why}");
                    let content = EventContent::warning("ReplicaSetCreateError", message);
                    self.event(deployment, Source::Deployments, &content);
                    let requeue = self.now.tick.saturating_add(Duration::from_secs(1));
                    self.requeue_at(Key::of(Kind::Deployment, deployment), requeue);
                    ("ReplicaSetCreateError", refusal.message)
                }
            };
            self.write_revision(deployment, &revision);
            return Some(reason);
        };
        if revision_of(new.lean()) <= newest {
            self.edit(Kind::ReplicaSet, &new, |set| {
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
            self.write_revision(deployment, &revision);
        } else {
            self.write_revision(deployment, annotation(new.lean(), REVISION));
        }
        let known = progressing(deployment.lean()).is_some();
        (!known).then(|| {
            (
                "FoundNewReplicaSet",
                format!("Found new replica set \"{}\"", new.name),
            )
        })
    }

    fn write_revision(&mut self, deployment: &Stored, revision: &str) {
        if annotation(deployment.lean(), REVISION) == revision || revision.is_empty() {
            return;
        }
        self.edit(Kind::Deployment, deployment, |object| {
            annotations_of(object).insert(REVISION.to_owned(), json!(revision));
        });
    }

    fn scale_sets(&mut self, deployment: &Stored, paused: bool) {
        let sets = self.sets_of(deployment);
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
                    let tally = self.view.tally(set.meta("uid"));
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
            self.event(deployment, Source::Deployments, &content);
        }
    }

    fn scale(
        &mut self,
        set: &Stored,
        replicas: i64,
        terms: RolloutTerms,
        deployment: Option<&Value>,
    ) {
        self.edit(Kind::ReplicaSet, set, |object| {
            if number(&object["spec"]["replicas"], 1) != replicas {
                object["spec"]["replicas"] = json!(replicas);
            }
            let spec = deployment.map(|deployment| &deployment["spec"]["minReadySeconds"]);
            if let Some(seconds) = spec.filter(|seconds| !seconds.is_null()) {
                object["spec"]["minReadySeconds"] = seconds.clone();
            }
            let annotations = annotations_of(object);
            let own = deployment.and_then(|it| it["metadata"]["annotations"].as_object());
            for (key, value) in own.into_iter().flatten() {
                if !NOT_COPIED.contains(&key.as_str()) {
                    annotations.insert(key.clone(), value.clone());
                }
            }
            if replicas > 0 || annotations.contains_key(DESIRED_REPLICAS) {
                annotations.insert(
                    DESIRED_REPLICAS.to_owned(),
                    json!(terms.replicas.to_string()),
                );
                let max_replicas = terms.replicas + terms.surge;
                annotations.insert(MAX_REPLICAS.to_owned(), json!(max_replicas.to_string()));
            }
        });
    }

    /// Deletes the oldest scaled-down sets beyond the revision history limit.
    fn delete_old_sets(&mut self, deployment: &Stored) {
        let Some(keep) = deployment.lean()["spec"]["revisionHistoryLimit"].as_u64() else {
            return;
        };
        if !is_complete(deployment.lean()) {
            return;
        }
        let mut empty = self.sets_of(deployment).old;
        empty.retain(|set| {
            number(&set.lean()["spec"]["replicas"], 0) == 0
                && number(&set.lean()["status"]["replicas"], 0) == 0
                && set.meta("deletionTimestamp").is_empty()
        });
        let many = empty
            .len()
            .saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
        empty.sort_by_key(|set| revision_of(set.lean()));
        let kind = Arc::clone(self.kinds.of(Kind::ReplicaSet));
        for set in empty.into_iter().take(many) {
            self.delete(&kind, &set, None);
        }
    }

    fn report_deployment(
        &mut self,
        key: &Key,
        deployment: &Stored,
        reason: Option<(&'static str, String)>,
    ) {
        let sets = self.sets_of(deployment);
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
        let progress = self.progress(key, deployment, (name, numbers), reason);
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
        self.write_status(Kind::Deployment, Component::Controllers, deployment, status);
    }

    /// Computes the status, reason and message of the Progressing condition; `None` if they do not
    /// change.
    fn progress(
        &mut self,
        key: &Key,
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
    fn is_late(&mut self, key: &Key, deployment: &Stored, moved: bool) -> bool {
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
