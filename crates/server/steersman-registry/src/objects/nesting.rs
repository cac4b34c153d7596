//! Machine: limits how deep JSON values in a stored object are nested, so that the JSON parser can read them back.

use serde_json::Value;
use steersman_apimachinery::status::Status;

/// Maximum number of levels of nesting in an object. Snapshots and the write-ahead log nest an object a few levels
/// deeper, and the JSON parser that reads them accepts 128 levels.
const MOST_LEVELS: usize = 100;

/// Refuses with 400 an object that is nested too deep to be read back after a restart (WAL-3).
pub(crate) fn check_nesting(object: &Value) -> Result<(), Status> {
    match is_within(object, MOST_LEVELS) {
        true => Ok(()),
        false => Err(Status::bad_request(format!(
            "the object is nested more than {MOST_LEVELS} levels deep, and could not be read back after a restart"
        ))),
    }
}

/// Returns whether a value has at most this number of levels of nesting. The recursion ends at `levels`, so it cannot
/// overflow the stack.
fn is_within(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        return false;
    };
    match value {
        Value::Object(members) => members.values().all(|member| is_within(member, below)),
        Value::Array(items) => items.iter().all(|item| is_within(item, below)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// WAL-3: an object that a restarted server could not read from its log is not stored in the first place.
    #[test]
    fn an_object_that_could_not_be_read_back_is_refused() {
        let nested = |levels: usize| (1..levels).fold(json!(1), |inner, _| json!({"a": inner}));
        assert!(check_nesting(&nested(MOST_LEVELS)).is_ok());
        let refused = check_nesting(&nested(MOST_LEVELS + 1)).unwrap_err();
        assert_eq!(refused.code, 400);
        let listed = (1..=MOST_LEVELS).fold(json!(1), |inner, _| json!([inner]));
        assert!(check_nesting(&listed).is_err());
    }
}
