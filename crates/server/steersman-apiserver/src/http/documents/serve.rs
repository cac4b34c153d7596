//! Machine: answers requests for documents: health, version, discovery, OpenAPI.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use steersman_apimachinery::status::Status;
use steersman_openapi::{discovery, groups, v2, v3};
use steersman_schema::resource::Resource;
use steersman_schema::types::Descriptions;

use crate::http::documents::cache::{Document, DocumentCache};
use crate::http::documents::health;
use crate::http::requests::call::HttpRefusal;
use crate::http::requests::negotiate::{self, AcceptReader, Discovery, Format};
use crate::http::requests::path::PathRoute;
use crate::http::requests::query::Query;
use crate::http::responses::reply::{HttpOutcome, JSON, Reply};

/// The minor version of the Kubernetes release that the server follows.
const MINOR: &str = "36";

#[derive(Debug)]
pub(crate) struct DocumentRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) accept: Option<&'a str>,
    pub(crate) query: &'a Query,
    pub(crate) if_none_match: Option<&'a str>,
    pub(crate) has_issuer: bool,
    pub(crate) log_failure: Option<Arc<str>>,
}

/// Answers a request for a document. `Unknown`, and the routes that other code answers (`Objects`, `Metrics` and
/// `Issuer`), get the 404 page for unknown paths.
pub(crate) fn answer(
    route: &PathRoute,
    ask: &DocumentRequest<'_>,
    resources: &[Arc<Resource>],
    cache: &mut DocumentCache,
) -> HttpOutcome {
    match route {
        PathRoute::Health { endpoint, check } => health::answer(
            endpoint,
            check.as_deref(),
            ask.query,
            ask.log_failure.as_deref(),
        )
        .ok_or(HttpRefusal::PageNotFound),
        PathRoute::Root => Ok(paths(resources, ask.has_issuer)),
        // As upstream, the OpenAPI routes accept every HTTP method, so they come before the check for GET.
        PathRoute::OpenApiV2 if v2::is_accepted(ask.accept) => {
            let mut reply = openapi_v2(ask, resources, cache, "protobuf", v2::protobuf);
            if reply.code == 200 {
                reply.content_type = v2::CONTENT_TYPE;
            }
            Ok(reply)
        }
        PathRoute::OpenApiV2 if v2::is_unknown(ask.accept) => Ok(Reply::new(406, "", "")),
        PathRoute::OpenApiV2 => Ok(openapi_v2(ask, resources, cache, "json", v2::json)),
        PathRoute::OpenApi(path) => Ok(found(openapi_v3(resources, path, cache), ask)),
        PathRoute::OpenApiIndex => {
            let made = cache.get(resources, "openapi/v3", || Some(index(resources)));
            Ok(found(made, ask))
        }
        PathRoute::Objects(_) | PathRoute::Metrics | PathRoute::Issuer(_) | PathRoute::Unknown => {
            Err(HttpRefusal::PageNotFound)
        }
        PathRoute::NoSuchPath(group) if serves(resources, group) => {
            Err(Status::no_such_path().into())
        }
        PathRoute::NoSuchPath(_) => Err(HttpRefusal::PageNotFound),
        // Upstream, the aggregator answers `/apis` and `/apis/<group>`, and accepts every HTTP method.
        PathRoute::Groups => root(ask, resources, AcceptReader::Handler, cache),
        PathRoute::Group(name) => group(name, ask, resources),
        // As upstream, methods other than GET on `/apis/<group>/<version>` are refused only for built-in groups.
        PathRoute::Resources { group, .. } if ask.method != "GET" && serves(resources, group) => {
            Err(Status::method_not_allowed().into())
        }
        PathRoute::Resources { group, version } => resources_of(ask, resources, group, version),
        _ if ask.method != "GET" => Err(Status::method_not_allowed().into()),
        PathRoute::Version => {
            negotiate::routed(ask.accept, &[JSON])?;
            Ok(Reply::new(200, JSON, version()))
        }
        PathRoute::CoreVersions => root(ask, resources, AcceptReader::Route, cache),
    }
}

fn resources_of(
    ask: &DocumentRequest<'_>,
    resources: &[Arc<Resource>],
    group: &str,
    version: &str,
) -> HttpOutcome {
    let built_in = serves(resources, group);
    let reader = match built_in {
        true => AcceptReader::Route,
        false => AcceptReader::Handler,
    };
    let format = legacy(ask, reader)?;
    match discovery::version(resources, group, version) {
        Some(document) => Ok(Reply::document(200, &document, format)),
        None if built_in => Err(Status::no_such_path().into()),
        None => Err(HttpRefusal::PageNotFound),
    }
}

/// Returns whether a group has built-in resources; otherwise its unknown paths get the 404 page and no Status.
pub(crate) fn serves(resources: &[Arc<Resource>], group: &str) -> bool {
    resources
        .iter()
        .any(|known| known.built_in && known.group == group)
}

/// Answers `/`: the list of served paths, without those of objects.
fn paths(resources: &[Arc<Resource>], has_issuer: bool) -> Reply {
    let mut paths: Vec<String> = [
        "/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    if has_issuer {
        let issuer = ["/.well-known/openid-configuration", "/openid/v1/jwks"];
        paths.extend(issuer.map(str::to_owned));
    }
    for path in v3::paths(resources) {
        if let Some((group, _)) = path.rsplit_once('/') {
            paths.push(format!("/{group}"));
        }
        paths.push(format!("/openapi/v3/{path}"));
        paths.push(format!("/{path}"));
    }
    paths.sort();
    paths.dedup();
    let text = serde_json::to_vec_pretty(&json!({ "paths": paths }));
    Reply::new(200, JSON, text.unwrap_or_default())
}

