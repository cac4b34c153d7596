//! Machine: derives the owner's conditions from the outcome of its set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use steersman_client::Error as ClientError;
use steersman_object::status_conditions::{self, FALSE, READY, RECONCILING, STALLED, TRUE};
use steersman_object::{Kind, ObjectKey, report};

use crate::outcome::{ChildOutcome, ChildState, SetOutcome};
use crate::readiness::Readiness;

/// The reason of `Ready` when all children are ready.
const CHILDREN_READY: &str = "ChildrenReady";
/// The reason of `Ready` and `Reconciling` while a child is not ready and needs no help.
const CHILDREN_IN_PROGRESS: &str = "ChildrenInProgress";
/// The reason of `Ready` and `Stalled` when a child cannot become ready without help.
const CHILD_FAILED: &str = "ChildFailed";

/// The number of children that the message of a condition names.
const NAMED: usize = 3;

impl SetOutcome {
    /// Sets the conditions `Ready`, `Reconciling` and `Stalled` (kstatus) in the owner's list of conditions.
    ///
    /// | Children | `Ready` | `Reconciling` | `Stalled` |
    /// | --- | --- | --- | --- |
    /// | all are ready | `True` | absent | absent |
    /// | all are ready, and earlier ones are being pruned | `True` | `True` | absent |
    /// | some are in progress, wait, or failed for a reason that may pass | `False` | `True` | absent |
    /// | one needs help: it has failed, or the server or another owner refuses it | `False` | absent | `True` |
    ///
    /// The last row also applies if a child that is being pruned needs help.
    ///
    /// The messages name the first three children that are not ready, with the reason. `generation` is the generation
    /// of the owner, and `now` the transition time of a changed status, so that unchanged children give unchanged
    /// conditions. Conditions of other types stay.
    ///
    /// # Examples
    ///
    /// ```
    /// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
    /// use k8s_openapi::jiff::Timestamp;
    /// use steersman_desired::SetOutcome;
    ///
    /// fn update(conditions: &mut Vec<Condition>, outcome: &SetOutcome, generation: Option<i64>, now: Timestamp) {
    ///     outcome.set_conditions(conditions, generation, now);
    /// }
    /// ```
    pub fn set_conditions(
        &self,
        conditions: &mut Vec<Condition>,
        generation: Option<i64>,
        now: Timestamp,
    ) {
        let needs_help = self.needs_help();
        // A child that is being pruned does not count for `is_ready`, but may need help.
        let is_ready = self.is_ready() && !needs_help;
        let is_pruning = self.children.iter().any(|child| child.pruned);
        let reason = match (is_ready, needs_help) {
            (_, true) => CHILD_FAILED,
            (true, false) => CHILDREN_READY,
            (false, false) => CHILDREN_IN_PROGRESS,
        };
        let message = self.message();
        let condition = |type_: &str, status: &str, reason: &str| {
            status_conditions::condition_of(generation, type_, status, reason, &message, now)
        };
        let ready = if is_ready { TRUE } else { FALSE };
        status_conditions::set(conditions, condition(READY, ready, reason));
        let is_reconciling = !needs_help && (!is_ready || is_pruning);
        // kstatus expects `Reconciling` and `Stalled` to be absent unless they are true.
        for (type_, is_true, reason) in [
            (RECONCILING, is_reconciling, CHILDREN_IN_PROGRESS),
            (STALLED, needs_help, CHILD_FAILED),
        ] {
            if is_true {
                status_conditions::set(conditions, condition(type_, TRUE, reason));
            } else {
                status_conditions::remove(conditions, type_);
            }
        }
    }

    /// Returns whether some child cannot become ready or be deleted without help.
    pub fn needs_help(&self) -> bool {
        self.children.iter().any(ChildOutcome::needs_help)
    }

