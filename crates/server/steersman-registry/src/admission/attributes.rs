//! Words: the attributes of a write that webhooks and policies get: its resource, operation, user and options.

use serde::Serialize;
use serde_json::Value;
use steersman_auth::User;

use crate::objects::managed;
use crate::policies::compiled::GROUP;
use crate::requests::metadata;
use crate::requests::options::{DeleteOptions, ObjectTarget, Subresource, WriteOptions};

/// Resources with writes for which no policy is evaluated: the policies and bindings themselves, and reviews, which
/// are not stored (upstream: `policy/generic/plugin.go`, `kubeapiserver/admission/exclusion`).
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

#[derive(Debug)]
pub(crate) struct WriteAdmission<'a> {
    pub(crate) target: ObjectTarget<'a>,
    /// The name of the object, as webhooks get it. For a create with `generateName`, it is empty until the mutating
    /// webhooks have run. For the delete of a collection, it is empty.
    pub(crate) name: &'a str,
    /// The subresource as the rules of webhooks name it, such as `status`; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// Group, version and kind of the object in the request, if it has another kind than the resource, such as a Scale.
    pub(crate) kind: Option<(&'a str, &'a str, &'a str)>,
    pub(crate) operation: &'static str,
    pub(crate) user: &'a User,
    pub(crate) dry: bool,
    pub(crate) options: Value,
}

/// A write as the admission plugins get it: its attributes, the new object, and for an update the old object.
pub(crate) type AdmittedWrite<'a> = (&'a WriteAdmission<'a>, &'a Value, Option<&'a Value>);

impl<'a> WriteAdmission<'a> {
    pub(crate) fn of_write(
        target: ObjectTarget<'a>,
        (operation, name): (&'static str, &'a str),
        options: &'a WriteOptions,
    ) -> Self {
        let scale = target.subresource == Subresource::Scale;
        let kind = match operation {
            "CREATE" => "CreateOptions",
            _ => "UpdateOptions",
        };
        Self {
            target,
            name,
            subresource: managed::subresource_name(target.subresource),
            kind: scale.then_some(("autoscaling", "v1", "Scale")),
            operation,
            user: &options.user,
            dry: !options.dry_run.is_empty(),
            options: shown_options(kind, options),
        }
    }

    /// Returns the attributes of the delete of one object or, with an empty name, of the delete of a collection.
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
            options: shown_options("DeleteOptions", options),
        }
    }

    /// Returns the namespace in the AdmissionReview of a write. For a write of a Namespace, this is the Namespace's
    /// name.
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

    /// Returns whether this is a write of a webhook configuration, policy or binding, for which no webhook is called,
    /// so that a broken webhook can be repaired.
    pub(crate) fn is_exempt(&self) -> bool {
        self.target.resource.built_in && self.target.resource.group == GROUP
    }

    /// Returns whether this is a write of a policy, a binding or a review, for which no policy is evaluated.
    pub(crate) fn is_unjudged(&self) -> bool {
        let resource = self.target.resource;
        UNJUDGED.contains(&(&resource.group, &resource.plural))
    }
}

fn shown_options(kind: &str, options: &impl Serialize) -> Value {
    // Never falls back to the default: serialising fails only for map keys that are not strings; options have no map.
    let mut shown = serde_json::to_value(options).unwrap_or_default();
    shown["kind"] = kind.into();
    shown["apiVersion"] = "meta.k8s.io/v1".into();
    shown
}
