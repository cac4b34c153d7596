//! Machine: which media type and shape an answer takes, and which a body came in.

use crate::status::{Details, Status};

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// The version of `meta.k8s.io` that a Table or a PartialObjectMetadata is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    /// `meta.k8s.io/v1`.
    V1,
    /// `meta.k8s.io/v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion`.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Which view of the objects is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The objects as they are.
    Whole,
    /// A Table with a row per object.
    Table(MetaVersion),
    /// The metadata of one object.
    Partial(MetaVersion),
    /// The metadata of a list's objects.
    PartialList(MetaVersion),
}

/// A media type that was chosen from an Accept header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Media {
    /// How it is written.
    pub(crate) format: Format,
    /// What is written.
    pub(crate) shape: Shape,
}

/// The version of the aggregated discovery documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiscoveryVersion {
    /// `apidiscovery.k8s.io/v2`.
    V2,
    /// `apidiscovery.k8s.io/v2beta1`.
    V2Beta1,
}

/// What a discovery document is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discovery {
    /// The documents of old: one per group and version.
    Legacy(Format),
    /// All in one.
    Aggregated(DiscoveryVersion),
}

/// How the body of a write is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    /// JSON, also where no type is given.
    Json,
    /// YAML.
    Yaml,
    /// Protobuf, which Kubernetes' own kinds can be written in.
    Protobuf,
}

/// The media types of bodies and answers, as refusals name them. No answer is in protobuf: every
/// client that takes it takes JSON too.
const KNOWN: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

struct Clause {
    format: Option<Format>,
    as_kind: Option<String>,
    group: String,
    version: String,
}

/// Chooses how objects are answered. `status` answers keep the format alone.
pub(crate) fn objects(accept: Option<&str>) -> Result<Media, Status> {
    let clauses = servable(accept)?;
    for (format, clause) in &clauses {
        if let Some(shape) = shape_of(clause) {
            return Ok(Media {
                format: *format,
                shape,
            });
        }
    }
    Err(Status::not_acceptable(&KNOWN))
}

/// Chooses how a discovery document is answered; only some paths have an aggregated form.
pub(crate) fn discovery(accept: Option<&str>, has_aggregated: bool) -> Result<Discovery, Status> {
    let clauses = servable(accept)?;
    for (format, clause) in &clauses {
        match clause.as_kind.as_deref() {
            None => return Ok(Discovery::Legacy(*format)),
            Some("APIGroupDiscoveryList")
                if has_aggregated
                    && clause.group == "apidiscovery.k8s.io"
                    && *format == Format::Json =>
            {
                match clause.version.as_str() {
                    "v2" => return Ok(Discovery::Aggregated(DiscoveryVersion::V2)),
                    "v2beta1" => return Ok(Discovery::Aggregated(DiscoveryVersion::V2Beta1)),
                    _ => {}
                }
            }
            Some(_) => {}
        }
    }
    Err(Status::not_acceptable(&KNOWN))
}

/// The format of an answer that has no shapes, such as a refusal: JSON where nothing else fits.
pub(crate) fn format(accept: Option<&str>) -> Format {
    servable(accept)
        .ok()
        .and_then(|clauses| clauses.first().map(|(format, _)| *format))
        .unwrap_or(Format::Json)
}

