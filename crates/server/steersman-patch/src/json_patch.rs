//! Machine: JSON patch (RFC 6902) with the deviations of kube-apiserver.
//!
//! The deviations, which common crates do not have: `replace` of an absent member adds it, `copy` of an absent member
//! copies null, an operation without `value` has the value null, and negative array indexes count from the end.

use serde_json::Value;
use steersman_apimachinery::status::{Details, Status};
use steersman_schema::types::type_word;

const MOST_OPERATIONS: usize = 10_000;

/// Maximum size, in bytes of JSON, of all values that one patch copies, as upstream. Without this limit, a chain of
/// copies could double the document at each step (SRV-3).
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// Maximum nesting of a patched document, the same as of a request body. Without this limit, operations could build a
/// document that overflows the stack when it is walked or dropped (SRV-3).
const MOST_NESTED: usize = 127;

/// Applies a JSON patch document to `object`.
///
/// # Errors
/// 400 for a document that is no list of operations; 422 for an operation that does not apply, with the one message
/// that kube-apiserver has for all such operations.
pub fn apply(object: &Value, document: Result<Value, String>) -> Result<Value, Status> {
    let undecodable =
        |message: String| Status::bad_request(format!("error decoding patch: {message}"));
    let operations = match document.map_err(undecodable)? {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(undecodable(not_of_type(&other, "[]handlers.jsonPatchOp"))),
    };
    if let Some(wrong) = operations.iter().find_map(mistyped) {
        return Err(undecodable(wrong));
    }
    if operations.len() > MOST_OPERATIONS {
        let found = operations.len();
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {found}"
        );
        return Err(Status::failure(413, "RequestEntityTooLarge", message));
    }
    let mut patched = object.clone();
    let mut copied = 0;
    for operation in &operations {
        one(&mut patched, operation, &mut copied).ok_or_else(refused)?;
    }
    Ok(patched)
}

/// A patch operation that does not apply.
#[derive(Debug)]
pub struct Inapplicable {
    /// Whether the operation is a `test`.
    pub is_test: bool,
    /// The message of evanphx/json-patch, the library of kube-apiserver.
    pub message: String,
}

/// Applies the operations of a JSON patch that a webhook or a policy returned.
///
/// # Errors
/// Returns the first operation that does not apply.
pub fn apply_operations(object: &Value, operations: &[Value]) -> Result<Value, Inapplicable> {
    let mut patched = object.clone();
    let mut copied = 0;
    for operation in operations {
        if mistyped(operation).is_some() || one(&mut patched, operation, &mut copied).is_none() {
            return Err(Inapplicable {
                is_test: operation["op"] == "test",
                message: why_inapplicable(operation),
            });
        }
    }
    Ok(patched)
}

fn why_inapplicable(operation: &Value) -> String {
    let text = |field: &str| operation[field].as_str().unwrap_or_default();
    let path = text("path");
    match text("op") {
        "add" => {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        }
        "remove" => {
            let key = path.rsplit('/').next().unwrap_or_default();
            format!(
                "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
            )
        }
        "replace" => {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        }
        "test" => format!("testing value {path} failed: test failed"),
        op @ ("move" | "copy") => {
            let from = text("from");
            format!(
                "{op} operation does not apply: doc is missing from path: {from}: missing value"
            )
        }
        other => format!("Unexpected kind: {other}"),
    }
}

/// Returns the unknown members of the operations, each in the form `[0].extra`.
pub fn unknown_members(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (index, operation) in document.as_array().into_iter().flatten().enumerate() {
        let names = operation.as_object().into_iter().flat_map(|one| one.keys());
        let unknown =
            names.filter(|name| !matches!(name.as_str(), "op" | "path" | "from" | "value"));
        found.extend(unknown.map(|name| format!("[{index}].{name}")));
    }
    found
}

