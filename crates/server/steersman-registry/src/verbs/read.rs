//! Machine: the get and list verbs, also for pages and past revisions.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};
use steersman_apimachinery::go;
use steersman_apimachinery::json::{parse as parse_json, quoted};
use steersman_apimachinery::status::{FieldError, Status};
use steersman_schema::resource::Resource;
use steersman_store::{Stored, Unreadable};

use crate::objects::scale::scale_object;
use crate::requests::intake::refuse_options;
use crate::requests::options::{ListQuery, ObjectTarget, StoredPage, Subresource, VersionedObject};
use crate::requests::select::Selectors;
use crate::state::registry::Registry;
use crate::values::text;

const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

impl Registry {
    /// Returns one object, or its `Scale`. `minimum` is the `resourceVersion` of the request: if the store has not
    /// reached this revision, the get fails. Empty or `None` is no minimum.
    ///
    /// # Errors
    /// 404 if the object does not exist, 504 for a future revision, 500 for a `Scale` of an object without replicas.
    pub fn get(
        &self,
        target: ObjectTarget<'_>,
        minimum: Option<&str>,
    ) -> Result<VersionedObject, Status> {
        let wanted = parse_version(minimum.unwrap_or_default()).map_err(Status::internal_plain)?;
        let newest = self.store.revision();
        if wanted > newest {
            return Err(Status::too_large_resource_version(wanted, newest));
        }
        let shown = self.present(target.resource, self.target(target)?)?;
        match target.subresource {
            Subresource::Scale => scale_object(target.resource, &shown),
            _ => Ok(shown),
        }
    }

    /// Lists the objects in one namespace, or in all if `namespace` is `None`.
    ///
    /// # Errors
    /// 400 and 422 for invalid options, 410 for a compacted revision, 504 for a future revision.
    pub fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: &ListQuery,
    ) -> Result<StoredPage, Status> {
        let selection = Selectors::parse(options)?;
        check_list_options(options)?;
        let selection = selection.of(resource, options.shard_selector.as_deref())?;
        let namespace = namespace.filter(|_| resource.namespaced);
        let version = options.resource_version.as_deref().unwrap_or_default();
        let mut limit = usize::try_from(options.limit.max(0)).unwrap_or(usize::MAX);
        let now = self.newest();
        let token = options.continue_token.as_deref();
        let token = token.filter(|token| !token.is_empty());
        let (revision, start) = if let Some(token) = token {
            if !matches!(version, "" | "0") {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(message));
            }
            let (revision, start) = decode_token(token)?;
            (revision.unwrap_or(now), Some(start))
        } else {
            let wanted = parse_version(version)
                .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
            if wanted > now {
                return Err(Status::too_large_resource_version(wanted, now));
            }
            let exact = options.resource_version_match.as_deref() == Some("Exact")
                || (options.resource_version_match.is_none() && limit > 0 && wanted > 0);
            if version == "0" {
                limit = 0;
            }
            (if exact { wanted } else { now }, None)
        };
        let all: Vec<Arc<Stored>> = if revision == self.store.revision() {
            let all = self.store.list(&resource.storage, namespace);
            all.cloned().collect()
        } else {
            let past = self.store.list_at(&resource.storage, namespace, revision);
            past.map_err(|why| unreadable(why, revision, start.as_deref()))?
        };
        let one_key = start.is_none() && (namespace.is_some() || !resource.namespaced);
        let from = start.map_or(0, |start| {
            // The objects are sorted by the key in the token, so a page cannot skip or repeat objects (SRV-STORE-5).
            all.partition_point(|stored| key(stored, namespace.is_some()) < start)
        });
        let place = (revision, namespace.is_some());
        let all = all.into_iter().skip(from);
        let rest: Vec<_> = all
            .filter(|stored| limit == 0 || selection.reaches(resource, one_key, stored))
            .collect();
        let page = self.page(resource, &rest, &selection, limit, place);
        if page.is_err() {
            self.pin(now);
        }
        page
    }

    fn page(
        &self,
        resource: &Resource,
        rest: &[Arc<Stored>],
        selection: &Selectors,
        limit: usize,
        (revision, in_namespace): (u64, bool),
    ) -> Result<StoredPage, Status> {
        let mut page = StoredPage {
            revision,
            shard: selection.shard(),
            ..StoredPage::default()
        };
        let mut found: Vec<Arc<Stored>> = Vec::new();
        for (at, stored) in rest.iter().enumerate() {
            if selection.matches(stored) {
                found.push(Arc::clone(stored));
            }
            if limit > 0 && found.len() == limit {
                // As in `GetList` of upstream's cacher: if any object follows a full page, the page has a continue
                // token, even if the selectors match none of those objects.
                let left = rest.len() - at - 1;
                if left > 0 {
                    let start = format!("{}\0", key(stored, in_namespace));
                    page.continue_token = Some(encode_token(Some(revision), &start));
                    let left = u64::try_from(left).unwrap_or(u64::MAX);
                    page.remaining = selection.is_empty().then_some(left);
                }
                break;
            }
        }
        page.items = self.present_all(resource, &found)?;
        Ok(page)
    }
}

