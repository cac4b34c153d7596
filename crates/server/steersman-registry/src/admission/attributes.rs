//! Words: a write on its way through admission, as webhooks see it.

use serde_json::{Map, Value, json};
use steersman_auth::User;
use steersman_schema::resource::Resource;

use crate::objects::managed;
use crate::policies::compiled::GROUP;
use crate::requests::metadata;
use crate::requests::options::{DeleteOptions, ObjectTarget, Subresource, WriteOptions};
use crate::webhook::RuleAttributes;

/// Resources for which no policy is evaluated: the policy kinds themselves, and reviews, which are
/// not stored (upstream: `policy/generic/plugin.go`, `kubeapiserver/admission/exclusion`).
const UNJUDGED: [(&str, &str); 10] = [
    (GROUP, "validatingadmissionpolicies"),
    (GROUP, "validatingadmissionpolicybindings"),
    (GROUP, "mutatingadmissionpolicies"),
    (GROUP, "mutatingadmissionpolicybindings"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// A write on its way through admission.
#[derive(Debug)]
pub(crate) struct WriteAdmission<'a> {
    pub(crate) target: ObjectTarget<'a>,
    /// The name in the request; empty if there is none.
    pub(crate) name: &'a str,
    /// The subresource as rules name it; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// The group, version and kind of the objects, if not the resource's.
    pub(crate) kind: Option<(&'a str, &'a str, &'a str)>,
    pub(crate) operation: &'static str,
    pub(crate) user: &'a User,
    pub(crate) dry: bool,
    pub(crate) options: Value,
}

impl<'a> WriteAdmission<'a> {
    /// Describes a create or an update of an object or one of its subresources.
    pub(crate) fn of_write(
        target: ObjectTarget<'a>,
        (operation, name): (&'static str, &'a str),
        options: &'a WriteOptions,
    ) -> Self {
        let scale = target.subresource == Subresource::Scale;
        let kind = if operation == "CREATE" {
            "CreateOptions"
        } else {
            "UpdateOptions"
        };
        Self {
            target,
            name,
            subresource: managed::subresource_name(target.subresource),
            kind: scale.then_some(("autoscaling", "v1", "Scale")),
            operation,
            user: &options.user,
            dry: !options.dry_run.is_empty(),
            options: write_options(kind, options),
        }
    }

    /// Describes a delete; without a name, of a collection.
    pub(crate) fn of_delete(
        target: ObjectTarget<'a>,
        name: &'a str,
        options: &'a DeleteOptions,
    ) -> Self {
        Self {
            target,
            name,
            subresource: "",
            kind: None,
            operation: "DELETE",
            user: &options.user,
            dry: !options.dry_run.is_empty(),
            options: delete_options(options),
        }
    }

    /// Returns the namespace that a review names; for a Namespace object its own name.
    pub(crate) fn namespace(&self, object: Option<&Value>) -> String {
        let resource = self.target.resource;
        if !(resource.built_in && resource.kind == "Namespace") {
            return self.target.scope().to_owned();
        }
        let named = object.map(|object| metadata::text(object, "name"));
        match named {
            Some(named) if !named.is_empty() => named.to_owned(),
            _ => self.name.to_owned(),
        }
    }

    pub(crate) fn rule_attributes<'b>(&'b self, resource: &'b Resource) -> RuleAttributes<'b> {
        RuleAttributes {
            group: &resource.group,
            version: &resource.version,
            resource: &resource.plural,
            subresource: self.subresource,
            operation: self.operation,
            namespaced: resource.namespaced,
            name: self.name,
        }
    }

    /// Returns whether no webhook is called for it.
    pub(crate) fn is_exempt(&self) -> bool {
        self.target.resource.built_in && self.target.resource.group == GROUP
    }

    /// Returns whether no policy is evaluated for it.
    pub(crate) fn is_unjudged(&self) -> bool {
        let resource = self.target.resource;
        UNJUDGED.contains(&(&resource.group, &resource.plural))
    }
}

/// Builds the options of a write as a review has them.
fn write_options(kind: &str, options: &WriteOptions) -> Value {
    let mut options_json = Map::new();
    options_json.insert("kind".to_owned(), json!(kind));
    options_json.insert("apiVersion".to_owned(), json!("meta.k8s.io/v1"));
    if !options.dry_run.is_empty() {
        options_json.insert("dryRun".to_owned(), json!(options.dry_run));
    }
    for (field, text) in [
        ("fieldManager", &options.field_manager),
        ("fieldValidation", &options.field_validation),
    ] {
        if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
            options_json.insert(field.to_owned(), json!(text));
        }
    }
    Value::Object(options_json)
}

fn delete_options(options: &DeleteOptions) -> Value {
    let mut options_json = Map::new();
    options_json.insert("kind".to_owned(), json!("DeleteOptions"));
    options_json.insert("apiVersion".to_owned(), json!("meta.k8s.io/v1"));
    let mut put = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            options_json.insert(field.to_owned(), value);
        }
    };
    put(
        "gracePeriodSeconds",
        options.grace_period_seconds.map(Value::from),
    );
    put(
        "orphanDependents",
        options.orphan_dependents.map(Value::from),
    );
    put(
        "propagationPolicy",
        options.propagation_policy.clone().map(Value::from),
    );
    let dry = Some(&options.dry_run).filter(|dry| !dry.is_empty());
    put("dryRun", dry.map(|dry| json!(dry)));
    let wanted = options.preconditions.as_ref().map(|wanted| {
        let mut members = Map::new();
        for (field, text) in [
            ("uid", &wanted.uid),
            ("resourceVersion", &wanted.resource_version),
        ] {
            if let Some(text) = text {
                members.insert(field.to_owned(), json!(text));
            }
        }
        Value::Object(members)
    });
    put("preconditions", wanted);
    Value::Object(options_json)
}
