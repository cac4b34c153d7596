//! Tests of content negotiation.

use super::*;

fn shape(accept: &str) -> ResponseShape {
    objects(Some(accept), AcceptReader::Route, true)
        .unwrap()
        .shape
}

#[test]
fn kubectl_asks_for_tables_first() {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                  application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    assert_eq!(shape(accept), ResponseShape::Table(MetaVersion::V1));
    assert_eq!(
        shape("application/vnd.kubernetes.protobuf, application/json"),
        ResponseShape::Whole
    );
}

#[test]
fn an_unknown_view_is_skipped_if_another_type_follows() {
    let gadget = "application/json;as=Gadget;v=v1;g=meta.k8s.io";
    assert_eq!(
        shape(&format!("{gadget}, application/json")),
        ResponseShape::Whole
    );
    let refused = objects(Some(gadget), AcceptReader::Route, true).unwrap_err();
    assert!(
        refused
            .message
            .starts_with("only the following media types"),
        "{refused}"
    );
    for none in [
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=other",
        "application/json;v=v1",
        "application/json;stream=other",
        "application/yaml;stream=watch",
    ] {
        assert!(
            objects(Some(none), AcceptReader::Route, true).is_err(),
            "{none}"
        );
    }
}

#[test]
fn types_that_cannot_be_served_are_refused() {
    let refusal = |accept, reader| objects(Some(accept), reader, false).unwrap_err().message;
    for accept in [
        "text/html", "application/*", "image/png", "APPLICATION/JSON", ",",
    ] {
        assert_eq!(
            refusal(accept, AcceptReader::Route),
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
        );
    }
    assert!(refusal("text/html", AcceptReader::Watchable).ends_with(
        "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    ));
    let protobuf = "application/vnd.kubernetes.protobuf";
    for (accept, reader) in [
        (protobuf, AcceptReader::Route),
        ("text/html", AcceptReader::Handler),
    ] {
        let message = refusal(accept, reader);
        assert!(message.starts_with("only the following"), "{message}");
    }
    assert!(objects(Some("application/*"), AcceptReader::Handler, false).is_ok());
    for accept in [
        None,
        Some(""),
        Some("*/*"),
        Some("text/html, application/json"),
    ] {
        assert_eq!(
            objects(accept, AcceptReader::Route, true).unwrap().format,
            Format::Json
        );
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
    let table = "application/yaml;as=Table;v=v1;g=meta.k8s.io";
    assert_eq!(format(Some(table)), Format::Json);
    // A concrete type goes before `*/*`, unless `*/*` has the better quality.
    assert_eq!(format(Some("*/*, application/yaml")), Format::Yaml);
    assert_eq!(
        format(Some("application/yaml;q=0.1, */*;q=0.9")),
        Format::Json
    );
}

#[test]
fn protobuf_is_skipped_where_it_cannot_be_served() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let both = format!("{PROTOBUF}, application/json");
    let view = |kind: &str| format!("{PROTOBUF};as={kind};v=v1;g=meta.k8s.io");
    let media = |accept: &str, has_message| {
        let found = objects(Some(accept), AcceptReader::Handler, has_message);
        found.ok().map(|media| (media.format, media.shape))
    };
    let partial = ResponseShape::Partial {
        version: MetaVersion::V1,
        is_list: false,
    };
    for (accept, has_message, expected) in [
        (
            both.clone(),
            true,
            Some((Format::Protobuf, ResponseShape::Whole)),
        ),
        (
            both.clone(),
            false,
            Some((Format::Json, ResponseShape::Whole)),
        ),
        (PROTOBUF.to_owned(), false, None),
        (
            view("PartialObjectMetadata"),
            false,
            Some((Format::Protobuf, partial)),
        ),
        (view("Table"), true, None),
    ] {
        assert_eq!(media(&accept, has_message), expected, "{accept}");
    }
    assert_eq!(format(Some(&both)), Format::Protobuf);
    assert!(discovery(Some(PROTOBUF), AcceptReader::Route, true).is_err());
    assert_eq!(
        discovery(Some(&both), AcceptReader::Route, true).unwrap(),
        Discovery::Legacy(Format::Json)
    );
}

#[test]
fn only_some_paths_have_aggregated_discovery() {
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    assert_eq!(
        discovery(Some(accept), AcceptReader::Route, true).unwrap(),
        Discovery::Aggregated(DiscoveryVersion::V2)
    );
    assert_eq!(
        discovery(Some(accept), AcceptReader::Route, false).unwrap(),
        Discovery::Legacy(Format::Json)
    );
    let only = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    assert_eq!(
        discovery(Some(only), AcceptReader::Route, false)
            .unwrap_err()
            .code,
        406
    );
}

#[test]
fn bodies_are_json_yaml_or_protobuf() {
    assert_eq!(body("").unwrap(), Format::Json);
    assert_eq!(
        body("Application/JSON; charset=utf-8").unwrap(),
        Format::Json
    );
    assert_eq!(body("application/yaml").unwrap(), Format::Yaml);
    assert_eq!(
        body("application/vnd.kubernetes.protobuf").unwrap(),
        Format::Protobuf
    );
    let refused = body("application/cbor").unwrap_err();
    assert_eq!(refused.code, 415);
    assert!(
        refused
            .message
            .ends_with("application/json, application/yaml, application/vnd.kubernetes.protobuf"),
        "{refused}"
    );
}
