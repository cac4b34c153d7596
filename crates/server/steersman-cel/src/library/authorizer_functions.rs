//! Machine: the functions that build authorization checks, run them, and read the answers.
//!
//! Kubernetes source: `apiserver/pkg/cel/library/authz.go`.

use std::sync::Arc;

use steersman_apimachinery::names::{NameRule, check_name};

use super::{Cost, Row};
use crate::authorizer::{
    AUTHORIZER, AccessAttributes, GROUP_CHECK, PATH_CHECK, Query, RESOURCE_CHECK,
};
use crate::cost_range::{PER_CHARACTER, Range};
use crate::run::{EvalFailure, EvalOutcome, Run};
use crate::value::Value;

/// The cost of one authorization check. An expression may cost 1,000,000, so it can make two checks.
const ACCESS_CHECK: u64 = 350_000;

/// The cost of parsing a field or label selector. A requirement has at least two characters, so the selector has at
/// most half as many requirements as characters; each makes a list and a struct, which cost 50.
const SELECTOR: Cost = Cost::Sizes(|size| {
    let length = size(1);
    let requirements = length.scaled(0.5).scaled(50.0);
    let parsing = length.scaled(PER_CHARACTER);
    parsing.plus(requirements).plus(Range::exactly(10))
});

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("path", "authorizer_path (Z.s)H", Cost::PerCall, path),
    ("group", "authorizer_group (Z.s)G",
        Cost::PerCall, |_, values| next(values, AUTHORIZER, GROUP_CHECK, |asked, text| asked.group = text)),
    ("serviceAccount", "authorizer_serviceaccount (Z.ss)Z", Cost::PerCall, service_account),
    ("resource", "groupcheck_resource (G.s)R", Cost::PerCall, resource),
    ("subresource", "resourcecheck_subresource (R.s)R",
        Cost::PerCall,
        |_, values| next(values, RESOURCE_CHECK, RESOURCE_CHECK, |asked, text| asked.subresource = text)),
    ("namespace", "resourcecheck_namespace (R.s)R",
        Cost::PerCall, |_, values| next(values, RESOURCE_CHECK, RESOURCE_CHECK, |asked, text| asked.namespace = text)),
    ("name", "resourcecheck_name (R.s)R",
        Cost::PerCall, |_, values| next(values, RESOURCE_CHECK, RESOURCE_CHECK, |asked, text| asked.name = text)),
    ("fieldSelector", "authorizer_fieldselector (R.s)R", SELECTOR, selected),
    ("labelSelector", "authorizer_labelselector (R.s)R", SELECTOR, selected),
    ("check", "pathcheck_check (H.s)X resourcecheck_check (R.s)X",
        Cost::Sizes(|_| Range::exactly(ACCESS_CHECK)), check),
    ("allowed", "decision_allowed (X.)b",
        Cost::PerCall, accepts!(|[Value::AccessDecision(decision)]| Ok(Value::Bool(decision.allowed)))),
    ("reason", "decision_reason (X.)s",
        Cost::PerCall, accepts!(|[Value::AccessDecision(decision)]| Ok(Value::text(decision.reason.as_str())))),
    // Always false, because this server's authorizers answer every check without an error.
    ("errored", "decision_errored (X.)b",
        Cost::PerCall, accepts!(|[Value::AccessDecision(_)]| Ok(Value::Bool(false)))),
    ("error", "decision_error (X.)s",
        Cost::PerCall, accepts!(|[Value::AccessDecision(_)]| Ok(Value::text("")))),
];

/// Returns the authorization check in a value; `None` unless its CEL type is one of `kinds`.
fn query_of<'v, 'a>(value: &'v Value<'a>, kinds: &[&str]) -> Option<&'v Query<'a>> {
    match value {
        Value::Query(query) if kinds.contains(&query.kind) => Some(query),
        _ => None,
    }
}

/// Returns a copy of a check with one more attribute, which `set` writes. The check has the CEL type `from`, and the
/// copy has the CEL type `to`.
fn next<'a>(
    values: &[Value<'a>],
    from: &str,
    to: &'static str,
    set: fn(&mut AccessAttributes, String),
) -> Option<EvalOutcome<'a>> {
    let [query, Value::Text(text)] = values else {
        return None;
    };
    let query = query_of(query, &[from])?;
    let mut asked = query.asked.clone();
    set(&mut asked, text.to_string());
    Some(Ok(Value::Query(Arc::new(Query {
        authority: query.authority,
        kind: to,
        asked,
    }))))
}

fn path<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let path = next(values, AUTHORIZER, PATH_CHECK, |asked, path| {
        asked.path = Some(path);
    })?;
    Some(not_empty(values, "path").and(path))
}

fn resource<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let resource = next(values, GROUP_CHECK, RESOURCE_CHECK, |asked, resource| {
        asked.resource = resource;
    })?;
    Some(not_empty(values, "resource").and(resource))
}

fn not_empty(values: &[Value<'_>], attribute: &str) -> Result<(), EvalFailure> {
    match values {
        [_, Value::Text(text)] if text.trim().is_empty() => {
            Err(EvalFailure::Error(format!("{attribute} must not be empty")))
        }
        _ => Ok(()),
    }
}

/// Accepts a field or label selector and ignores it: roles grant access without selectors, so the answer is the same.
fn selected<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    next(values, RESOURCE_CHECK, RESOURCE_CHECK, |_, _| {})
}

fn check<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let [query, Value::Text(verb)] = values else {
        return None;
    };
    let query = query_of(query, &[PATH_CHECK, RESOURCE_CHECK])?;
    let decision = query.authority.decide(verb, &query.asked);
    Some(Ok(Value::AccessDecision(Arc::new(decision))))
}

fn service_account<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let [query, Value::Text(namespace), Value::Text(name)] = values else {
        return None;
    };
    let query = query_of(query, &[AUTHORIZER])?;
    Some(of_account(query, namespace, name))
}

fn of_account<'a>(query: &Query<'a>, namespace: &str, name: &str) -> EvalOutcome<'a> {
    if !check_name(NameRule::Subdomain, name).is_empty() {
        return Err(EvalFailure::of("Invalid service account name"));
    }
    if !check_name(NameRule::Label, namespace).is_empty() {
        return Err(EvalFailure::of("Invalid service account namespace"));
    }
    let asked = AccessAttributes {
        account: Some((namespace.to_owned(), name.to_owned())),
        ..AccessAttributes::default()
    };
    let authority = query.authority;
    Ok(Value::Query(Arc::new(Query {
        authority,
        kind: AUTHORIZER,
        asked,
    })))
}