/// Returns the message with which Go's decoder refuses a value that is no operation.
fn mistyped(operation: &Value) -> Option<String> {
    let members = match operation {
        Value::Object(members) => members,
        Value::Null => return None,
        other => return Some(not_of_type(other, "handlers.jsonPatchOp")),
    };
    let texts = ["op", "path", "from"].into_iter();
    let (name, value) = texts
        .filter_map(|name| Some((name, members.get(name)?)))
        .find(|(_, value)| !(value.is_string() || value.is_null()))?;
    let found = type_word(value);
    Some(format!(
        "json: cannot unmarshal {found} into Go struct field jsonPatchOp.{name} of type string"
    ))
}

/// Returns the message with which Go's decoder refuses a value that is not of a Go type.
pub(crate) fn not_of_type(value: &Value, go_type: &str) -> String {
    let found = type_word(value);
    format!("json: cannot unmarshal {found} into Go value of type {go_type}")
}

fn refused() -> Status {
    let message = "the server rejected our request due to an error in our request";
    Status::failure(422, "Invalid", message).with_details(Details::default())
}

/// Applies one operation. `copied` is the number of bytes that earlier copies added.
fn one(document: &mut Value, operation: &Value, copied: &mut usize) -> Option<()> {
    let path = operation["path"].as_str()?;
    let from = || operation["from"].as_str();
    let value = &operation["value"];
    match operation["op"].as_str()? {
        "add" if fits(value, depth(path)) => add(document, path, value.clone()),
        "replace" if fits(value, depth(path)) => replace(document, path, value.clone()),
        "remove" => remove(document, path).map(|_| ()),
        "move" => {
            let moved = remove(document, from()?)?;
            // A `move` to a path that is not deeper cannot exceed the maximum nesting.
            let same = depth(path) <= depth(from()?);
            (same || fits(&moved, depth(path))).then(|| add(document, path, moved))?
        }
        "copy" => {
            let (parent, last) = split(document, from()?)?;
            let source = match parent {
                Value::Object(members) => members.get(&last).unwrap_or(&Value::Null),
                Value::Array(items) => items.get(index(&last, items.len())?)?,
                _ => return None,
            };
            *copied += written(source, MOST_COPIED - *copied)?;
            let copy = fits(source, depth(path)).then(|| source.clone())?;
            add(document, path, copy)
        }
        "test" => {
            let found = if path.is_empty() {
                &*document
            } else {
                let (parent, last) = split(document, path)?;
                step(parent, &last).map_or(&Value::Null, |found| &*found)
            };
            (found == value).then_some(())
        }
        _ => None,
    }
}

