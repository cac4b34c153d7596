//! Words: a write on its way through admission, as webhooks see it.

use serde::Serialize;
use serde_json::Value;
use steersman_auth::User;

use crate::objects::managed;
use crate::policies::compiled::GROUP;
use crate::requests::metadata;
use crate::requests::options::{DeleteOptions, ObjectTarget, Subresource, WriteOptions};

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

#[derive(Debug)]
pub(crate) struct WriteAdmission<'a> {
    pub(crate) target: ObjectTarget<'a>,
    /// The name in the path of the request; empty if the path has none.
    pub(crate) name: &'a str,
    /// The subresource as rules of webhooks name it; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// The group, version and kind of the objects, if they differ from those of the resource.
    pub(crate) kind: Option<(&'a str, &'a str, &'a str)>,
    pub(crate) operation: &'static str,
    pub(crate) user: &'a User,
    pub(crate) dry: bool,
    pub(crate) options: Value,
}

/// A write as the admission plugins judge it, with the object after and before it.
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

    /// Describes a delete of one object, or without a name the delete of a collection.
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

    /// Returns the namespace that the review of a write names; for a write of a Namespace the name of that Namespace.
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

    /// Returns whether no webhook is called for this write.
    pub(crate) fn is_exempt(&self) -> bool {
        self.target.resource.built_in && self.target.resource.group == GROUP
    }

    /// Returns whether no policy is evaluated for this write.
    pub(crate) fn is_unjudged(&self) -> bool {
        let resource = self.target.resource;
        UNJUDGED.contains(&(&resource.group, &resource.plural))
    }
}

fn shown_options(kind: &str, options: &impl Serialize) -> Value {
    // `to_value` fails only for map keys that are no strings and for types that return errors: not for options.
    let mut shown = serde_json::to_value(options).unwrap_or_default();
    shown["kind"] = kind.into();
    shown["apiVersion"] = "meta.k8s.io/v1".into();
    shown
}
