//! Machine: checks names of other objects in fields.

use steersman_apimachinery::names::{self, NameRule};

use super::check;
use super::field_path::FieldPath;

/// Checks that a text is present and can be one segment of a URL path.
pub(crate) fn segment(at: &FieldPath<'_>) {
    check::required(at, |at| check::name(NameRule::PathSegment, at));
}

/// Checks a reference to an object of the same namespace by group, kind and name.
pub(crate) fn check_local(at: &FieldPath<'_>) {
    at.at("apiGroup").if_set(check::subdomain);
    segment(&at.at("kind"));
    segment(&at.at("name"));
}

/// Checks a domain followed by a path (upstream: `IsDomainPrefixedPath`).
pub(crate) fn check_domain_path(at: &FieldPath<'_>) {
    const PATH: &str =
        "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    let parts = at.text().split_once('/');
    let Some((host, path)) = parts.filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return at.invalid_text("must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    at.invalid_each(host, names::check_name(NameRule::Subdomain, host));
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !path.bytes().all(legal) {
        at.invalid_as(path, PATH);
    }
}

/// Checks a domain of at least three parts (upstream: `IsFullyQualifiedName`).
pub(crate) fn check_domain(at: &FieldPath<'_>) {
    if at.is_empty() {
        return at.required("");
    }
    let wrong = names::check_name(NameRule::Subdomain, at.text());
    if !wrong.is_empty() {
        at.invalid(&wrong.join(","));
    } else if at.text().split('.').count() < 3 {
        at.invalid("should be a domain with at least three segments separated by dots");
    }
}

/// Checks a domain followed by one path segment (upstream: `ValidateSignerName`).
pub(crate) fn check_signer(at: &FieldPath<'_>) {
    if at.is_empty() {
        return at.required("");
    }
    let mut parts = at.text().split('/');
    let (domain, path) = (parts.next(), parts.next());
    let (Some(domain), Some(path), None) = (domain, path, parts.next()) else {
        let form =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return at.invalid(form);
    };
    let check_label = |label: &str| {
        for wrong in names::check_name(NameRule::Subdomain, label) {
            at.invalid_as(label, &format!("validating label \"{label}\": {wrong}"));
        }
    };
    check_label(domain);
    if domain.split('.').count() < 2 {
        let detail = "should be a domain with at least two segments separated by dots";
        at.invalid_as(domain, detail);
    }
    check_label(path);
}
