//! Machine: hides the values of Secrets.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;
use steersman_apimachinery::secret_values::{
    LAST_APPLIED, SECRET, hide, hide_applied, hide_below, is_secret, plain_bytes, replacement,
    secret_member,
};

use crate::finding::{Finding, Problem};
use crate::object_id::ObjectId;
use crate::scenario::Step;
use crate::world_event::WorldEventKind;

/// The values of Secrets that the world of a finding shows. They are replaced in texts that the operator or a driver
/// wrote, such as the last lines that a process printed.
#[derive(Debug, Default)]
pub(crate) struct SecretValues {
    /// Each value with its replacement. A longer value, of which a shorter one may be a part, comes first.
    values: BTreeMap<(Reverse<usize>, String), String>,
}

/// The length, in bytes, from which a value is replaced in other texts. A shorter value, such as `shop`, is also a
/// part of names.
const SHORTEST: usize = 8;

/// The length, in bytes, from which a line of a value is replaced by itself.
const SHORTEST_LINE: usize = 16;

impl SecretValues {
    /// Collects the values of the Secrets in the steps, in the events and in a changed field.
    pub(crate) fn of(finding: &Finding) -> Self {
        let mut known = Self::default();
        for step in &finding.steps {
            match step {
                Step::Apply { objects, .. } => objects.iter().for_each(|one| known.add(one, "")),
                Step::Merge { object, patch, .. } => known.add(patch, &object.kind),
                _ => {}
            }
        }
        for event in &finding.events {
            let WorldEventKind::Wrote {
                change: Some(change),
                ..
            } = &event.what
            else {
                continue;
            };
            for object in [&change.before, &change.after].into_iter().flatten() {
                known.add(object, &change.id.kind);
            }
        }
        if let Problem::ChangedConstant {
            object,
            field,
            before,
            after,
        } = &finding.problem
            && let Some(member) = member_of_field(object, field)
        {
            known.add_below(member, before);
            known.add_below(member, after);
        }
        known
    }

    /// Replaces the values in a text.
    pub(crate) fn hide_in(&self, text: &str) -> String {
        let mut hidden = text.to_owned();
        for ((_, value), replacement) in &self.values {
            if hidden.contains(value.as_str()) {
                hidden = hidden.replace(value.as_str(), replacement);
            }
        }
        hidden
    }

    fn add(&mut self, value: &Value, kind: &str) {
        match value {
            Value::Object(members) => {
                let is_secret = is_secret(members, kind);
                for (name, member) in members {
                    match secret_member(name).filter(|_| is_secret) {
                        Some(name) => self.add_below(name, member),
                        None => self.add(member, ""),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item, "")),
            _ => {}
        }
    }

    fn add_below(&mut self, member: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                members
                    .values()
                    .for_each(|inner| self.add_below(member, inner));
            }
            Value::Array(items) => items.iter().for_each(|inner| self.add_below(member, inner)),
            Value::String(text) => {
                let replacement = replacement(member, value);
                let plain = plain_bytes(member, text);
                let plain = String::from_utf8(plain).unwrap_or_default();
                let escaped = Value::from(plain.as_str()).to_string();
                let escaped = escaped.trim_matches('"').to_owned();
                let lines = plain
                    .lines()
                    .map(str::trim)
                    .filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----"));
                let parts: Vec<String> = lines.map(str::to_owned).collect();
                let whole = [text.clone(), escaped, plain.trim().to_owned(), plain];
                let long = whole
                    .into_iter()
                    .chain(parts)
                    .filter(|one| one.len() >= SHORTEST);
                self.values
                    .extend(long.map(|one| ((Reverse(one.len()), one), replacement.clone())));
            }
            _ => {}
        }
    }
}

/// Returns the value of a field of an object without the values of Secrets.
pub(crate) fn hide_field(object: &ObjectId, field: &str, value: &Value) -> Value {
    match member_of_field(object, field) {
        Some(member) => hide_below(member, value),
        None if object.kind == SECRET => hide_applied(value),
        None => hide(value, ""),
    }
}

/// Returns the member of a Secret with values that a field belongs to. A copy of the whole object counts as well.
fn member_of_field(object: &ObjectId, field: &str) -> Option<&'static str> {
    if object.kind != SECRET {
        return None;
    }
    if field.contains(LAST_APPLIED) {
        return Some("stringData");
    }
    let end = field.find(['.', '[']).unwrap_or(field.len());
    secret_member(&field[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret() -> ObjectId {
        ObjectId::of(&json!({"kind": "Secret", "metadata": {"namespace": "shop", "name": "a"}}))
    }

    #[test]
    fn a_field_of_a_secret_is_hidden_by_its_path() {
        for (field, value) in [
            ("data.password", json!("hunter22")),
            ("data", json!({"password": "hunter22"})),
            ("stringData[\"a.b\"]", json!("hunter22")),
            ("metadata.annotations", json!({LAST_APPLIED: "hunter22"})),
            (
                "metadata.annotations[\"kubectl.kubernetes.io/last-applied-configuration\"]",
                json!("hunter22"),
            ),
        ] {
            let hidden = hide_field(&secret(), field, &value).to_string();
            assert!(!hidden.contains("hunter22"), "{field}");
        }
        assert_eq!(
            hide_field(&secret(), "type", &json!("Opaque")),
            json!("Opaque")
        );
        let mut map = secret();
        map.kind = "ConfigMap".to_owned();
        assert_eq!(hide_field(&map, "data.a", &json!("kept")), json!("kept"));
    }

    #[test]
    fn values_are_replaced_in_other_texts() {
        let mut known = SecretValues::default();
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----\n";
        known.add(&json!({"stringData": {"a": "hunter22", "b": "shop", "c": "say \"hunter22\"", "d": key}}), "Secret");
        known.add(&json!({"data": {"a": "aHVudGVyMjM="}}), "Secret");
        for text in [
            "a hunter22",
            "{\"a\":\"say \\\"hunter22\\\"\"}",
            "aHVudGVyMjM=",
            "(hunter23)",
            "MIIEvQIBADANBgkqhkiG9w0B",
        ] {
            let hidden = known.hide_in(text);
            assert!(hidden.contains(" bytes, "), "{hidden}");
            assert!(
                !hidden.contains("hunter") && !hidden.contains("aHVu") && !hidden.contains("MII"),
                "{hidden}"
            );
        }
        assert_eq!(known.hide_in("configmaps shop/a"), "configmaps shop/a");
    }
}
