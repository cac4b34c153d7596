//! Machine: content negotiation: the media type and shape of an answer, and the format of a body.

use steersman_apimachinery::status::{Details, Status};
use steersman_openapi::discovery::DiscoveryVersion;
use steersman_tables::MetaVersion;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    /// Protobuf in the envelope of Kubernetes (`application/vnd.kubernetes.protobuf`).
    Protobuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseShape {
    Whole,
    Table(MetaVersion),
    /// The metadata alone, of one object or (`is_list`) of each object of a list.
    Partial {
        version: MetaVersion,
        is_list: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Media {
    pub(crate) format: Format,
    pub(crate) shape: ResponseShape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discovery {
    /// Separate discovery documents, one for each group and version.
    Legacy(Format),
    /// One discovery document for all groups and versions.
    Aggregated(DiscoveryVersion),
}

/// The media types of bodies and answers, as error messages list them. Custom resources, Tables and discovery documents
/// cannot be encoded as protobuf, so a clause of an Accept header that asks for them in protobuf is skipped.
const KNOWN: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

const STREAMED: [&str; 2] = [
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// The upstream components that parse an Accept header. They accept different headers, and refuse with different
/// messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptReader {
    /// First go-restful, which knows the media types of each route, and then the handler of the route: for built-in
    /// kinds and their discovery documents.
    Route,
    /// The same as `Route`, with the media types of watch events: for lists and watches of built-in kinds.
    Watchable,
    /// The handler alone: for custom resources and the documents of the aggregator.
    Handler,
}

/// One media type of an Accept header, with its parameters, as upstream's handlers parse it (`goautoneg.ParseAccept`).
#[derive(Debug, Clone)]
struct Clause {
    kind: String,
    subtype: String,
    quality: f32,
    /// The parameters `g`, `v` and `as`, such as `as=Table`, which ask for a converted object; `None` without them.
    convert: Option<[String; 3]>,
    stream: String,
}

/// Returns the format and the shape of the answer to a request on objects. `has_message` tells whether whole objects
/// can be encoded as protobuf; their metadata alone always can.
pub(crate) fn objects(
    accept: Option<&str>,
    reader: AcceptReader,
    has_message: bool,
) -> Result<Media, Status> {
    match reader {
        AcceptReader::Route => routed(accept, &KNOWN)?,
        AcceptReader::Watchable => routed(accept, &[&KNOWN[..], &STREAMED].concat())?,
        AcceptReader::Handler => {}
    }
    for (format, clause) in servable(accept) {
        let view = clause.convert.as_ref();
        let shape = view.map_or(Some(ResponseShape::Whole), shape_of);
        let is_encodable = |shape: &ResponseShape| match (format, shape) {
            (Format::Protobuf, ResponseShape::Whole) => has_message,
            (Format::Protobuf, ResponseShape::Table(_)) => false,
            _ => true,
        };
        if let Some(shape) = shape.filter(is_encodable) {
            return Ok(Media { format, shape });
        }
    }
    Err(Status::not_acceptable(&KNOWN))
}

/// Checks that a watch can stream the negotiated format: JSON or protobuf, but not YAML.
pub(crate) fn streamed(media: Media) -> Result<Media, Status> {
    match media.format {
        Format::Json | Format::Protobuf => Ok(media),
        Format::Yaml => Err(Status::not_acceptable(&STREAMED)),
    }
}

/// Returns the format of a discovery document: JSON or YAML, and aggregated only if `has_aggregated` is set.
pub(crate) fn discovery(
    accept: Option<&str>,
    reader: AcceptReader,
    has_aggregated: bool,
) -> Result<Discovery, Status> {
    if reader != AcceptReader::Handler {
        routed(accept, &KNOWN)?;
    }
    for (format, clause) in servable(accept) {
        if format == Format::Protobuf {
            continue;
        }
        let Some([group, version, kind]) = &clause.convert else {
            return Ok(Discovery::Legacy(format));
        };
        let fits = has_aggregated && format == Format::Json;
        if !fits || group != "apidiscovery.k8s.io" || kind != "APIGroupDiscoveryList" {
            continue;
        }
        match version.as_str() {
            "v2" => return Ok(Discovery::Aggregated(DiscoveryVersion::V2)),
            "v2beta1" => return Ok(Discovery::Aggregated(DiscoveryVersion::V2Beta1)),
            _ => {}
        }
    }
    Err(Status::not_acceptable(&KNOWN))
}

/// Returns the format of an answer that has only one shape, such as a refusal; JSON if the header names no known type.
pub(crate) fn format(accept: Option<&str>) -> Format {
    let mut plain = servable(accept).filter(|(_, clause)| clause.convert.is_none());
    plain.next().map_or(Format::Json, |(format, _)| format)
}

/// Checks an Accept header as go-restful does before it calls a handler: the header must have `*/*` or literally one of
/// the media types of the route.
pub(crate) fn routed(accept: Option<&str>, available: &[&str]) -> Result<(), Status> {
    let header = accept.filter(|header| !header.is_empty()).unwrap_or("*/*");
    let mut named = header.split(',').map(|clause| {
        let end = clause.find(';').unwrap_or(clause.len());
        clause[..end].trim_matches(' ')
    });
    if named.any(|name| name == "*/*" || available.contains(&name)) {
        return Ok(());
    }
    let message = format!(
        "406: Not Acceptable\n\nAvailable representations: {}",
        available.join(", ")
    );
    Err(Status::failure(406, "NotAcceptable", message).with_details(Details::default()))
}

pub(crate) fn body(content_type: &str) -> Result<Format, Status> {
    match media_type(content_type).as_str() {
        "" | "application/json" => Ok(Format::Json),
        "application/yaml" => Ok(Format::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Format::Protobuf),
        _ => Err(Status::unsupported_media_type(&KNOWN)),
    }
}

pub(crate) fn media_type(header: &str) -> String {
    let media = header.split(';').next().unwrap_or_default();
    media.trim().to_ascii_lowercase()
}

/// Returns the clauses of an Accept header that the server can satisfy, the preferred ones first.
fn servable(accept: Option<&str>) -> impl Iterator<Item = (Format, Clause)> {
    let header = accept.filter(|header| !header.is_empty()).unwrap_or("*/*");
    let mut clauses: Vec<Clause> = Vec::new();
    for clause in header.split(',').filter_map(clause) {
        // Upstream's comparison is not an order: a clause goes before another if it is better in any respect (quality,
        // type or subtype), so the result depends on their positions. Go sorts so few clauses by insertion, which this
        // loop repeats.
        let mut at = clauses.len();
        while at > 0 && is_better(&clause, &clauses[at - 1]) {
            at -= 1;
        }
        clauses.insert(at, clause);
    }
    let formats = |clause: Clause| {
        let format = match (clause.kind.as_str(), clause.subtype.as_str()) {
            ("application", "json" | "*") | ("*", "*") => Format::Json,
            ("application", "yaml") if clause.stream.is_empty() => Format::Yaml,
            ("application", "vnd.kubernetes.protobuf") => Format::Protobuf,
            _ => return None,
        };
        matches!(clause.stream.as_str(), "" | "watch").then_some((format, clause))
    };
    clauses.into_iter().filter_map(formats)
}

fn is_better(one: &Clause, other: &Clause) -> bool {
    one.quality > other.quality
        || (one.kind != "*" && other.kind == "*")
        || (one.subtype != "*" && other.subtype == "*")
}

fn clause(text: &str) -> Option<Clause> {
    let mut parts = text.split(';');
    let (kind, subtype) = match parts.next()?.trim_matches(' ') {
        "*" => ("*", "*"),
        name => name.split_once('/')?,
    };
    if subtype.is_empty() || subtype.contains('/') {
        return None;
    }
    let mut found = Clause {
        kind: kind.trim_matches(' ').to_owned(),
        subtype: subtype.trim_matches(' ').to_owned(),
        quality: 1.0,
        convert: None,
        stream: String::new(),
    };
    for part in parts {
        let Some((name, value)) = part.split_once('=') else {
            continue;
        };
        if value.is_empty() || value.contains('=') {
            continue;
        }
        let place = match name.trim_matches(' ') {
            "q" => {
                found.quality = value.parse().unwrap_or(0.0);
                continue;
            }
            "stream" => {
                value.trim_matches(' ').clone_into(&mut found.stream);
                continue;
            }
            "g" => 0,
            "v" => 1,
            "as" => 2,
            _ => continue,
        };
        let view = found.convert.get_or_insert_default();
        value.trim_matches(' ').clone_into(&mut view[place]);
    }
    Some(found)
}

fn shape_of([group, version, kind]: &[String; 3]) -> Option<ResponseShape> {
    if group != "meta.k8s.io" {
        return None;
    }
    let version = match version.as_str() {
        "v1" => MetaVersion::V1,
        "v1beta1" => MetaVersion::V1Beta1,
        _ => return None,
    };
    match kind.as_str() {
        "Table" => Some(ResponseShape::Table(version)),
        "PartialObjectMetadata" | "PartialObjectMetadataList" => Some(ResponseShape::Partial {
            version,
            is_list: kind.ends_with("List"),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
