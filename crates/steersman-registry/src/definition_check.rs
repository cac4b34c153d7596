//! Machine: checks a CustomResourceDefinition as its creation does, without a store.

use serde_json::Value;
use steersman_kinds::crd;
use steersman_text::status::FieldError;

pub use steersman_kinds::crd::RuleCost;

/// Checks a definition, and returns the estimated costs of its CEL rules.
///
/// # Errors
///
/// All errors for which the creation of the definition would fail, and the fields that definitions do not have.
pub fn check_definition(definition: &Value) -> Result<Vec<RuleCost>, Vec<FieldError>> {
    let mut crd = definition.clone();
    let mut unknown = Vec::new();
    crd::decode(&mut crd, &mut unknown);
    crd::apply_defaults(&mut crd);
    let mut errors: Vec<FieldError> = unknown
        .iter()
        .map(|field| FieldError::forbidden(field, "unknown field"))
        .collect();
    errors.extend(crd::validate(&crd, None));
    if errors.is_empty() {
        Ok(crd::rule_costs(&crd))
    } else {
        Err(errors)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(rule: &str) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "sites.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Site", "plural": "sites", "singular": "site", "listKind": "SiteList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {
                        "type": "object", "properties": {"hosts": {"type": "array", "items": {"type": "string"}}},
                        "x-kubernetes-validations": [{"rule": rule}],
                    }},
                }}}],
            },
        })
    }

    #[test]
    fn a_valid_definition_has_the_cost_of_each_rule() {
        let costs = check_definition(&definition("self.hosts.size() < 7")).unwrap();
        let [cost] = &*costs else {
            panic!("{costs:?}");
        };
        assert!(
            cost.path
                .ends_with("properties[spec].x-kubernetes-validations[0].rule"),
            "{cost:?}"
        );
        assert_eq!(cost.rule, "self.hosts.size() < 7");
        assert!(0 < cost.cost && cost.cost < cost.limit, "{cost:?}");
    }

    #[test]
    fn a_wrong_rule_an_expensive_one_and_an_unknown_field_are_errors() {
        for (rule, problem) in [
            ("self.host == ''", "undefined field 'host'"),
            (
                "self.hosts.all(a, self.hosts.all(b, a != b))",
                "exceeds budget",
            ),
        ] {
            let errors = check_definition(&definition(rule)).unwrap_err();
            let of_rule = errors
                .iter()
                .find(|error| error.field.ends_with("x-kubernetes-validations[0].rule"));
            assert!(of_rule.unwrap().message.contains(problem), "{errors:?}");
        }
        let mut wrong = definition("true");
        wrong["spec"]["version"] = json!(7);
        wrong["spec"]["kind"] = json!("Site");
        let errors = check_definition(&wrong).unwrap_err();
        assert!(
            errors.iter().any(|error| error.field == "spec.kind"),
            "{errors:?}"
        );
    }
}