/// Returns the length of a value as JSON, or `None` if it is more than `room` bytes.
fn written(value: &Value, room: usize) -> Option<usize> {
    struct Room(usize);
    impl std::io::Write for Room {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let left = self.0.checked_sub(bytes.len());
            self.0 = left.ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut left = Room(room);
    serde_json::to_writer(&mut left, value).ok()?;
    Some(room - left.0)
}

/// Returns the number of containers around the value that a path names.
fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// Returns whether a value below `above` containers is within the maximum nesting.
fn fits(value: &Value, above: usize) -> bool {
    let inside = |one: &Value| fits(one, above + 1);
    match value {
        Value::Object(members) => above < MOST_NESTED && members.values().all(inside),
        Value::Array(items) => above < MOST_NESTED && items.iter().all(inside),
        _ => above <= MOST_NESTED,
    }
}

/// Splits a path into its tokens; `None` for a path without a slash. As in `findObject` of upstream's library
/// (evanphx/json-patch, v4), the text before the first slash is ignored.
fn tokens(path: &str) -> Option<Vec<String>> {
    let (_, rest) = path.split_once('/')?;
    let token = |token: &str| token.replace("~1", "/").replace("~0", "~");
    Some(rest.split('/').map(token).collect())
}

/// Parses a token as the index of an existing element of a list; `length` is the length of the list.
fn index(token: &str, length: usize) -> Option<usize> {
    let wanted: i64 = token.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if wanted < 0 { wanted + length } else { wanted };
    usize::try_from(at).ok().filter(|_| at < length)
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

/// Returns the container that the last token of a path is a member of, and this token.
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

/// Replaces a value. Only this operation and `test` accept the path of the whole document.
fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        let whole = matches!(value, Value::Object(_) | Value::Array(_));
        return whole.then(|| *document = value);
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
    fn an_operation_that_does_not_apply_is_refused() {
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
        ] {
            assert_eq!(patched(refused.clone()), Err(422), "{refused}");
        }
        for (document, message) in [
            (
                json!([7]),
                "error decoding patch: json: cannot unmarshal number into Go value of type \
                 handlers.jsonPatchOp",
            ),
            (
                json!([null, {"op": true}]),
                "error decoding patch: json: cannot unmarshal bool into Go struct field \
                 jsonPatchOp.op of type string",
            ),
        ] {
            assert_eq!(
                apply(&json!({}), Ok(document)).unwrap_err().message,
                message
            );
        }
        let odd = json!([{"op": "add", "path": "/a", "extra": 1}]);
        assert_eq!(unknown_members(&odd), ["[0].extra"]);
    }

    /// SRV-3: a copy of a container that holds earlier copies doubles the document.
    #[test]
    fn copies_do_not_grow_without_bound() {
        let doubling = |copies: usize| {
            let mut operations =
                vec![json!({"op": "add", "path": "/data/a", "value": "0123456789"})];
            operations
                .extend((0..copies).map(
                    |n| json!({"op": "copy", "from": "/data", "path": format!("/data/c{n}")}),
                ));
            Value::Array(operations)
        };
        let doubled = patched(doubling(17)).unwrap().to_string().len();
        assert!((1 << 21..1 << 22).contains(&doubled), "{doubled}");
        assert_eq!(patched(doubling(18)), Err(422));
        assert_eq!(patched(doubling(60)), Err(422));
        // The sizes of many small copies are added up.
        let value = "x".repeat(1 << 20);
        let some = |copies: usize| {
            let copy = json!({"op": "copy", "from": "/data/a", "path": "/data/b"});
            let mut operations = vec![json!({"op": "add", "path": "/data/a", "value": value})];
            operations.extend(std::iter::repeat_n(copy, copies));
            Value::Array(operations)
        };
        assert!(patched(some(2)).is_ok());
        assert_eq!(patched(some(3)), Err(422));
    }

    /// SRV-3: operations cannot nest values deeper than a request body may.
    #[test]
    fn operations_do_not_nest_without_bound() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inside, _| json!({"a": inside}));
        let below = |levels: usize| "/a".repeat(levels);
        let twice = |levels: usize| {
            json!([
                {"op": "add", "path": "/a", "value": nested(100)},
                {"op": "copy", "from": below(101 - levels), "path": below(101)},
            ])
        };
        let deep = patched(twice(26)).unwrap();
        let read: Result<Value, _> = serde_json::from_str(&deep.to_string());
        assert_eq!(read.unwrap(), deep);
        assert_eq!(patched(twice(27)), Err(422));
        let moved = json!([
            {"op": "add", "path": "/a", "value": nested(100)},
            {"op": "add", "path": "/b", "value": nested(100)},
            {"op": "move", "from": "/b", "path": below(101)},
        ]);
        assert_eq!(patched(moved), Err(422));
        let over = json!([
            {"op": "add", "path": "/a", "value": nested(100)},
            {"op": "replace", "path": below(101), "value": nested(100)},
        ]);
        assert_eq!(patched(over), Err(422));
        let root = json!([{"op": "replace", "path": "", "value": nested(200)}]);
        assert_eq!(patched(root), Err(422));
    }

    #[test]
    fn only_replace_and_test_accept_the_whole_document() {
        let one = |op: &str, path: &str, value: Value| {
            patched(json!([{"op": op, "path": path, "value": value}]))
        };
        assert_eq!(one("replace", "", json!({})), Ok(json!({})));
        assert_eq!(one("replace", "", json!("x")), Err(422));
        assert_eq!(one("add", "", json!({})), Err(422));
        let beside = one("add", "data/b", json!(1)).unwrap();
        assert_eq!(
            (&beside["b"], &beside["data"]["b"]),
            (&json!(1), &Value::Null)
        );
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
