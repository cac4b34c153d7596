//! Machine: checks that the author of an admission policy or binding may read the parameter objects that it refers to,
//! because the policy's messages could reveal their content (upstream: `authz.go` of the four kinds in
//! `pkg/registry/admissionregistration`).

use serde_json::Value;
use steersman_apimachinery::status::FieldError;
use steersman_auth::{Attributes, User};
use steersman_schema::resource::Resource;

use crate::policies::compiled::GROUP;
use crate::policies::mutation::Mutating;
use crate::policies::policy::Rules as _;
use crate::policies::validation::Validating;
use crate::state::registry::Registry;
use crate::values::text;

struct Parameters {
    group: String,
    resource: String,
    /// Whether the server does not serve the kind of the parameter objects, so that `resource` is `*`.
    unknown: bool,
}

impl Registry {
    pub(crate) fn check_parameters(
        &self,
        resource: &Resource,
        user: &User,
        (new, old): (&Value, Option<&Value>),
    ) -> Option<FieldError> {
        // A user without a name is the program that embeds the server, which may do everything.
        if !resource.built_in || resource.group != GROUP || user.name.is_empty() {
            return None;
        }
        match resource.kind.as_str() {
            "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
                let kind = &new["spec"]["paramKind"];
                let known = old.is_some_and(|old| old["spec"]["paramKind"] == *kind);
                if kind.is_null() || known {
                    return None;
                }
                self.check_kind(user, kind)
            }
            // An unchanged `paramRef` is checked, too: upstream compares pointers, which always differ.
            "ValidatingAdmissionPolicyBinding" => {
                self.check_reference(user, new, Validating::PLURALS.0)
            }
            "MutatingAdmissionPolicyBinding" => {
                self.check_reference(user, new, Mutating::PLURALS.0)
            }
            _ => None,
        }
    }

    fn check_kind(&self, user: &User, kind: &Value) -> Option<FieldError> {
        let all = self.parameters(kind);
        let asked = Attributes::of("get", &all.group, &all.resource, "*").within("*");
        if self.authorizer().authorize(user, &asked).allowed {
            return None;
        }
        let (version, kind) = (text(&kind["apiVersion"]), text(&kind["kind"]));
        let user = printed(user);
        let why = format!(
            "user {user} must have \"get\" permission on all objects of the referenced paramKind (kind={kind}, apiVersion={version})"
        );
        Some(FieldError::forbidden("spec.paramKind", &why))
    }

    fn check_reference(&self, user: &User, binding: &Value, policies: &str) -> Option<FieldError> {
        let spec = &binding["spec"];
        let reference = &spec["paramRef"];
        if reference.is_null() {
            return None;
        }
        let policy = self.object((GROUP, policies), "", text(&spec["policyName"]));
        let kind = policy.map(|policy| policy.look()["spec"]["paramKind"].clone());
        let kind = kind.unwrap_or_default();
        let all = self.parameters(&kind);
        let name = text(&reference["name"]);
        let verb = if name.is_empty() { "list" } else { "get" };
        let asked = Attributes::of(verb, &all.group, &all.resource, name);
        let asked = asked.within(text(&reference["namespace"]));
        if self.authorizer().authorize(user, &asked).allowed {
            return None;
        }
        let user = printed(user);
        let why = if all.unknown {
            let kind = format!("&{{{} {}}}", text(&kind["apiVersion"]), text(&kind["kind"]));
            format!(
                "unable to resolve paramKind {kind} to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions and resources"
            )
        } else {
            format!(
                "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
            )
        };
        Some(FieldError::forbidden("spec.paramRef", &why))
    }

    /// Returns the resource of a policy's `paramKind`, for which the author needs a permission; without `paramKind`,
    /// all resources (`*`).
    fn parameters(&self, kind: &Value) -> Parameters {
        let (Some(version), Some(name)) = (kind["apiVersion"].as_str(), kind["kind"].as_str())
        else {
            return Parameters {
                group: "*".to_owned(),
                resource: "*".to_owned(),
                unknown: false,
            };
        };
        let found = self.catalogue.of_kind(version, name);
        let (group, _) = version.split_once('/').unwrap_or_default();
        Parameters {
            group: group.to_owned(),
            resource: found.map_or_else(|| "*".to_owned(), |found| found.plural.clone()),
            unknown: found.is_none(),
        }
    }
}

/// Formats a user as Go's `%v` does, because upstream's error message contains it in this form.
fn printed(user: &User) -> String {
    let print = |(key, values): (&String, &Vec<String>)| format!("{key}:[{}]", values.join(" "));
    let extra: Vec<String> = user.extra.iter().map(print).collect();
    format!(
        "&{{{} {} [{}] map[{}]}}",
        user.name,
        user.uid,
        user.groups.join(" "),
        extra.join(" ")
    )
}
