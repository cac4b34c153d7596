//! Machine: checks a CRD and custom resources of this CRD without a server, with the checks of a create.

use serde_json::Value;
use steersman_apimachinery::status::FieldError;
use steersman_builtins::{crd, custom};
use steersman_schema::resource::Resource;

pub use steersman_builtins::crd::RuleCost;

/// Checks custom resources of one version of a CRD against its compiled schema.
#[derive(Debug)]
pub struct ObjectCheck {
    resource: Resource,
}

/// Checks a CRD as a create of this CRD would, and returns the estimated costs of its CEL rules.
///
/// # Errors
///
/// All errors for which a create of the CRD would fail, and an error for each unknown field in it.
pub fn check_definition(definition: &Value) -> Result<Vec<RuleCost>, Vec<FieldError>> {
    let mut crd = definition.clone();
    let mut unknown = Vec::new();
    crd::decode(&mut crd, &mut unknown);
    crd::apply_defaults(&mut crd);
    let refuse = |field: &String| FieldError::forbidden(field, "unknown field");
    let mut errors: Vec<FieldError> = unknown.iter().map(refuse).collect();
    errors.extend(crd::validate(&crd, None));
    if errors.is_empty() {
        Ok(crd::rule_costs(&crd))
    } else {
        Err(errors)
    }
}

impl ObjectCheck {
    /// Compiles the schema of one version of a valid CRD; `None` if the CRD does not serve this version.
    pub fn new(definition: &Value, version: &str) -> Option<Self> {
        let mut crd = definition.clone();
        crd::apply_defaults(&mut crd);
        let json = crd.to_string().into();
        let mut resources = crd::resources(&crd, &json, 0).into_iter();
        let resource = resources.find(|resource| resource.version == version)?;
        Some(Self { resource })
    }

    /// Applies the schema's defaults to a copy of a custom resource, and returns the violations of the schema, of its
    /// list types and of its CEL rules. Metadata is not checked, and unknown fields are no errors.
    pub fn problems(&self, object: &Value) -> Vec<FieldError> {
        let mut object = object.clone();
        if let Some(schema) = self.resource.structural() {
            schema.drop_nulls(&mut object);
            schema.apply_defaults(&mut object);
        }
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        custom::check(&self.resource, &object, None, &mut errors, &mut warnings);
        errors
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

    #[test]
    fn an_object_has_the_problems_of_its_schema_and_rules() {
        let check = ObjectCheck::new(&definition("self.hosts.size() < 2"), "v1").unwrap();
        let problems = |spec: Value| {
            let object = json!({
                "apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "a"}, "spec": spec,
            });
            check.problems(&object)
        };
        assert_eq!(problems(json!({"hosts": ["a"], "other": 7})), []);
        // A null that the schema does not allow is no error: a create removes it.
        let spec = json!({"type": "object", "properties": {"site": {"type": "string"}}});
        let mut loose = definition("true");
        loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec;
        let object = json!({"apiVersion": "example.com/v1", "kind": "Site",
            "metadata": {"name": "a"}, "spec": {"site": null}});
        assert_eq!(
            ObjectCheck::new(&loose, "v1").unwrap().problems(&object),
            []
        );
        let found = problems(json!({"hosts": ["a", 7]}));
        assert_eq!(found[0].field, "spec.hosts[1]");
        let found = problems(json!({"hosts": ["a", "b"]}));
        assert!(
            matches!(&*found, [error] if error.field == "spec" && error.message.contains("hosts.size()")),
            "{found:?}"
        );
        assert!(ObjectCheck::new(&definition("true"), "v2").is_none());
    }
}
