//! Machine: answers requests for the metadata and the keys of the issuer of ServiceAccounts' tokens.

use steersman_apimachinery::status::Status;
use steersman_registry::Registry;

use crate::http::documents::serve::DocumentRequest;
use crate::http::requests::call::HttpRefusal;
use crate::http::requests::negotiate;
use crate::http::requests::path::IssuerDocument;
use crate::http::responses::reply::{HttpOutcome, JSON, Reply};

const KEY_SET: &str = "application/jwk-set+json";
/// The `Cache-Control` header of the metadata and of the key set: an hour, as in kube-apiserver.
const CACHE_CONTROL: &str = "public, max-age=3600";

/// Answers with the metadata or the keys of the token issuer; 404 if the issuer is no URL and so has no metadata.
pub(crate) fn answer(
    document: IssuerDocument,
    ask: &DocumentRequest<'_>,
    registry: &Registry,
) -> HttpOutcome {
    let metadata = registry
        .issuer_metadata()
        .ok_or(HttpRefusal::PageNotFound)?;
    if ask.method != "GET" {
        return Err(Status::method_not_allowed().into());
    }
    let (content_type, body) = match document {
        IssuerDocument::Metadata => (JSON, metadata),
        IssuerDocument::Keys => (KEY_SET, registry.issuer_keys()),
    };
    negotiate::routed(ask.accept, &[content_type])?;
    let mut reply = Reply::new(200, content_type, body.to_string());
    reply.cache_control = CACHE_CONTROL;
    Ok(reply)
}
