//! Machine: finds the fields that differ between the versions of one definition.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_object::{json_items, json_text};

use crate::error::Error;
use crate::schema_narrowing::{Narrowing, compare};

/// Checks that a definition without a conversion webhook has the same fields, which accept the same values, in each of
/// its versions (DEF-7). The argument is a `CustomResourceDefinition` as JSON.
///
/// Without a conversion (strategy `None`), an API server only replaces the `apiVersion` of an object and drops each
/// field that the requested version lacks: in the response, and in storage once a client writes that response back.
///
/// # Errors
///
/// [`Error::Unconverted`].
pub fn check_versions(definition: &Value) -> Result<(), Error> {
    if is_converted(definition) {
        return Ok(());
    }
    let versions = versions(definition);
    let Some(stored) = stored_version(definition) else {
        return Ok(());
    };
    let (mut differing, mut fields) = (Vec::new(), BTreeSet::new());
    for version in versions.into_iter().filter(|one| name(one) != name(stored)) {
        let mut found = Vec::new();
        // Each comparison finds the fields that one of the two versions lacks.
        for (old, new) in [(stored, version), (version, stored)] {
            compare(schema(old), schema(new), "", &mut found);
        }
        if !found.is_empty() {
            differing.push(name(version).to_owned());
        }
        fields.extend(found.iter().map(field));
    }
    if differing.is_empty() {
        return Ok(());
    }
    differing.push(name(stored).to_owned());
    Err(Error::Unconverted {
        definition: json_text(&definition["metadata"]["name"]).to_owned(),
        versions: differing,
        fields: fields.into_iter().collect(),
    })
}

pub(crate) fn is_converted(definition: &Value) -> bool {
    definition["spec"]["conversion"]["strategy"] == "Webhook"
}

pub(crate) fn versions(definition: &Value) -> Vec<&Value> {
    json_items(&definition["spec"]["versions"]).collect()
}

pub(crate) fn stored_version(definition: &Value) -> Option<&Value> {
    let mut versions = json_items(&definition["spec"]["versions"]);
    versions.find(|version| version["storage"] == true)
}

pub(crate) fn name(version: &Value) -> &str {
    json_text(&version["name"])
}

pub(crate) fn schema(version: &Value) -> &Value {
    &version["schema"]["openAPIV3Schema"]
}

/// Returns the field of a difference, such as `spec.replicas`; for the root, `the whole object`.
fn field(difference: &Narrowing) -> String {
    let path = difference.path.strip_prefix('.');
    path.unwrap_or("the whole object").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn version(name: &str, is_stored: bool, fields: &[&str]) -> Value {
        let fields = fields
            .iter()
            .map(|field| ((*field).to_owned(), json!({"type": "string"})));
        let fields: serde_json::Map<String, Value> = fields.collect();
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        json!({"name": name, "storage": is_stored, "schema": {"openAPIV3Schema": schema}})
    }

    fn checked(versions: &[Value], conversion: &Value) -> Option<(Vec<String>, Vec<String>)> {
        let definition = json!({
            "metadata": {"name": "sites.example.com"},
            "spec": {"versions": versions, "conversion": conversion},
        });
        match check_versions(&definition) {
            Ok(()) => None,
            Err(Error::Unconverted {
                versions, fields, ..
            }) => Some((versions, fields)),
            Err(error) => panic!("{error}"),
        }
    }

    /// DEF-7: different versions of a kind need a conversion webhook.
    #[test]
    fn a_field_that_one_version_lacks_needs_a_webhook() {
        let renamed = [
            version("v1", true, &["host"]),
            version("v1alpha1", false, &["domain"]),
        ];
        let expected = Some((
            vec!["v1alpha1".to_owned(), "v1".to_owned()],
            vec!["spec.domain".to_owned(), "spec.host".to_owned()],
        ));
        assert_eq!(checked(&renamed, &Value::Null), expected);
        assert_eq!(checked(&renamed, &json!({"strategy": "None"})), expected);
        assert_eq!(checked(&renamed, &json!({"strategy": "Webhook"})), None);
        for added in [["v1", "v1alpha1"], ["v1alpha1", "v1"]] {
            let [wide, narrow] = added;
            let versions = [
                version(wide, wide == "v1", &["host", "tls"]),
                version(narrow, narrow == "v1", &["host"]),
            ];
            let (_, fields) = checked(&versions, &Value::Null).unwrap();
            assert_eq!(fields, ["spec.tls"]);
        }
    }

    /// DEF-7: different versions of a kind need a conversion webhook.
    #[test]
    fn a_version_that_is_not_served_counts_because_objects_may_be_stored_in_it() {
        let mut former = version("v1alpha1", false, &["domain"]);
        former["served"] = json!(false);
        let versions = [version("v1", true, &["host"]), former];
        assert!(checked(&versions, &Value::Null).is_some());
    }

    #[test]
    fn versions_with_the_same_fields_need_no_webhook() {
        let mut described = version("v1beta1", false, &["host"]);
        described["schema"]["openAPIV3Schema"]["description"] = json!("An earlier version.");
        let versions = [version("v1", true, &["host"]), described];
        assert_eq!(checked(&versions, &Value::Null), None);
        assert_eq!(checked(&versions[..1], &Value::Null), None);
    }
}
