//! Machine: ConfigMaps, Secrets and ServiceAccounts (upstream: `pkg/apis/core/validation`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use steersman_apimachinery::json::parse as parse_json;

use crate::Strategy;
use crate::cluster::key_pair;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{list, put, set_text};

/// Largest number of bytes in the data of a ConfigMap or a Secret.
const LIMIT: usize = 1024 * 1024;

const SEALED: &str = "field is immutable when `immutable` is set";

pub(crate) const CONFIG_MAP: Strategy = Strategy {
    defaults: |object| drop_empty(object, &["data", "binaryData"]),
    validate: config_map,
    ..Strategy::PLAIN
};

pub(crate) const SECRET: Strategy = Strategy {
    defaults: secret_defaults,
    validate: secret,
    warnings: |new, _| secret_warnings(new),
    ..Strategy::PLAIN
};

/// Warns of a TLS Secret if its certificate and key do not belong together. Upstream: `warningsForSecret`.
fn secret_warnings(new: &Value) -> Vec<String> {
    if new["type"] != "kubernetes.io/tls" {
        return Vec::new();
    }
    let bytes = |key: &str| {
        let text = new["data"][key].as_str().unwrap_or_default();
        STANDARD.decode(text).unwrap_or_default()
    };
    let checked = key_pair::check(&bytes("tls.crt"), &bytes("tls.key"));
    checked.err().into_iter().collect()
}

pub(crate) const SERVICE_ACCOUNT: Strategy = Strategy {
    prepare: |account, _| {
        // Only the names of the secrets are stored (upstream: `cleanSecretReferences`).
        for secret in list(account, "secrets") {
            let name = secret["name"].clone();
            *secret = json!({});
            if !name.is_null() {
                put(secret, "name", name);
            }
        }
    },
    warnings: |new, old| {
        let has = |account: &Value| account["metadata"]["annotations"].get(MOUNTABLE).is_some();
        if !has(new) || old.is_some_and(has) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    },
    ..Strategy::PLAIN
};

/// The annotation that restricts the Pods of a ServiceAccount to the account's own Secrets.
const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

fn drop_empty(object: &mut Value, names: &[&str]) {
    if let Some(members) = object.as_object_mut() {
        for name in names {
            let found = members.get(*name).and_then(Value::as_object);
            if found.is_some_and(Map::is_empty) {
                members.remove(*name);
            }
        }
    }
}

/// Returns the number of bytes that a Base64 text decodes to.
fn decoded(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// Checks that an update of an object with `immutable: true` changes none of these fields.
fn sealed(object: &FieldPath<'_>, old: Option<&Value>, parts: &[&str], errors: &mut Errors) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    let seal = object.at("immutable");
    if !seal.flag() {
        errors.forbidden(&seal, SEALED);
    }
    for part in parts {
        if *object.at(part).value() != old[*part] {
            errors.forbidden(&object.at(part), SEALED);
        }
    }
}

fn keys(part: &FieldPath<'_>, errors: &mut Errors) {
    for (key, at) in part.entries() {
        for detail in check::config_key(key) {
            errors.invalid_as(&at, &json!(key), &detail);
        }
    }
}

fn config_map(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    sealed(&root, old, &["data", "binaryData"], &mut errors);
    let mut size = 0;
    for (key, at) in root.at("data").entries() {
        for detail in check::config_key(key) {
            errors.invalid_as(&at, &json!(key), &detail);
        }
        if object["binaryData"].get(key).is_some() {
            let detail = "duplicate of key present in binaryData";
            errors.invalid_as(&at, &json!(key), detail);
        }
        size += at.len();
    }
    keys(&root.at("binaryData"), &mut errors);
    let binary = root.at("binaryData");
    size += binary
        .entries()
        .map(|(_, at)| decoded(at.text()))
        .sum::<usize>();
    if size > LIMIT {
        // Upstream names the object itself with a nil path, which Go prints as `[]`.
        errors.too_long(&FieldPath::new("[]", object), LIMIT);
    }
    errors
}

fn secret_defaults(object: &mut Value) {
    set_text(object, "type", "Opaque");
    let Some(members) = object.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(plain)) = members.remove("stringData") {
        let data = members.entry("data").or_insert_with(|| json!({}));
        if let Some(data) = data.as_object_mut() {
            for (name, text) in plain {
                let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
                data.insert(name, Value::String(encoded));
            }
        }
    }
    drop_empty(object, &["data"]);
}

fn secret(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    if let Some(old) = old {
        check::immutable(&root.at("type"), &old["type"], &mut errors);
    }
    sealed(&root, old, &["data"], &mut errors);
    let data = root.at("data");
    keys(&data, &mut errors);
    let size: usize = data.entries().map(|(_, at)| decoded(at.text())).sum();
    if size > LIMIT {
        errors.too_long(&data, LIMIT);
    }
    secret_type(&root, &data, &mut errors);
    errors
}

/// Checks that a Secret of a well-known type has the keys of the type.
fn secret_type(root: &FieldPath<'_>, data: &FieldPath<'_>, errors: &mut Errors) {
    let absent = |key: &str| !data.key(key).is_set();
    let json = match root.at("type").text() {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            let note = root.down("metadata.annotations").key(name);
            if note.is_empty() {
                errors.required(&note, "");
            }
            return;
        }
        "kubernetes.io/basic-auth" => {
            if absent("username") && absent("password") {
                errors.required(&data.key("username"), "");
                errors.required(&data.key("password"), "");
            }
            return;
        }
        "kubernetes.io/ssh-auth" => {
            let key = data.key("ssh-privatekey");
            if key.is_empty() {
                errors.required(&key, "");
            }
            return;
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if absent(key) {
                    errors.required(&data.key(key), "");
                }
            }
            return;
        }
        "kubernetes.io/dockercfg" => ".dockercfg",
        "kubernetes.io/dockerconfigjson" => ".dockerconfigjson",
        _ => return,
    };
    let at = data.key(json);
    if !at.is_set() {
        errors.required(&at, "");
        return;
    }
    let bytes = STANDARD.decode(at.text()).unwrap_or_default();
    let wrong = match parse_json(&bytes) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(other) => Some(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_name(&other)
        )),
        Err(why) => Some(why),
    };
    if let Some(why) = wrong {
        errors.invalid_as(&at, &json!("<secret contents redacted>"), &why);
    }
}

/// Returns the type of a value as Go's decoder names it.
fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Null | Value::Object(_) => "object",
    }
}
