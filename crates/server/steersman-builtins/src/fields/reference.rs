//! Machine: checks names of other objects in fields.

use steersman_apimachinery::names::NameRule;

use super::check;
use super::field_path::{Errors, FieldPath};

/// Checks that a text is present and can be one segment of a URL path.
pub(crate) fn segment(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, "");
    } else {
        check::name(NameRule::PathSegment, at, errors);
    }
}

/// Checks a reference to an object of the same namespace by group, kind and name.
pub(crate) fn check_local(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.at("apiGroup").is_set() {
        check::subdomain(&at.at("apiGroup"), errors);
    }
    segment(&at.at("kind"), errors);
    segment(&at.at("name"), errors);
}

/// Checks a domain followed by a path, such as the name of a controller (upstream:
/// `IsDomainPrefixedPath`).
pub(crate) fn check_domain_path(at: &FieldPath<'_>, errors: &mut Errors) {
    const PATH: &str =
        "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    let parts = at.text().split_once('/');
    let Some((host, path)) = parts.filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.invalid_text(at, detail);
        return;
    };
    for detail in steersman_apimachinery::names::check_name(NameRule::Subdomain, host) {
        errors.invalid_as(at, &host.into(), &detail);
    }
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !path.bytes().all(legal) {
        errors.invalid_as(at, &path.into(), PATH);
    }
}

/// Checks a domain of at least three parts (upstream: `IsFullyQualifiedName`).
pub(crate) fn check_domain(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, "");
        return;
    }
    let wrong = steersman_apimachinery::names::check_name(NameRule::Subdomain, at.text());
    if !wrong.is_empty() {
        errors.invalid(at, &wrong.join(","));
    } else if at.text().split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.invalid(at, detail);
    }
}

/// Checks a domain followed by one path segment (upstream: `ValidateSignerName`).
pub(crate) fn check_signer(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, "");
        return;
    }
    let mut parts = at.text().split('/');
    let (domain, path) = (parts.next(), parts.next());
    let (Some(domain), Some(path), None) = (domain, path, parts.next()) else {
        let detail =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.invalid(at, detail);
        return;
    };
    for wrong in steersman_apimachinery::names::check_name(NameRule::Subdomain, domain) {
        errors.invalid_as(
            at,
            &domain.into(),
            &format!("validating label \"{domain}\": {wrong}"),
        );
    }
    if domain.split('.').count() < 2 {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.invalid_as(at, &domain.into(), detail);
    }
    for wrong in steersman_apimachinery::names::check_name(NameRule::Subdomain, path) {
        errors.invalid_as(
            at,
            &path.into(),
            &format!("validating label \"{path}\": {wrong}"),
        );
    }
}
