//! Machine: the columns of bindings, certificate requests and leases.

use serde_json::{Value, json};

use super::age::human;
use super::cells::{NONE, at, condition, is_set, list, text, text_or_none};
use super::columns::{AGE, Columns, shown, wide};

pub(super) const BINDINGS: Columns = Columns {
    headings: &[
        shown("Role", "Role that is granted."),
        AGE,
        wide("Users", "Users that the role is granted to."),
        wide("Groups", "Groups that the role is granted to."),
        wide("ServiceAccounts", "Accounts that the role is granted to."),
    ],
    row: |binding, _| {
        let role = at(binding, "roleRef").unwrap_or(&Value::Null);
        json!([
            format!("{}/{}", text(role, "kind"), text(role, "name")),
            subjects(binding, "User"),
            subjects(binding, "Group"),
            subjects(binding, "ServiceAccount")
        ])
    },
};

fn subjects(binding: &Value, kind: &str) -> String {
    let names: Vec<String> = list(binding, "subjects")
        .iter()
        .filter(|subject| text(subject, "kind") == kind)
        .map(|subject| match text(subject, "namespace") {
            namespace if !namespace.is_empty() && kind == "ServiceAccount" => {
                format!("{namespace}/{}", text(subject, "name"))
            }
            _ => text(subject, "name").to_owned(),
        })
        .collect();
    names.join(", ")
}

pub(super) const SIGNING_REQUESTS: Columns = Columns {
    headings: &[
        AGE,
        shown("SignerName", "Signer of the certificate."),
        shown("Requestor", "User that created the request."),
        shown("RequestedDuration", "Requested certificate lifetime."),
        shown("Condition", "State of approval and of issuance."),
    ],
    row: |request, _| {
        let lasts = at(request, "spec.expirationSeconds").and_then(Value::as_i64);
        json!([
            text_or_none(request, "spec.signerName"),
            text(request, "spec.username"),
            lasts.map_or_else(|| NONE.to_owned(), human),
            state(request)
        ])
    },
};

fn state(request: &Value) -> String {
    let has = |kind: &str| condition(request, kind).is_some();
    let mut all = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        all.push_str(",Failed");
    }
    if is_set(request, "status.certificate") {
        all.push_str(",Issued");
    }
    all
}

pub(super) const LEASES: Columns = Columns {
    headings: &[shown("Holder", "Current holder of the lease."), AGE],
    row: |lease, _| json!([text(lease, "spec.holderIdentity")]),
};
