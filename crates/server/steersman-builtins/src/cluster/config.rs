//! Machine: ConfigMaps, Secrets and ServiceAccounts (upstream: `pkg/apis/core/validation`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use steersman_apimachinery::json::parse as parse_json;
use steersman_schema::types::type_word;

use crate::Strategy;
use crate::cluster::key_pair;
use crate::fields::fill::{list, put, set_text};
use crate::fields::{FieldPath, check};

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
    warn: |new, _| warn_of_secret(new),
    ..Strategy::PLAIN
};

/// Warns of a TLS Secret if its certificate and key do not belong together. Upstream: `warningsForSecret`.
fn warn_of_secret(new: &FieldPath<'_>) {
    let data = new.at("data");
    let bytes = |key| STANDARD.decode(data.key(key).text()).unwrap_or_default();
    if new.at("type").text() == "kubernetes.io/tls"
        && let Err(why) = key_pair::check(&bytes("tls.crt"), &bytes("tls.key"))
    {
        new.warn_as(&why);
    }
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
    warn: |new, old| {
        let has = |account: &Value| account["metadata"]["annotations"].get(MOUNTABLE).is_some();
        if has(new.value()) && !old.is_some_and(has) {
            let note = new.down("metadata.annotations").key(MOUNTABLE);
            note.warn("deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets");
        }
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

/// Returns the number of bytes that the Base64 texts in a map decode to.
fn decoded_size(texts: &FieldPath<'_>) -> usize {
    let decoded = |(_, at): (&str, FieldPath<'_>)| {
        let padding = at.text().bytes().rev().take_while(|b| *b == b'=').count();
        (at.text().len() / 4 * 3).saturating_sub(padding)
    };
    texts.entries().map(decoded).sum()
}

/// Checks that an update of an object with `immutable: true` changes none of these fields.
fn sealed(object: &FieldPath<'_>, old: Option<&Value>, parts: &[&str]) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    let seal = object.at("immutable");
    if !seal.flag() {
        seal.forbidden(SEALED);
    }
    for part in parts {
        if *object.at(part).value() != old[*part] {
            object.at(part).forbidden(SEALED);
        }
    }
}

fn keys(part: &FieldPath<'_>) {
    for (key, at) in part.entries() {
        check::config_key(&at, key);
    }
}

fn config_map(root: &FieldPath<'_>, old: Option<&Value>) {
    sealed(root, old, &["data", "binaryData"]);
    let mut size = 0;
    for (key, at) in root.at("data").entries() {
        check::config_key(&at, key);
        if root.value()["binaryData"].get(key).is_some() {
            at.invalid_as(key, "duplicate of key present in binaryData");
        }
        size += at.len();
    }
    let binary = root.at("binaryData");
    keys(&binary);
    size += decoded_size(&binary);
    if size > LIMIT {
        // Upstream names the object itself with a nil path, which Go prints as `[]`.
        root.shown_at("[]", root.value()).too_long(LIMIT);
    }
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

fn secret(root: &FieldPath<'_>, old: Option<&Value>) {
    check::immutable(&root.at("type"), old.map(|old| &old["type"]));
    sealed(root, old, &["data"]);
    let data = root.at("data");
    keys(&data);
    if decoded_size(&data) > LIMIT {
        data.too_long(LIMIT);
    }
    secret_type(root, &data);
}

/// Checks that a Secret of a well-known type has the keys of the type.
fn secret_type(root: &FieldPath<'_>, data: &FieldPath<'_>) {
    let absent = |key: &str| !data.key(key).is_set();
    let json = match root.at("type").text() {
        "kubernetes.io/service-account-token" => {
            let notes = root.down("metadata.annotations");
            return notes.key("kubernetes.io/service-account.name").need("");
        }
        "kubernetes.io/basic-auth" => {
            if absent("username") && absent("password") {
                data.key("username").required("");
                data.key("password").required("");
            }
            return;
        }
        "kubernetes.io/ssh-auth" => return data.key("ssh-privatekey").need(""),
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if absent(key) {
                    data.key(key).required("");
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
        return at.required("");
    }
    let bytes = STANDARD.decode(at.text()).unwrap_or_default();
    let why = match parse_json(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            type_word(&other)
        ),
        Err(why) => why,
    };
    at.invalid_as("<secret contents redacted>", &why);
}
