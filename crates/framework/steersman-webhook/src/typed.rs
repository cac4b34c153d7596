//! Machine: decodes the objects of a request into Rust types.

use serde_json::Value;
use steersman_object::{Gvk, Object, decode_value};

use crate::refusal::{Refusal, failed};
use crate::request::AdmissionRequest;

/// Decodes an object of a request into a Rust type.
///
/// # Errors
///
/// A 400 that names the invalid field, without values of Secrets.
pub(crate) fn decoded<K: Object>(
    request: &AdmissionRequest,
    object: Option<&Value>,
    what: &str,
) -> Result<K, Refusal> {
    let kind = &request.kind;
    let Some(object) = object else {
        return Err(failed(400, format_args!("the request has no {what}")));
    };
    let quotes = !(kind.group().is_empty() && kind.kind() == "Secret");
    decode_value(object, quotes).map_err(|problem| {
        let text = format_args!("the {what} cannot be read as {kind}: {problem}");
        failed(400, text)
    })
}

/// Checks that a request has the kind that its webhook expects (ADMIT-3).
pub(crate) fn check_kind(request: &AdmissionRequest, expected: &Gvk) -> Result<(), Refusal> {
    if request.kind == *expected {
        return Ok(());
    }
    let of = match &request.subresource {
        Some(subresource) => format!(" of the subresource {subresource}"),
        None => String::new(),
    };
    let found = &request.kind;
    let text = format_args!(
        "this webhook decides {expected} and was sent {found}{of}: correct the rules of its configuration"
    );
    Err(failed(400, text))
}
