//! Machine: reads and changes the conditions in the status of an object.
//!
//! The rules are those of apimachinery's `meta.SetStatusCondition`: one condition per type, and `lastTransitionTime`
//! changes only with `status`. An unchanged state thus gives an unchanged list, which need not be written.

use std::fmt::Display;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::as_object::AsObject;
use crate::object::Object;

/// The condition type that tells whether an object is as its spec says (kstatus).
pub const READY: &str = "Ready";
/// The condition type that tells whether a controller works on an object, which then becomes ready without help
/// (kstatus).
pub const RECONCILING: &str = "Reconciling";
/// The condition type that tells whether an object needs help to become ready (kstatus).
pub const STALLED: &str = "Stalled";
/// The condition type that tells whether reconciling an object is paused (as in Cluster API).
pub const PAUSED: &str = "Paused";
/// The status of a condition that is met.
pub const TRUE: &str = "True";
/// The status of a condition that is not met.
pub const FALSE: &str = "False";
/// The status of a condition that is neither met nor not met.
pub const UNKNOWN: &str = "Unknown";

/// The longest message that the schema of a condition allows, in characters.
const LONGEST_MESSAGE: usize = 32_768;

/// An object type that has a list of conditions in its status.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// use kube_derive::CustomResource;
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use steersman_object::status_conditions::HasConditions;
///
/// #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
/// #[kube(group = "web.example.com", version = "v1", kind = "Website", namespaced)]
/// #[kube(status = "WebsiteStatus", crates(kube_core = "::kube_core"))]
/// struct WebsiteSpec {
///     image: String,
/// }
///
/// #[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
/// struct WebsiteStatus {
///     #[serde(default)]
///     conditions: Vec<Condition>,
/// }
///
/// impl HasConditions for Website {
///     fn conditions(&self) -> &[Condition] {
///         self.status.as_ref().map_or(&[], |status| &status.conditions)
///     }
///
///     fn conditions_mut(&mut self) -> &mut Vec<Condition> {
///         &mut self.status.get_or_insert_default().conditions
///     }
/// }
/// ```
pub trait HasConditions: Object {
    /// Returns the conditions; empty if the object has no status.
    fn conditions(&self) -> &[Condition];

    /// Returns the conditions for changes. Adds an empty status if the object has none.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
}

/// How far an object is, in the terms of
/// [kstatus](https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md), which kubectl-like tools
/// and delivery controllers use.
///
/// | | `Ready` | `Reconciling` | `Stalled` |
/// | --- | --- | --- | --- |
/// | `Current` | `True` | absent | absent |
/// | `InProgress`, `Terminating` | `False` | `True` | absent |
/// | `Failed` | `False` | absent | `True` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// The object is as its spec says.
    Current,
    /// A controller works on the object, which becomes current without help.
    InProgress,
    /// The object cannot become current without help.
    Failed,
    /// The object is being deleted.
    Terminating,
}

/// Makes a condition for an object: `observedGeneration` is the object's generation, and the transition time is `now`,
/// which [`set`] replaces if the status has not changed.
///
/// The message is cut at 32,768 characters, the limit of the schema.
pub fn condition<K: Object>(
    object: &impl AsObject<K>,
    type_: &str,
    status: &str,
    reason: &str,
    message: impl Display,
    now: Timestamp,
) -> Condition {
    let generation = object.as_object().meta().generation;
    condition_of(generation, type_, status, reason, message, now)
}

/// Makes a condition like [`condition`], for this generation.
pub fn condition_of(
    generation: Option<i64>,
    type_: &str,
    status: &str,
    reason: &str,
    message: impl Display,
    now: Timestamp,
) -> Condition {
    let mut message = message.to_string();
    if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
        message.truncate(end);
    }
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Time(now),
        observed_generation: generation,
    }
}

/// Returns the condition with this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|one| one.type_ == type_)
}

/// Returns whether the list has a condition of this type with the status `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|one| one.status == TRUE)
}

/// Returns whether the list has a condition of this type with the status `False`.
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|one| one.status == FALSE)
}

/// Adds a condition, or replaces the condition with its type; returns whether the list has changed.
///
/// With an unchanged status, the former transition time is kept, so `condition` may have the current time.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    let Some(present) = conditions
        .iter_mut()
        .find(|one| one.type_ == condition.type_)
    else {
        conditions.push(condition);
        return true;
    };
    if present.status == condition.status {
        condition.last_transition_time = present.last_transition_time.clone();
    }
    let is_changed = *present != condition;
    *present = condition;
    is_changed
}

/// Removes the condition with this type; returns whether the list had one.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|one| one.type_ != type_);
    conditions.len() < before
}

impl Progress {
    /// Returns the progress of an object by the generic rules of kstatus: a deletion outranks all conditions, a `Ready`
    /// condition of an earlier generation does not count, and an object without conditions is current.
    pub fn of<K: HasConditions>(object: &impl AsObject<K>) -> Self {
        let object = object.as_object();
        let conditions = object.conditions();
        let ready = find(conditions, READY);
        let observed = ready.and_then(|ready| ready.observed_generation);
        if object.is_being_deleted() {
            Self::Terminating
        } else if observed.is_some() && observed != object.meta().generation {
            Self::InProgress
        } else if is_true(conditions, STALLED) {
            Self::Failed
        } else if is_true(conditions, RECONCILING) || ready.is_some_and(|one| one.status != TRUE) {
            Self::InProgress
        } else {
            Self::Current
        }
    }