    /// Returns a text that names the first three children that are not ready, with the reason.
    pub fn message(&self) -> String {
        // Children that need help come first, because other children wait for them.
        let open = self.children.iter().filter(|child| child.is_open());
        let (first, then): (Vec<_>, Vec<_>) = open.partition(|child| child.needs_help());
        let open: Vec<_> = first.into_iter().chain(then).collect();
        if open.is_empty() {
            let ready = self.children.iter().filter(|child| !child.pruned).count();
            return match ready {
                1 => "1 child is ready".to_owned(),
                ready => format!("{ready} children are ready"),
            };
        }
        let mut parts: Vec<String> = open.iter().take(NAMED).map(|child| child.text()).collect();
        match open.len().saturating_sub(NAMED) {
            0 => {}
            1 => parts.push("1 other child is not ready".to_owned()),
            more => parts.push(format!("{more} other children are not ready")),
        }
        parts.join("; ")
    }
}

impl ChildOutcome {
    /// Returns whether this child cannot become ready, or be deleted, without help: it has failed, or a refusal that
    /// only a person can lift blocks it.
    pub fn needs_help(&self) -> bool {
        match &self.state {
            ChildState::Failed(error) => is_lasting(error),
            _ => matches!(self.readiness, Some(Readiness::Failed(_))),
        }
    }

    fn is_open(&self) -> bool {
        self.pruned || !self.is_ready()
    }

    fn text(&self) -> String {
        let name = name(&self.kind, &self.key);
        match (&self.state, &self.readiness) {
            (ChildState::Failed(error), _) => format!("{name} failed: {}", report(&**error)),
            (ChildState::Waiting { after }, _) => {
                let named: Vec<String> = after
                    .iter()
                    .map(|(kind, key)| self::name(kind, key))
                    .collect();
                format!("{name} waits for {}", named.join(" and "))
            }
            (_, Some(readiness)) => format!("{name} {readiness}"),
            (_, None) => format!("{name} is not ready"),
        }
    }
}

fn name(kind: &Kind, key: &ObjectKey) -> String {
    format!("{} {key}", kind.gvk().kind())
}

