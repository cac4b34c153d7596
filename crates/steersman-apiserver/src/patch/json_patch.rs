//! Machine: JSON patch (RFC 6902) with the liberties the Kubernetes API server takes.
//!
//! It differs from the RFC, and so from the usual crates: `replace` of an absent member adds it,
//! `copy` of an absent member copies null, an operation without `value` means null, and negative
//! array indices count from the end.

use serde_json::Value;

use crate::status::{Details, Status};

/// More operations than these are refused unread.
const MOST_OPERATIONS: usize = 10_000;

/// Applies a patch document to `object`.
///
/// # Errors
/// 400 for a document that is no list of operations; 422 for an operation that does not apply,
/// with the server's one message for all of them.
pub(crate) fn apply(object: &Value, document: Result<Value, String>) -> Result<Value, Status> {
    let undecodable =
        |message: String| Status::bad_request(format!("error decoding patch: {message}"));
    let operations = match document.map_err(undecodable)? {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => {
            let found = crate::schema::type_name(&other);
            return Err(undecodable(format!(
                "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                if found == "integer" || found == "boolean" {
                    "number"
                } else {
                    found
                }
            )));
        }
    };
    if operations.len() > MOST_OPERATIONS {
        let found = operations.len();
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {found}"
        );
        return Err(Status::failure(413, "RequestEntityTooLarge", message));
    }
    let mut patched = object.clone();
    for operation in &operations {
        one(&mut patched, operation).ok_or_else(refused)?;
    }
    Ok(patched)
}

fn refused() -> Status {
    let message = "the server rejected our request due to an error in our request";
    Status::failure(422, "Invalid", message).with_details(Details::default())
}

fn one(document: &mut Value, operation: &Value) -> Option<()> {
    let path = operation["path"].as_str()?;
    let from = || operation["from"].as_str();
    let value = operation["value"].clone();
    match operation["op"].as_str()? {
        "add" => add(document, path, value),
        "replace" => replace(document, path, value),
        "remove" => remove(document, path).map(|_| ()),
        "move" => {
            let moved = remove(document, from()?)?;
            add(document, path, moved)
        }
        "copy" => {
            let source = from()?;
            let (parent, last) = split(document, source)?;
            let copied = match parent {
                Value::Object(members) => members.get(&last).cloned().unwrap_or_default(),
                Value::Array(items) => items.get(index(&last, items.len())?)?.clone(),
                _ => return None,
            };
            add(document, path, copied)
        }
        "test" => {
            let found = if path.is_empty() {
                document.clone()
            } else {
                let (parent, last) = split(document, path)?;
                step(parent, &last).cloned().unwrap_or_default()
            };
            (found == value).then_some(())
        }
        _ => None,
    }
}

fn tokens(path: &str) -> Option<Vec<String>> {
    if path.is_empty() {
        return Some(Vec::new());
    }
    let rest = path.strip_prefix('/')?;
    Some(
        rest.split('/')
            .map(|token| token.replace("~1", "/").replace("~0", "~"))
            .collect(),
    )
}

/// The position of an existing element.
fn index(token: &str, length: usize) -> Option<usize> {
    let wanted: i64 = token.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if wanted < 0 { wanted + length } else { wanted };
    (0..length)
        .contains(&at)
        .then(|| usize::try_from(at).ok())?
}

fn step<'a>(value: &'a mut Value, token: &str) -> Option<&'a mut Value> {
    match value {
        Value::Object(members) => members.get_mut(token),
        Value::Array(items) => {
            let at = index(token, items.len())?;
            items.get_mut(at)
        }
        _ => None,
    }
}

/// The container that a path's last token is about.
fn split<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut tokens = tokens(path)?;
    let last = tokens.pop()?;
    let mut at = document;
    for token in tokens {
        at = step(at, &token)?;
    }
    Some((at, last))
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *document = value;
        return Some(());
    }
    let (parent, last) = split(document, path)?;
    match parent {
        Value::Object(members) => {
            members.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&last, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *document = value;
        return Some(());
    }
    let (parent, last) = split(document, path)?;
    match parent {
        Value::Object(members) => {
            members.insert(last, value);
        }
        Value::Array(items) => {
            let at = index(&last, items.len())?;
            *items.get_mut(at)? = value;
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = split(document, path)?;
    match parent {
        Value::Object(members) => members.remove(&last),
        Value::Array(items) => {
            let at = index(&last, items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(document: Value) -> Result<Value, u16> {
        let object = json!({"data": {"a": "1"}, "l": ["x", "y"], "n": {"e.com/x": 1}});
        apply(&object, Ok(document)).map_err(|status| status.code)
    }

    #[test]
    fn operations_apply_in_order() {
        let done = patched(json!([
            {"op": "add", "path": "/m", "value": {}},
            {"op": "add", "path": "/m/k", "value": 1},
            {"op": "replace", "path": "/data/b", "value": "2"},
            {"op": "move", "from": "/data/a", "path": "/data/c"},
            {"op": "copy", "from": "/data/zz", "path": "/data/n"},
            {"op": "add", "path": "/l/0", "value": "first"},
            {"op": "add", "path": "/l/-", "value": "last"},
            {"op": "replace", "path": "/l/-1", "value": "end"},
            {"op": "remove", "path": "/l/1"},
            {"op": "replace", "path": "/n/e.com~1x", "value": 2},
            {"op": "test", "path": "/m/k", "value": 1},
        ]));
        assert_eq!(
            done,
            Ok(
                json!({"data": {"b": "2", "c": "1", "n": null}, "m": {"k": 1},
                "l": ["first", "y", "end"], "n": {"e.com/x": 2}})
            )
        );
    }

    #[test]
    fn what_does_not_apply_is_refused() {
        for refused in [
            json!([{"op": "add", "path": "/none/a", "value": 1}]),
            json!([{"op": "remove", "path": "/data/zz"}]),
            json!([{"op": "replace", "path": "/none/zz", "value": 1}]),
            json!([{"op": "add", "path": "/l/3", "value": 1}]),
            json!([{"op": "replace", "path": "/l/2", "value": 1}]),
            json!([{"op": "remove", "path": "/l/-3"}]),
            json!([{"op": "remove", "path": "/l/-"}]),
            json!([{"op": "add", "path": "/l/abc", "value": 1}]),
            json!([{"op": "move", "path": "/l/0"}]),
            json!([{"op": "add", "value": 1}]),
            json!([{"op": "test", "path": "/data/a", "value": "2"}]),
            json!([{"op": "test", "path": "/none/zz", "value": null}]),
            json!([{"op": "jump", "path": "/data"}]),
            json!([7]),
        ] {
            assert_eq!(patched(refused.clone()), Err(422), "{refused}");
        }
    }

    #[test]
    fn a_document_that_is_no_list_is_a_bad_request() {
        let refused = apply(&json!({}), Ok(json!({"data": 1}))).unwrap_err();
        assert_eq!(
            refused.message,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert_eq!(
            apply(&json!({"a": 1}), Ok(Value::Null)),
            Ok(json!({"a": 1}))
        );
    }
}
