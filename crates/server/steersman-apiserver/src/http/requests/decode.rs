//! Machine: parses request bodies into JSON values. A body that does not parse is refused in the words of Go's parser.

use serde_json::Value;
use steersman_apimachinery::json::{self, unreadable_kind};
use steersman_apimachinery::status::Status;
use steersman_apimachinery::{go, yaml};
use steersman_protobuf::Envelope;
use steersman_registry::DeleteOptions;
use steersman_schema::types::type_word;

use crate::http::requests::negotiate::Format;

/// The place in the source of Kubernetes that kube-apiserver names when it refuses delete options of an unknown kind.
const SCHEME: &str = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";

/// Maximum length of a request body, in bytes: 3 MiB, as in kube-apiserver.
pub(crate) const LIMIT: usize = 3 * 1024 * 1024;

/// Parses the object in the body of a create or an update; `null` is an empty object.
pub(crate) fn object(body: &[u8], format: Format, kind: &str) -> Result<Value, Status> {
    let refuse = |why: String| unrecognized(body, kind, &why);
    if format == Format::Protobuf {
        let envelope = Envelope::open(body).map_err(refuse)?;
        let read = envelope.object();
        return read.map_err(|why| mishandled(&envelope, kind, &why));
    }
    let value = parse(body, format).map_err(refuse)?;
    match value {
        Value::Object(_) => match unreadable_kind(&value) {
            Some(why) => Err(refuse(why)),
            None => Ok(value),
        },
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        other => Err(refuse(no_object(&other))),
    }
}

fn no_object(value: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of \
         type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
         \"json:\\\"kind,omitempty\\\"\" }}",
        type_word(value)
    )
}

fn unrecognized(body: &[u8], kind: &str, why: &str) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({})",
        excerpt(body)
    ))
}

fn mishandled(envelope: &Envelope<'_>, kind: &str, why: &str) -> Status {
    let version = envelope.api_version.rsplit('/').next().unwrap_or_default();
    Status::bad_request(format!(
        "{} in version {} cannot be handled as a {kind}: {why}",
        envelope.kind,
        go::quote(version)
    ))
}

/// Builds the refusal of a custom resource in protobuf, for which Kubernetes has no protobuf messages.
pub(crate) fn no_message(body: &[u8], kind: &str) -> Status {
    const WHY: &str = "object *unstructured.Unstructured does not implement the protobuf \
                       marshalling interface and cannot be encoded to a protobuf message";
    match Envelope::open(body) {
        Ok(envelope) => mishandled(&envelope, kind, WHY),
        Err(why) => unrecognized(body, kind, &why),
    }
}

pub(crate) fn kind_is_missing(body: &[u8], kind: &str) -> Status {
    let whole = String::from_utf8_lossy(body);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in \
         '{whole}' ({})",
        excerpt(body)
    ))
}

/// Parses the options in the body of a delete; `None` for an empty body and for `null`.
pub(crate) fn delete_options(body: &[u8], format: Format) -> Result<Option<DeleteOptions>, String> {
    if body.is_empty() {
        return Ok(None);
    }
    let value = parse(body, format)?;
    if value.is_null() {
        return Ok(None);
    }
    if !value.is_object() {
        return Err(no_object(&value));
    }
    if let Some(why) = unreadable_kind(&value) {
        return Err(why);
    }
    let kind = value["kind"].as_str().unwrap_or_default();
    let version = value["apiVersion"].as_str().unwrap_or_default();
    if version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {version}"));
    }
    match kind {
        // Upstream registers `DeleteOptions` in every group version, even in versions that are not served
        // (`addToGroupVersion` of apimachinery's internalversion scheme).
        "" | "DeleteOptions" => {}
        "CreateOptions" | "UpdateOptions" | "Status" | "APIVersions" | "APIGroup"
        | "APIGroupList" | "APIResourceList" => {
            let short = version.rsplit('/').next().unwrap_or_default();
            return Err(format!(
                "converting ({short}.{kind}) to (v1.DeleteOptions): unknown conversion"
            ));
        }
        _ => {
            let version = match version {
                "" => "meta.k8s.io/v1",
                version => version,
            };
            return Err(format!(
                "no kind {} is registered for version {} in scheme {SCHEME:?}",
                go::quote(kind),
                go::quote(version)
            ));
        }
    }
    if let Some(why) = mistyped_options(&value) {
        return Err(why);
    }
    let options = serde_json::from_value(value);
    options.map(Some).map_err(|error| error.to_string())
}

/// Returns Go's message about the first delete option with a value of the wrong type; `None` if there is none.
fn mistyped_options(value: &Value) -> Option<String> {
    const FIELDS: &[(&str, &str)] = &[
        ("gracePeriodSeconds", "int64"),
        ("orphanDependents", "bool"),
        ("propagationPolicy", "v1.DeletionPropagation"),
        ("dryRun", "[]string"),
        ("preconditions", "v1.Preconditions"),
        ("ignoreStoreReadErrorWithClusterBreakingPotential", "bool"),
    ];
    let refuse = |owner: &str, path: &str, found: &Value, wanted: &str| {
        let found = match found {
            Value::Number(number) if wanted == "int64" => format!("number {number}"),
            other => type_word(other).to_owned(),
        };
        format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}"
        )
    };
    for (field, wanted) in FIELDS {
        let Some(found) = value.get(field).filter(|found| !found.is_null()) else {
            continue;
        };
        let fits = match *wanted {
            "int64" => found.is_i64(),
            "bool" => found.is_boolean(),
            "[]string" => found.is_array(),
            "v1.Preconditions" => found.is_object(),
            _ => found.is_string(),
        };
        if !fits {
            return Some(refuse("DeleteOptions", field, found, wanted));
        }
        let is_odd = |one: &&Value| !one.is_string() && !one.is_null();
        if let Some(odd) = found.as_array().into_iter().flatten().find(is_odd) {
            return Some(refuse("DeleteOptions", field, odd, "string"));
        }
        for (inner, wanted) in [("uid", "types.UID"), ("resourceVersion", "string")] {
            if let Some(odd) = found.get(inner).filter(is_odd) {
                let path = format!("{field}.{inner}");
                return Some(refuse("Preconditions", &path, odd, wanted));
            }
        }
    }
    None
}

