//! Machine: decodes objects from JSON, with errors that name the field.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes the JSON of one object.
///
/// # Errors
///
/// The problem with the path of the field: `spec.replicas: invalid type …`. Without `quotes`, the text is that of
/// [`json_error_position`], because an error may quote a value, such as that of a Secret.
pub fn decode_json<K: DeserializeOwned>(json: &[u8], quotes: bool) -> Result<K, String> {
    // One UTF-8 check of the whole text replaces a check per string. Invalid UTF-8 goes to the byte parser, which
    // accepts it in fields that `K` lacks.
    let decoded = match simdutf8::basic::from_utf8(json) {
        Ok(json) => serde_json::from_str::<K>(json),
        Err(_) => serde_json::from_slice::<K>(json),
    };
    decoded.map_err(|error| {
        if !quotes {
            return json_error_position(&error);
        }
        with_path::<K>(json).unwrap_or_else(|| error.to_string())
    })
}

/// Decodes one object from a JSON value.
///
/// # Errors
///
/// The errors of [`decode_json`]. The value is only written as text for an error.
pub fn decode_value<K: DeserializeOwned>(value: &Value, quotes: bool) -> Result<K, String> {
    K::deserialize(value).or_else(|_| decode_json(value.to_string().as_bytes(), quotes))
}

/// Returns the string in a JSON value; empty if the value is not a string.
#[must_use]
pub fn json_text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the items of a JSON array; empty if the value is not an array.
pub fn json_items(value: &Value) -> std::slice::Iter<'_, Value> {
    value
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
}

/// Returns the decoding error of these bytes with the path of the field: `spec.replicas: …`.
///
/// The bytes are decoded a second time, so that valid objects do not pay for recording the path.
fn with_path<K: DeserializeOwned>(bytes: &[u8]) -> Option<String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let error = serde_path_to_error::deserialize::<_, K>(&mut deserializer).err()?;
    let path = error.path().to_string();
    // The path `.` is the object itself.
    (path != ".").then(|| format!("{path}: {}", error.inner()))
}

/// Returns the class and the position of a JSON error without any content: `it is not JSON (line 1, column 7)`.
pub fn json_error_position(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Io => "it cannot be read",
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Data => "it has another shape",
        serde_json::error::Category::Eof => "it ends too early",
    };
    format!("{what} (line {}, column {})", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_error_names_the_field_or_only_its_position() {
        #[derive(Debug, serde::Deserialize)]
        struct Spec {
            #[expect(dead_code, reason = "only decoded")]
            replicas: u8,
        }
        #[derive(Debug, serde::Deserialize)]
        struct Sized {
            #[expect(dead_code, reason = "only decoded")]
            spec: Spec,
        }
        let json = br#"{"spec":{"replicas":"secret"}}"#;
        let quoted = decode_json::<Sized>(json, true).unwrap_err();
        assert!(
            quoted.starts_with("spec.replicas: invalid type"),
            "{quoted}"
        );
        let position = decode_json::<Sized>(json, false).unwrap_err();
        assert_eq!(position, "it has another shape (line 1, column 28)");
        let value = serde_json::from_slice(json).unwrap();
        assert_eq!(decode_value::<Sized>(&value, true).unwrap_err(), quoted);
        let broken = decode_json::<Sized>(b"{", false).unwrap_err();
        assert_eq!(broken, "it ends too early (line 1, column 1)");
    }

    proptest! {
        #[test]
        fn an_object_is_taken_where_a_parser_of_bytes_takes_it(
            edits in prop::collection::vec((0..90_usize, prop::sample::select(&b"{}[]\",:\\ u1n\xff\xc3\xa9\0"[..])), 0..3),
        ) {
            let json = r#"{"metadata":{"name":"é"},"data":{"k":"\u00e9\ud834\udd1e"},"other":["é\ud800"]}"#;
            let mut json = json.as_bytes().to_vec();
            for (at, byte) in edits {
                let at = at % json.len();
                json[at] = byte;
            }
            let decoded = decode_json::<ConfigMap>(&json, true);
            let bytes = serde_json::from_slice::<ConfigMap>(&json);
            prop_assert_eq!(decoded.ok(), bytes.ok());
        }
    }
}