/// Reads the Content-Type of a create, an update or a delete.
pub(crate) fn body(content_type: Option<&str>) -> Result<BodyFormat, Status> {
    match media_type(content_type.unwrap_or_default()).as_str() {
        "" | "application/json" => Ok(BodyFormat::Json),
        "application/yaml" => Ok(BodyFormat::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(BodyFormat::Protobuf),
        _ => Err(Status::unsupported_media_type(&KNOWN)),
    }
}

/// A media type in lower case without its parameters.
pub(crate) fn media_type(header: &str) -> String {
    header
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// The clauses of an Accept header whose media type can be produced, the preferred ones first.
fn servable(accept: Option<&str>) -> Result<Vec<(Format, Clause)>, Status> {
    let header = accept
        .map(str::trim)
        .filter(|header| !header.is_empty())
        .unwrap_or("*/*");
    let mut clauses: Vec<(f32, Clause)> = header.split(',').filter_map(clause).collect();
    // The sort is stable, so of equals the first that was named wins.
    clauses.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    let servable: Vec<(Format, Clause)> = clauses
        .into_iter()
        .filter_map(|(_, clause)| Some((clause.format?, clause)))
        .collect();
    if servable.is_empty() {
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            KNOWN.join(", ")
        );
        return Err(Status::failure(406, "NotAcceptable", message).with_details(Details::default()));
    }
    Ok(servable)
}

fn clause(text: &str) -> Option<(f32, Clause)> {
    let mut parts = text.split(';').map(str::trim);
    let format = match parts.next()?.to_ascii_lowercase().as_str() {
        "application/json" | "*/*" => Some(Format::Json),
        "application/yaml" => Some(Format::Yaml),
        _ => None,
    };
    let mut found = Clause {
        format,
        as_kind: None,
        group: String::new(),
        version: String::new(),
    };
    let mut quality = 1.0_f32;
    for part in parts {
        let Some((name, value)) = part.split_once('=') else {
            continue;
        };
        let value = value.trim().trim_matches('"');
        match name.trim() {
            "as" => found.as_kind = Some(value.to_owned()),
            "g" => value.clone_into(&mut found.group),
            "v" => value.clone_into(&mut found.version),
            "q" => quality = value.parse().unwrap_or(0.0),
            _ => {}
        }
    }
    Some((quality, found))
}

fn shape_of(clause: &Clause) -> Option<Shape> {
    let Some(kind) = clause.as_kind.as_deref() else {
        return Some(Shape::Whole);
    };
    if clause.group != "meta.k8s.io" {
        return None;
    }
    let version = match clause.version.as_str() {
        "v1" => MetaVersion::V1,
        "v1beta1" => MetaVersion::V1Beta1,
        _ => return None,
    };
    match kind {
        "Table" => Some(Shape::Table(version)),
        "PartialObjectMetadata" => Some(Shape::Partial(version)),
        "PartialObjectMetadataList" => Some(Shape::PartialList(version)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(accept: &str) -> Shape {
        objects(Some(accept)).unwrap().shape
    }

    #[test]
    fn kubectl_asks_for_tables_first() {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                      application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(shape(accept), Shape::Table(MetaVersion::V1));
        assert_eq!(
            shape("application/vnd.kubernetes.protobuf, application/json"),
            Shape::Whole
        );
    }

    #[test]
    fn an_unknown_view_is_passed_over_where_another_type_follows() {
        let gadget = "application/json;as=Gadget;v=v1;g=meta.k8s.io";
        assert_eq!(shape(&format!("{gadget}, application/json")), Shape::Whole);
        let refused = objects(Some(gadget)).unwrap_err();
        assert!(
            refused
                .message
                .starts_with("only the following media types"),
            "{refused}"
        );
        assert!(objects(Some("application/json;as=Table;v=v9;g=meta.k8s.io")).is_err());
        assert!(objects(Some("application/json;as=Table;v=v1;g=other")).is_err());
    }

    #[test]
    fn types_that_cannot_be_served_are_refused() {
        for accept in [
            "text/html",
            "application/*",
            "image/png",
            "application/vnd.kubernetes.protobuf",
        ] {
            let refused = objects(Some(accept)).unwrap_err();
            assert_eq!(refused.code, 406);
            assert!(
                refused
                    .message
                    .starts_with("406: Not Acceptable\n\nAvailable"),
                "{refused}"
            );
        }
        for accept in [
            None,
            Some(""),
            Some("*/*"),
            Some("text/html, application/json"),
        ] {
            assert_eq!(objects(accept).unwrap().format, Format::Json);
        }
    }

    #[test]
    fn quality_orders_and_equals_keep_their_order() {
        let accept = "application/json;q=0.1, application/yaml;q=0.9";
        assert_eq!(format(Some(accept)), Format::Yaml);
        assert_eq!(
            format(Some("application/yaml, application/json")),
            Format::Yaml
        );
        assert_eq!(format(Some("text/html")), Format::Json);
    }

    #[test]
    fn aggregated_discovery_where_there_is_one() {
        let accept =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(
            discovery(Some(accept), true).unwrap(),
            Discovery::Aggregated(DiscoveryVersion::V2)
        );
        assert_eq!(
            discovery(Some(accept), false).unwrap(),
            Discovery::Legacy(Format::Json)
        );
        let only = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(discovery(Some(only), false).unwrap_err().code, 406);
    }

    #[test]
    fn bodies_are_json_yaml_or_protobuf() {
        assert_eq!(body(None).unwrap(), BodyFormat::Json);
        assert_eq!(
            body(Some("Application/JSON; charset=utf-8")).unwrap(),
            BodyFormat::Json
        );
        assert_eq!(body(Some("application/yaml")).unwrap(), BodyFormat::Yaml);
        assert_eq!(
            body(Some("application/vnd.kubernetes.protobuf")).unwrap(),
            BodyFormat::Protobuf
        );
        let refused = body(Some("application/cbor")).unwrap_err();
        assert_eq!(refused.code, 415);
        assert!(
            refused.message.ends_with(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf"
            ),
            "{refused}"
        );
    }
}
