//! Machine: answers reviews, such as SubjectAccessReview and TokenReview, which are not stored.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::selector::{FieldSelector, LabelSelector};
use steersman_apimachinery::status::{FieldError, GroupResource, Status};
use steersman_apimachinery::{go, names, order};
use steersman_auth::{Attributes, User};
use steersman_schema::resource::Resource;

use crate::admission::attributes::WriteAdmission;
use crate::admission::mutation_progress::MutationProgress;
use crate::objects::managed::{self, Ownership};
use crate::requests::intake::{self, ObjectOrigin};
use crate::requests::metadata;
use crate::requests::options::{ObjectTarget, WriteOptions};
use crate::state::registry::Registry;
use crate::values::{items, one_or_many, text};
use crate::verbs::create::place;

const GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

const PATH_FIELD: &str = "spec.nonResourceAttributes";

/// Returns whether a resource is a kind of review, such as SubjectAccessReview. A POST of a review must call
/// [`Registry::review`], because reviews are not stored.
pub fn is_review(resource: &Resource) -> bool {
    resource.built_in && GROUPS.contains(&resource.group.as_str())
}

impl Registry {
    /// Answers a review: runs validation, policies and webhooks, and returns the review with its status. Nothing is
    /// stored.
    ///
    /// # Errors
    /// Returns the `Status` with which validation, a policy or a webhook refuses the review.
    pub fn review(
        &mut self,
        target: ObjectTarget<'_>,
        mut review: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Value, Status> {
        self.now = now;
        let (_, validation) = intake::options("CreateOptions", options)?;
        let resource = target.resource;
        self.decode_body(resource, &mut review, (ObjectOrigin::Body, validation))?;
        place(target, &mut review)?;
        let asked = managed::sent_fields(resource, &review);
        let ownership = Ownership::Track(options);
        let mut managed = self.created_managed_fields(resource, &review, (asked, ownership));
        managed::show(&mut review, &mut managed);
        let name = metadata::text(&review, "name").to_owned();
        let admission = WriteAdmission::of_write(target, ("CREATE", &name), options);
        let progress = &mut MutationProgress::default();
        self.admit_mutating(&admission, &mut review, None, progress)?;
        self.admit_validating(&admission, (Some(&review), None))?;
        let user = &options.user;
        match resource.kind.as_str() {
            "TokenReview" => self.token_review(review),
            "SelfSubjectReview" => Ok(json!({
                "kind": review["kind"],
                "apiVersion": review["apiVersion"],
                "metadata": { "creationTimestamp": metadata::time(now) },
                "status": { "userInfo": user.info() },
            })),
            "SelfSubjectRulesReview" => self.rules_review(&review, user),
            kind => {
                check(kind, &review)?;
                Ok(self.access_review(kind, review, user))
            }
        }
    }

    fn token_review(&self, mut review: Value) -> Result<Value, Status> {
        let token = text(&review["spec"]["token"]);
        if token.is_empty() {
            let message = "token is required for TokenReview in authentication";
            return Err(Status::bad_request(message));
        }
        let audiences: Vec<String> = one_or_many(&review["spec"]["audiences"])
            .map(str::to_owned)
            .collect();
        review["status"] = match self.authenticate(token, &audiences, self.now) {
            Ok(known) => json!({
                "authenticated": true,
                "user": known.user.info(),
                "audiences": known.audiences,
            }),
            Err(error) => json!({ "user": {}, "error": error }),
        };
        Ok(review)
    }

    fn rules_review(&self, review: &Value, user: &User) -> Result<Value, Status> {
        let namespace = text(&review["spec"]["namespace"]);
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let (rules, problems) = self.authorizer().rules_for(user, namespace);
        let (mut resources, mut paths) = (Vec::new(), Vec::new());
        for rule in &rules {
            if !rule.resources.is_empty() {
                let mut one = json!({
                    "verbs": rule.verbs,
                    "apiGroups": rule.groups,
                    "resources": rule.resources,
                });
                if !rule.names.is_empty() {
                    one["resourceNames"] = json!(rule.names);
                }
                resources.push(one);
            }
            if !rule.urls.is_empty() {
                paths.push(json!({ "verbs": rule.verbs, "nonResourceURLs": rule.urls }));
            }
        }
        let mut answer = json!({
            "kind": review["kind"],
            "apiVersion": review["apiVersion"],
            "metadata": {},
            "spec": {},
            "status": {
                "resourceRules": resources,
                "nonResourceRules": paths,
                "incomplete": false,
            },
        });
        if let Some(problems) = problems {
            answer["status"]["evaluationError"] = problems.into();
        }
        Ok(answer)
    }

    fn access_review(&self, kind: &str, mut review: Value, caller: &User) -> Value {
        let spec = &review["spec"];
        let asked = attributes(spec);
        let decision = match kind {
            "SelfSubjectAccessReview" => self.authorizer().authorize(caller, &asked),
            _ => self.authorizer().authorize(&subject(spec), &asked),
        };
        let mut status = json!({ "allowed": decision.allowed });
        if !decision.reason.is_empty() {
            status["reason"] = decision.reason.into();
        }
        let ignored = ignored(&spec["resourceAttributes"]);
        if !ignored.is_empty() {
            status["evaluationError"] = ignored.into();
        }
        review["status"] = status;
        review
    }
}

fn subject(spec: &Value) -> User {
    let texts = |value: &Value| -> Vec<String> { one_or_many(value).map(str::to_owned).collect() };
    let mut user = User::new(text(&spec["user"])).uid(text(&spec["uid"]));
    user.groups = texts(&spec["groups"]);
    let extra = spec["extra"].as_object().into_iter().flatten();
    user.extra = extra.map(|(k, v)| (k.clone(), texts(v))).collect();
    user
}

fn attributes(spec: &Value) -> Attributes {
    let resource = &spec["resourceAttributes"];
    if resource.is_null() {
        let path = &spec["nonResourceAttributes"];
        return Attributes {
            verb: text(&path["verb"]).to_owned(),
            path: Some(text(&path["path"]).to_owned()),
            ..Attributes::default()
        };
    }
    let (group, plural) = (text(&resource["group"]), text(&resource["resource"]));
    let (verb, name) = (text(&resource["verb"]), text(&resource["name"]));
    let namespace = text(&resource["namespace"]);
    let mut asked = Attributes::of(verb, group, plural, name).within(namespace);
    text(&resource["subresource"]).clone_into(&mut asked.subresource);
    asked
}

/// Validates a SubjectAccessReview or one of its variants (`pkg/apis/authorization/validation`).
fn check(kind: &str, review: &Value) -> Result<(), Status> {
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let local = kind == "LocalSubjectAccessReview";
    // The message prints upstream's Go struct, with field names that start with capital letters.
    let [asked_path, verb] = ["path", "verb"].map(|field| Value::from(text(&path[field])));
    let shown = format!("{{\"Path\":{asked_path},\"Verb\":{verb}}}");
    let mut errors = Vec::new();
    match (resource.is_null(), path.is_null()) {
        (false, false) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.push(FieldError::invalid(PATH_FIELD, &shown, detail));
        }
        (true, true) => {
            let detail =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let field = "spec.resourceAttributes";
            errors.push(FieldError::invalid(field, "null", detail));
        }
        _ => {}
    }
    let nobody = text(&spec["user"]).is_empty() && items(&spec["groups"]).is_empty();
    if kind != "SelfSubjectAccessReview" && nobody {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", "\"\"", detail));
    }
    check_selectors(resource, &mut errors);
    check_metadata(&review["metadata"], local, &mut errors);
    if local {
        let namespace = text(&resource["namespace"]);
        if !resource.is_null() && namespace != metadata::text(review, "namespace") {
            let (field, value) = ("spec.resourceAttributes.namespace", go::quote(namespace));
            let detail = "must match metadata.namespace";
            errors.push(FieldError::invalid(field, &value, detail));
        }
        if !path.is_null() {
            let detail = "disallowed on this kind of request";
            errors.push(FieldError::invalid(PATH_FIELD, &shown, detail));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    // The kind in the message is empty, as upstream.
    let group_kind = GroupResource::new(GROUPS[1], "");
    Err(Status::invalid(group_kind, "", &errors))
}

/// Validates that a review has no metadata. `local` is true for a LocalSubjectAccessReview, which may have a namespace.
fn check_metadata(found: &Value, local: bool, errors: &mut Vec<FieldError>) {
    let Some(members) = found.as_object() else {
        return;
    };
    let ignored = |name: &str| name == "managedFields" || (local && name == "namespace");
    if members.keys().all(|name| ignored(name)) {
        return;
    }
    let detail = if local {
        "must be empty except for namespace"
    } else {
        "must be empty"
    };
    let value = order::metadata(found);
    errors.push(FieldError::invalid("metadata", &value, detail));
}

fn check_selectors(resource: &Value, errors: &mut Vec<FieldError>) {
    for field in ["fieldSelector", "labelSelector"] {
        let selector = &resource[field];
        if selector.is_null() {
            continue;
        }
        let at = format!("spec.resourceAttributes.{field}");
        let raw = text(&selector["rawSelector"]);
        let requirements = items(&selector["requirements"]);
        if !raw.is_empty() && !requirements.is_empty() {
            let detail = "may not specified at the same time as requirements";
            let (field, value) = (format!("{at}.rawSelector"), go::quote(raw));
            errors.push(FieldError::invalid(field, &value, detail));
        }
        if raw.is_empty() && requirements.is_empty() {
            let detail = format!("when {at} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(format!("{at}.requirements"), &detail));
        }
        for (index, requirement) in requirements.iter().enumerate() {
            let at = format!("{at}.requirements[{index}]");
            check_requirement(&at, requirement, field == "labelSelector", errors);
        }
    }
}

/// Validates one requirement of a label or field selector in a review (`label` says which). Unknown operators are
/// accepted, because newer clients may send them.
fn check_requirement(at: &str, requirement: &Value, label: bool, errors: &mut Vec<FieldError>) {
    let key = text(&requirement["key"]);
    if !label && key.is_empty() {
        let field = format!("{at}.key");
        errors.push(FieldError::required(field, "must be specified"));
    }
    let values = items(&requirement["values"]);
    let field = format!("{at}.values");
    match text(&requirement["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(field, detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(field, detail));
        }
        _ => {}
    }
    if !label {
        return;
    }
    for detail in names::check_key(key) {
        let value = go::quote(key);
        errors.push(FieldError::invalid(format!("{at}.key"), &value, &detail));
    }
    for (index, value) in values.iter().enumerate() {
        let shown = go::print_in_error(value);
        for detail in names::check_label_value(text(value)) {
            let field = format!("{at}.values[{index}]");
            errors.push(FieldError::invalid(field, &shown, &detail));
        }
    }
}

/// Returns the warning for selectors in a review that do not parse and so are ignored; empty if all parse.
fn ignored(resource: &Value) -> String {
    let mut problems = Vec::new();
    for field in ["fieldSelector", "labelSelector"] {
        let selector = &resource[field];
        let raw = text(&selector["rawSelector"]);
        let requirements = items(&selector["requirements"]);
        let readable = |requirement: &&Value| {
            let many = items(&requirement["values"]).len();
            match text(&requirement["operator"]) {
                "In" | "NotIn" => many == 1 || (field == "labelSelector" && many > 0),
                "Exists" | "DoesNotExist" => field == "labelSelector",
                _ => false,
            }
        };
        let read = requirements.iter().filter(readable).count();
        let broken = match field {
            _ if !requirements.is_empty() => read < requirements.len(),
            "fieldSelector" => FieldSelector::parse(raw).is_err(),
            _ => LabelSelector::parse(raw).is_err(),
        };
        if broken {
            let partially = if read > 0 { "partially " } else { "" };
            problems.push(format!(
                "spec.resourceAttributes.{field} {partially}ignored due to parse error"
            ));
        }
    }
    problems.join("; ")
}