    /// Sets the conditions `Ready`, `Reconciling` and `Stalled` of an object; returns whether a condition has changed.
    pub fn set<K: HasConditions>(
        self,
        object: &mut K,
        reason: &str,
        message: impl Display,
        now: Timestamp,
    ) -> bool {
        let like = condition(object, READY, UNKNOWN, reason, message, now);
        self.set_in(object.conditions_mut(), &like)
    }

    /// Sets the conditions in a list like [`set`](Self::set), with the reason, the message, the generation and the time
    /// of `like`.
    pub fn set_in(self, conditions: &mut Vec<Condition>, like: &Condition) -> bool {
        let like = |type_: &str, status: &str| Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            ..like.clone()
        };
        let (ready, abnormal) = match self {
            Self::Current => (TRUE, None),
            Self::InProgress | Self::Terminating => (FALSE, Some(RECONCILING)),
            Self::Failed => (FALSE, Some(STALLED)),
        };
        let mut is_changed = set(conditions, like(READY, ready));
        for type_ in [RECONCILING, STALLED] {
            // kstatus expects `Reconciling` and `Stalled` to be absent unless they are true.
            is_changed |= match abnormal == Some(type_) {
                true => set(conditions, like(type_, TRUE)),
                false => remove(conditions, type_),
            };
        }
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use kube_derive::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;

    fn ready(status: &str, message: &str, second: i64) -> Condition {
        Condition {
            type_: READY.to_owned(),
            status: status.to_owned(),
            reason: "Tested".to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(Timestamp::from_second(second).unwrap()),
            observed_generation: None,
        }
    }

    #[test]
    fn the_transition_time_changes_with_the_status_only() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, ready(FALSE, "1 of 2", 10)));
        assert!(!set(&mut conditions, ready(FALSE, "1 of 2", 20)));
        assert!(set(&mut conditions, ready(FALSE, "2 of 2", 30)));
        assert_eq!(conditions, [ready(FALSE, "2 of 2", 10)]);
        assert!(is_false(&conditions, READY) && !is_true(&conditions, READY));
        assert!(set(&mut conditions, ready(TRUE, "2 of 2", 40)));
        assert_eq!(conditions, [ready(TRUE, "2 of 2", 40)]);
        assert!(is_true(&conditions, READY) && !is_false(&conditions, READY));
    }

    #[test]
    fn conditions_of_other_types_stay_where_they_are() {
        let other = Condition {
            type_: STALLED.to_owned(),
            ..ready(UNKNOWN, "", 5)
        };
        let mut conditions = vec![ready(FALSE, "", 1), other.clone()];
        assert!(set(&mut conditions, ready(TRUE, "", 9)));
        assert_eq!(conditions, [ready(TRUE, "", 9), other.clone()]);
        assert!(!is_true(&conditions, STALLED) && !is_false(&conditions, STALLED));
        assert!(remove(&mut conditions, READY));
        assert!(!remove(&mut conditions, READY));
        assert_eq!(conditions, [other]);
        assert_eq!(find(&conditions, READY), None);
    }

    #[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
    #[kube(status = "SiteStatus", crates(kube_core = "::kube_core"))]
    struct SiteSpec {}

    #[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
    struct SiteStatus {
        conditions: Vec<Condition>,
    }

    impl HasConditions for Site {
        fn conditions(&self) -> &[Condition] {
            self.status
                .as_ref()
                .map_or(&[], |status| &status.conditions)
        }

        fn conditions_mut(&mut self) -> &mut Vec<Condition> {
            &mut self.status.get_or_insert_default().conditions
        }
    }

    fn site(generation: i64) -> Site {
        let mut site = Site::new("site", SiteSpec {});
        site.metadata.generation = Some(generation);
        site
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn progress_is_read_as_it_was_set() {
        let table = [
            (Progress::Current, vec![(READY, TRUE)]),
            (
                Progress::InProgress,
                vec![(READY, FALSE), (RECONCILING, TRUE)],
            ),
            (Progress::Failed, vec![(READY, FALSE), (STALLED, TRUE)]),
        ];
        // Each progress follows each other progress, to show that no condition of the former stays.
        for (former, _) in &table {
            for (progress, expected) in &table {
                let mut site = site(3);
                former.set(&mut site, "Former", "", at(1));
                let is_changed = progress.set(&mut site, "Tested", "text", at(2));
                assert!(is_changed);
                let mut found: Vec<_> = site.conditions().iter().collect();
                found.sort_by_key(|one| one.type_ != READY);
                let found = found.iter().map(|one| (&*one.type_, &*one.status));
                assert_eq!(found.collect::<Vec<_>>(), *expected);
                assert_eq!(Progress::of(&site), *progress);
                let ready = find(site.conditions(), READY).unwrap();
                assert_eq!(ready.observed_generation, Some(3));
                assert!(!progress.set(&mut site, "Tested", "text", at(9)));
            }
        }
    }

    #[test]
    fn deletion_and_a_new_generation_go_before_conditions() {
        let mut object = site(3);
        assert_eq!(Progress::of(&object), Progress::Current);
        Progress::Failed.set(&mut object, "Tested", "", at(1));
        object.metadata.generation = Some(4);
        assert_eq!(Progress::of(&object), Progress::InProgress);
        object.metadata.deletion_timestamp = Some(Time(at(5)));
        assert_eq!(Progress::of(&object), Progress::Terminating);
    }

    #[test]
    fn a_message_is_cut_at_the_limit_of_the_schema() {
        let long = "ü".repeat(LONGEST_MESSAGE + 1);
        let cut = condition(&site(1), READY, TRUE, "Tested", &long, at(1));
        assert_eq!(cut.message.chars().count(), LONGEST_MESSAGE);
    }
}