fn parse(body: &[u8], format: Format) -> Result<Value, String> {
    match format {
        // SRV-3: `serde_json` limits the nesting of values, and returns an error for a body that is nested more deeply.
        Format::Json => json::parse(body)
            .map_err(|why| format!("couldn't get version/kind; json parse error: {why}")),
        Format::Yaml => yaml::parse(body),
        Format::Protobuf => Envelope::open(body)?.object(),
    }
}

/// Returns the first 30 bytes of a body, for error messages: as text if the body looks like JSON, else in hexadecimal.
fn excerpt(body: &[u8]) -> String {
    const LONGEST: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let head = body.get(..LONGEST).filter(|_| body.len() > LONGEST);
    let (shown, more) = head.map_or((body, ""), |head| (head, " ..."));
    if body.starts_with(b"{") {
        return format!("{}{more}", String::from_utf8_lossy(shown));
    }
    let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str, format: Format) -> String {
        object(body.as_bytes(), format, "ConfigMap")
            .unwrap_err()
            .message
    }

    #[test]
    fn refusals_of_bad_bodies_are_worded_as_recorded() {
        let json = |body| refusal(body, Format::Json);
        let head = "the object provided is unrecognized (must be of type ConfigMap): couldn't get \
                    version/kind; json parse error: ";
        assert_eq!(
            json(r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x""#),
            format!(r#"{head}unexpected end of JSON input ({{"apiVersion": "v1", "kind": " ...)"#)
        );
        assert_eq!(
            json("not json at all"),
            format!(
                "{head}invalid character 'o' in literal null (expecting 'u') \
                 (6e6f74206a736f6e20617420616c6c)"
            )
        );
        assert_eq!(
            json(""),
            format!("{head}unexpected end of JSON input (<empty>)")
        );
        assert!(json("[1,2]").contains("cannot unmarshal array into Go value"));
        assert!(
            json("{bad")
                .contains("invalid character 'b' looking for beginning of object key string")
        );
    }

    #[test]
    fn yaml_bodies_parse_or_are_refused() {
        let body = b"a: [1, x]\nb: \"1\"\n";
        let read = object(body, Format::Yaml, "ConfigMap").unwrap();
        assert_eq!(read, serde_json::json!({"a": [1, "x"], "b": "1"}));
        assert_eq!(
            refusal("a: b: c", Format::Yaml),
            "the object provided is unrecognized (must be of type ConfigMap): yaml: mapping values \
             are not allowed in this context (613a20623a2063)"
        );
    }

    #[test]
    fn delete_options_of_other_kinds_are_refused() {
        let read = |body: &str| delete_options(body.as_bytes(), Format::Json);
        assert!(read("").unwrap().is_none());
        let options =
            read(r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"x":1}"#);
        assert_eq!(options.unwrap().unwrap().grace_period_seconds, Some(0));
        assert!(read(r#"{"kind":"ConfigMap","apiVersion":"v1"}"#).is_err());
        assert_eq!(
            read(r#"{"gracePeriodSeconds":"x"}"#).unwrap_err(),
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds \
             of type int64"
        );
        assert_eq!(
            read(r#"{"preconditions":{"uid":5}}"#).unwrap_err(),
            "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of \
             type types.UID"
        );
        assert!(read(r#"{"apiVersion":"apps/v1"}"#).unwrap().is_some());
        let unserved = read(r#"{"kind":"DeleteOptions","apiVersion":"apps/v7","dryRun":["All"]}"#);
        assert_eq!(unserved.unwrap().unwrap().dry_run, ["All"]);
        for (body, why) in [
            (
                r#"{"kind":"Pod","apiVersion":"apps/v7"}"#,
                "no kind \"Pod\" is registered for version \"apps/v7\" in scheme \
                 \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
            ),
            (
                r#"{"kind":"CreateOptions","apiVersion":"apps/v7"}"#,
                "converting (v7.CreateOptions) to (v1.DeleteOptions): unknown conversion",
            ),
            (
                r#"{"apiVersion":"a/b/c"}"#,
                "unexpected GroupVersion string: a/b/c",
            ),
        ] {
            assert_eq!(read(body).unwrap_err(), why);
        }
        assert!(read("[]").unwrap_err().contains("cannot unmarshal array"));
        assert_eq!(
            read("{bad").unwrap_err(),
            "couldn't get version/kind; json parse error: invalid character 'b' looking for \
             beginning of object key string"
        );
    }

    #[test]
    fn no_body_makes_the_decoder_panic() {
        for body in [
            &b"\xff\xfe"[..],
            b"{\"a\":\"\xc3\"}",
            b"\n\n\n{",
            b"nulx",
            b"'",
            b"{\"a\" 1}",
            b"[1 2]",
        ] {
            let _ = object(body, Format::Json, "X");
            let _ = object(body, Format::Yaml, "X");
            let _ = delete_options(body, Format::Json);
        }
    }
}