/// Returns whether a repeated request would fail until a person changes something.
fn is_lasting(error: &ClientError) -> bool {
    let is_local = matches!(
        error,
        ClientError::Owner(_)
            | ClientError::NotApplicable { .. }
            | ClientError::Encode { .. }
            | ClientError::OtherNamespace { .. }
            | ClientError::ApplyConflict { .. }
            | ClientError::Hidden { .. }
    );
    // The owner is deleted with its terminating namespace, so no person needs to help.
    let is_forbidden = error.is_forbidden() && !error.is_namespace_terminating();
    is_local || is_forbidden || error.is_invalid() || error.is_kind_not_served()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use steersman_object::owner::OwnerError;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("a", name)
    }

    fn child(name: &str, state: ChildState, readiness: Option<Readiness>) -> ChildOutcome {
        ChildOutcome {
            kind: Kind::of::<ConfigMap>(),
            key: key(name),
            state,
            readiness,
            pruned: false,
        }
    }

    fn outcome(children: Vec<ChildOutcome>) -> SetOutcome {
        let objects = children.iter().map(|_| None).collect();
        SetOutcome { children, objects }
    }

    fn ready(name: &str) -> ChildOutcome {
        child(name, ChildState::Unchanged, Some(Readiness::Current))
    }

    fn in_progress(name: &str) -> ChildOutcome {
        let readiness = Readiness::InProgress("1 of 2".to_owned());
        child(name, ChildState::Unchanged, Some(readiness))
    }

    fn refused(name: &str, error: ClientError) -> ChildOutcome {
        child(name, ChildState::Failed(Box::new(error)), None)
    }

    fn foreign() -> ClientError {
        OwnerError::NotControlled { object: key("x") }.into()
    }

    fn passing() -> ClientError {
        ClientError::OwnWritesUnseen {
            kind: Kind::of::<ConfigMap>(),
            waited: std::time::Duration::ZERO,
            unseen: Vec::new(),
        }
    }

    fn pruned(name: &str) -> ChildOutcome {
        ChildOutcome {
            pruned: true,
            ..child(name, ChildState::Deleting, Some(Readiness::Terminating))
        }
    }

    fn stuck(name: &str, error: ClientError) -> ChildOutcome {
        ChildOutcome {
            pruned: true,
            ..refused(name, error)
        }
    }

    /// Returns the statuses of `Ready`, `Reconciling` and `Stalled`, with `-` for an absent condition.
    fn statuses(outcome: &SetOutcome) -> [String; 3] {
        let mut conditions = Vec::new();
        outcome.set_conditions(&mut conditions, Some(3), Timestamp::UNIX_EPOCH);
        [READY, RECONCILING, STALLED].map(|type_| {
            let found = status_conditions::find(&conditions, type_);
            found.map_or_else(|| "-".to_owned(), |found| found.status.clone())
        })
    }

    #[test]
    fn the_conditions_follow_from_the_children() {
        let waiting = || {
            let after = vec![(Kind::of::<ConfigMap>(), key("b"))];
            child("w", ChildState::Waiting { after }, None)
        };
        let broken = || {
            let readiness = Readiness::Failed("broken".to_owned());
            child("f", ChildState::Unchanged, Some(readiness))
        };
        for (children, expected) in [
            (vec![], ["True", "-", "-"]),
            (vec![ready("a")], ["True", "-", "-"]),
            (vec![ready("a"), pruned("p")], ["True", "True", "-"]),
            (vec![ready("a"), in_progress("b")], ["False", "True", "-"]),
            (vec![in_progress("b"), waiting()], ["False", "True", "-"]),
            (vec![refused("e", passing())], ["False", "True", "-"]),
            (
                vec![refused("e", foreign()), in_progress("b")],
                ["False", "-", "True"],
            ),
            (vec![broken()], ["False", "-", "True"]),
            (
                vec![ready("a"), stuck("p", passing())],
                ["True", "True", "-"],
            ),
            (
                vec![ready("a"), stuck("p", foreign())],
                ["False", "-", "True"],
            ),
        ] {
            let outcome = outcome(children);
            assert_eq!(statuses(&outcome), expected, "{outcome:?}");
        }
    }

    #[test]
    fn the_message_names_three_children_and_the_failed_ones_first() {
        let all = outcome(vec![ready("a"), ready("b")]);
        assert_eq!(all.message(), "2 children are ready");
        let some = outcome(vec![
            ready("a"),
            in_progress("b"),
            in_progress("c"),
            in_progress("d"),
            refused("e", foreign()),
        ]);
        let message = some.message();
        assert!(
            message.starts_with("ConfigMap a/e failed: a/x exists"),
            "{message}"
        );
        let end = "; ConfigMap a/b is in progress: 1 of 2; ConfigMap a/c is in progress: 1 of 2; \
                   1 other child is not ready";
        assert!(message.ends_with(end), "{message}");
    }

    #[test]
    fn unchanged_children_give_unchanged_conditions() {
        let mut conditions = Vec::new();
        let at = |second| Timestamp::from_second(second).unwrap();
        outcome(vec![in_progress("a")]).set_conditions(&mut conditions, Some(1), at(1));
        let before = conditions.clone();
        outcome(vec![in_progress("a")]).set_conditions(&mut conditions, Some(1), at(2));
        assert_eq!(conditions, before);
        outcome(vec![ready("a")]).set_conditions(&mut conditions, Some(1), at(3));
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].last_transition_time, Time(at(3)));
        assert_eq!(conditions[0].observed_generation, Some(1));
    }

    #[test]
    fn the_first_failure_is_the_error_of_the_set() {
        let failed = outcome(vec![
            ready("a"),
            refused("b", passing()),
            refused("c", foreign()),
        ]);
        assert_eq!(failed.failures().count(), 2);
        let error = failed.into_result().unwrap_err();
        let text = report(&error).to_string();
        assert!(
            text.starts_with("ConfigMap.v1 a/b failed, and so did 1 other child"),
            "{text}"
        );
        assert!(outcome(vec![in_progress("a")]).into_result().is_ok());
        let kept = outcome(vec![in_progress("a")]).without_failures().unwrap();
        assert_eq!(kept.children.len(), 1);
    }
}