fn key(stored: &Stored, in_namespace: bool) -> String {
    if in_namespace {
        stored.name.to_string()
    } else {
        stored.key()
    }
}

fn unreadable(why: Unreadable, revision: u64, start: Option<&str>) -> Status {
    match (why, start) {
        (Unreadable::Future { current }, _) => {
            Status::too_large_resource_version(revision, current)
        }
        (Unreadable::Compacted, None) => {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
        (Unreadable::Compacted, Some(start)) => {
            let mut status = Status::expired(EXPIRED);
            status.metadata.continue_token = encode_token(None, start);
            status
        }
    }
}

/// Parses a resource version; an empty text is 0.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        let quoted = Value::String(text.to_owned());
        let why = if digits {
            "value out of range"
        } else {
            "invalid syntax"
        };
        format!(
            "resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}"
        )
    })
}

fn check_list_options(options: &ListQuery) -> Result<(), Status> {
    const FIELD: &str = "resourceVersionMatch";
    let mut errors = Vec::new();
    let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let wanted = options.resource_version_match.as_deref();
    if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
        if given(&options.continue_token) {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(FIELD, detail));
        } else if !given(&options.resource_version) {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(FIELD, detail));
        }
        if !matches!(wanted, "Exact" | "NotOlderThan") {
            let supported = ["Exact", "NotOlderThan", ""].map(|s| format!("\"{s}\""));
            let wanted = go::quote(wanted);
            errors.push(FieldError::not_supported(FIELD, &wanted, &supported));
        }
        if wanted == "Exact" && options.resource_version.as_deref() == Some("0") {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(FIELD, detail));
        }
    }
    if options.send_initial_events.is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden("sendInitialEvents", detail));
    }
    refuse_options("ListOptions", &errors)
}

/// Encodes a continue token. `revision` is the list's revision; `None` to continue with objects at the newest revision.
/// `start` is `namespace/name` or `name` of the last object on the page, followed by a zero byte, so that the next page
/// does not repeat this object.
fn encode_token(revision: Option<u64>, start: &str) -> String {
    let revision = revision.map_or(json!(-1), |revision| json!(revision));
    let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start});
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token.to_string())
}

/// Returns the revision and the start in a continue token.
fn decode_token(token: &str) -> Result<(Option<u64>, String), Status> {
    let refuse = |why: String| {
        Status::bad_request(format!(
            "invalid continue token: continue key is not valid: {why}"
        ))
    };
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone);
    let bytes = GeneralPurpose::new(&base64::alphabet::URL_SAFE, lenient)
        .decode(token.trim_end_matches('='))
        .map_err(|error| {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _)
                | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                _ => token.len(),
            };
            refuse(format!("illegal base64 data at input byte {at}"))
        })?;
    let parsed = match std::str::from_utf8(&bytes) {
        Ok(_) => parse_json(&bytes).map_err(refuse)?,
        // For invalid UTF-8, Go prints the first byte as a Latin-1 character.
        Err(_) => {
            let first = char::from(bytes.first().copied().unwrap_or_default());
            return Err(refuse(format!(
                "invalid character {} looking for beginning of value",
                quoted(first)
            )));
        }
    };
    let version = text(&parsed["v"]);
    if version != "meta.k8s.io/v1" {
        let why = format!("server does not recognize this encoded version {version}");
        return Err(refuse(why));
    }
    let start = text(&parsed["start"]).to_owned();
    let revision = match parsed["rv"].as_i64().unwrap_or_default() {
        0 => {
            let why = "incorrect encoded start resourceVersion (version meta.k8s.io/v1)";
            return Err(refuse(why.to_owned()));
        }
        revision => u64::try_from(revision).ok(),
    };
    if start.is_empty() {
        let why = "empty start key (version meta.k8s.io/v1)";
        return Err(refuse(why.to_owned()));
    }
    if start.split('/').any(|part| part == "..") {
        return Err(refuse(start));
    }
    Ok((revision, start))
}
