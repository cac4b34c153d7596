//! Machine: the list `status.conditions` of an object.
//!
//! The rules are those of apimachinery's `meta.SetStatusCondition`: a list has one condition of each type, and
//! `lastTransitionTime` changes only with `status`. So an unchanged state gives an unchanged list, and a write of the
//! status that sends nothing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The type of the condition that an object is as its spec says (kstatus).
pub const READY: &str = "Ready";
/// The type of the condition that a controller is working on an object, and that it will become ready without help
/// (kstatus).
pub const RECONCILING: &str = "Reconciling";
/// The type of the condition that an object cannot become ready without help (kstatus).
pub const STALLED: &str = "Stalled";
/// The status of a condition that is met.
pub const TRUE: &str = "True";
/// The status of a condition that is not met.
pub const FALSE: &str = "False";
/// The status of a condition that is not known.
pub const UNKNOWN: &str = "Unknown";

/// Returns the condition of a type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|one| one.type_ == type_)
}

/// Returns whether the list has a condition of this type with the status `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|one| one.status == TRUE)
}

/// Returns whether the list has a condition of this type with the status `False`.
#[must_use]
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|one| one.status == FALSE)
}

/// Adds a condition to the list, or replaces the one of its type; returns whether the list changed.
///
/// The time of the former condition is kept if its status is the same, so `condition` carries the present time.
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

/// Removes the condition of a type; returns whether there was one.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|one| one.type_ != type_);
    conditions.len() < before
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

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
}
