//! Machine: the functions that build authorization checks, run them, and read the decisions.
//!
//! Kubernetes source: `apiserver/pkg/cel/library/authz.go`.

use std::sync::Arc;

use steersman_apimachinery::names::{NameRule, check_name};

use super::run::{Failure, Outcome};
use crate::authorizer::{AccessAttributes, Query, Step};
use crate::value::Value;

/// Applies a function to an authorization check or a decision. Returns `None` for other values.
pub(super) fn apply<'a>(name: &str, values: &[Value<'a>]) -> Option<Outcome<'a>> {
    match values {
        [Value::AccessDecision(ruling)] => Some(Ok(match name {
            "allowed" => Value::Bool(ruling.allowed),
            "reason" => Value::text(ruling.reason.as_str()),
            // The authorizers of this server always decide.
            "errored" => Value::Bool(false),
            "error" => Value::text(""),
            _ => return None,
        })),
        [Value::Query(query), Value::Text(text)] => next(query, name, text),
        [
            Value::Query(query),
            Value::Text(namespace),
            Value::Text(account),
        ] if query.step == Step::Authorizer && name == "serviceAccount" => {
            Some(of_account(query, namespace, account))
        }
        _ => None,
    }
}

fn next<'a>(query: &Query<'a>, name: &str, text: &str) -> Option<Outcome<'a>> {
    let empty = |what: &str| Some(Err(Failure::of(format!("{what} must not be empty"))));
    let mut asked = query.asked.clone();
    let text = text.to_owned();
    let step = match (query.step, name) {
        (Step::Authorizer, "path") if text.trim().is_empty() => return empty("path"),
        (Step::Authorizer, "path") => {
            asked.path = Some(text);
            Step::Path
        }
        (Step::Authorizer, "group") => {
            asked.group = text;
            Step::Group
        }
        (Step::Group, "resource") if text.trim().is_empty() => return empty("resource"),
        (Step::Group, "resource") => {
            asked.resource = text;
            Step::Resource
        }
        (Step::Resource, "subresource") => {
            asked.subresource = text;
            Step::Resource
        }
        (Step::Resource, "namespace") => {
            asked.namespace = text;
            Step::Resource
        }
        (Step::Resource, "name") => {
            asked.name = text;
            Step::Resource
        }
        // Roles ignore fields and labels of objects, so selectors do not change the decision.
        (Step::Resource, "fieldSelector" | "labelSelector") => Step::Resource,
        (Step::Path | Step::Resource, "check") => {
            let ruling = query.authority.decide(&text, &asked);
            return Some(Ok(Value::AccessDecision(Arc::new(ruling))));
        }
        _ => return None,
    };
    let authority = query.authority;
    Some(Ok(Value::Query(Arc::new(Query {
        authority,
        step,
        asked,
    }))))
}

fn of_account<'a>(query: &Query<'a>, namespace: &str, name: &str) -> Outcome<'a> {
    if !check_name(NameRule::Subdomain, name).is_empty() {
        return Err(Failure::of("Invalid service account name"));
    }
    if !check_name(NameRule::Label, namespace).is_empty() {
        return Err(Failure::of("Invalid service account namespace"));
    }
    let asked = AccessAttributes {
        account: Some((namespace.to_owned(), name.to_owned())),
        ..AccessAttributes::default()
    };
    let authority = query.authority;
    Ok(Value::Query(Arc::new(Query {
        authority,
        step: Step::Authorizer,
        asked,
    })))
}