fn group(name: &str, ask: &DocumentRequest<'_>, resources: &[Arc<Resource>]) -> HttpOutcome {
    let document = discovery::group(resources, name).ok_or(HttpRefusal::PageNotFound)?;
    let format = legacy(ask, AcceptReader::Handler)?;
    Ok(Reply::document(200, &document, format))
}

fn root(
    ask: &DocumentRequest<'_>,
    resources: &[Arc<Resource>],
    reader: AcceptReader,
    cache: &mut DocumentCache,
) -> HttpOutcome {
    let core = reader == AcceptReader::Route;
    match negotiate::discovery(ask.accept, reader, true)? {
        Discovery::Aggregated(version) => {
            let name = format!("{version:?} {core}");
            let document = cache.get(resources, &name, || {
                let value = discovery::aggregated(resources, core, version);
                // As in kube-apiserver, aggregated discovery is encoded like an object, so it ends with a line break.
                let bytes = format!("{value}\n").into();
                let tag = discovery::etag(&value);
                Some(Document { bytes, tag })
            });
            let mut reply = tagged(document.ok_or(HttpRefusal::PageNotFound)?, ask);
            reply.content_type = discovery::aggregated_content_type(version);
            Ok(reply)
        }
        Discovery::Legacy(format) => {
            let document = if core {
                discovery::core_versions()
            } else {
                discovery::groups(resources)
            };
            Ok(Reply::document(200, &document, format))
        }
    }
}

fn legacy(ask: &DocumentRequest<'_>, reader: AcceptReader) -> Result<Format, HttpRefusal> {
    match negotiate::discovery(ask.accept, reader, false)? {
        Discovery::Legacy(format) => Ok(format),
        Discovery::Aggregated(_) => Ok(Format::Json),
    }
}

/// Answers with the OpenAPI v2 document in one encoding: JSON or protobuf. Both have the same `ETag`, as upstream.
fn openapi_v2(
    ask: &DocumentRequest<'_>,
    resources: &[Arc<Resource>],
    cache: &mut DocumentCache,
    encoding: &str,
    make: fn(&[Arc<Resource>]) -> Vec<u8>,
) -> Reply {
    let tag = v3::tag(resources.iter());
    if ask.if_none_match.is_some_and(|known| known.contains(&tag)) {
        let bytes = Bytes::new();
        return tagged(Document { bytes, tag }, ask);
    }
    let made = cache.get(resources, &format!("openapi/v2 {encoding}"), || {
        let bytes = make(resources).into();
        Some(Document { bytes, tag })
    });
    found(made, ask)
}

fn openapi_v3(
    resources: &[Arc<Resource>],
    path: &str,
    cache: &mut DocumentCache,
) -> Option<Document> {
    cache.get(resources, &format!("openapi/v3/{path}"), || {
        if let Some(tag) = v3::tag_of(resources, path) {
            let json = v3::json(resources, path, &Descriptions::unpack())?;
            let bytes = json.into();
            return Some(Document { bytes, tag });
        }
        let mut value = groups::document(resources, path)?;
        // The index (`/openapi/v3`) has a hash of this document without descriptions. The `ETag` must be the same hash,
        // so the hash is computed before the descriptions are added.
        let tag = discovery::etag(&value);
        if let Value::Object(schemas) = &mut value["components"]["schemas"] {
            Descriptions::unpack().add_to(schemas);
        }
        let bytes = value.to_string().into();
        Some(Document { bytes, tag })
    })
}

fn index(resources: &[Arc<Resource>]) -> Document {
    let paths = v3::paths(resources);
    let tags = paths.filter_map(|path| Some((path.clone(), v3::tag_of(resources, &path)?)));
    let groups = groups::paths(resources).filter_map(|path| {
        let tag = discovery::etag(&groups::document(resources, &path)?);
        Some((path, tag))
    });
    let value = v3::index(tags.chain(groups).collect());
    Document {
        bytes: value.to_string().into(),
        tag: discovery::etag(&value),
    }
}

fn found(document: Option<Document>, ask: &DocumentRequest<'_>) -> Reply {
    match document {
        Some(document) => tagged(document, ask),
        None => Reply::new(404, "", ""),
    }
}

/// Answers 304 if the header `If-None-Match` has the tag of the document, otherwise with the document.
fn tagged(document: Document, ask: &DocumentRequest<'_>) -> Reply {
    let known = ask.if_none_match.unwrap_or_default();
    let mut reply = if known.contains(&document.tag) {
        Reply::new(304, "", "")
    } else {
        Reply::new(200, JSON, document.bytes)
    };
    reply.etag = Some(document.tag);
    reply
}

/// Returns the JSON of `/version`, indented as by a kube-apiserver.
fn version() -> String {
    let platform = format!("{}/{}", std::env::consts::OS, architecture());
    let git_version = format!("v1.{MINOR}.0");
    let members = [
        ("major", "1"),
        ("minor", MINOR),
        ("emulationMajor", "1"),
        ("emulationMinor", MINOR),
        ("minCompatibilityMajor", "1"),
        ("minCompatibilityMinor", "35"),
        ("gitVersion", &git_version),
        ("gitCommit", ""),
        ("gitTreeState", ""),
        ("buildDate", "1970-01-01T00:00:00Z"),
        // The version of Go with which kube-apiserver 1.36 is built.
        ("goVersion", "go1.26"),
        ("compiler", "rustc"),
        ("platform", &platform),
    ];
    let lines = members.map(|(name, value)| format!("  \"{name}\": \"{value}\""));
    format!("{{\n{}\n}}", lines.join(",\n"))
}

/// Returns the processor architecture as Go, and so every Kubernetes client, spells it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
