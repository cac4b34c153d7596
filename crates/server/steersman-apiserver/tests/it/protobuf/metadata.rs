//! Metadata alone, custom kinds, and views without a form in protobuf.

use serde_json::{Value, json};
use steersman_protobuf::{Envelope, Message, encode_text};

use super::{PROTOBUF, decoded_message, get_as, pod, without_type};
use crate::support::{CONFIG_MAPS, WEBSITES, create_config_maps, server, website, website_crd};

fn view(format: &str, kind: &str, version: &str) -> String {
    format!("{format};as={kind};v={version};g=meta.k8s.io")
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_the_same_in_both_encodings() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    server.create(website("w")).unwrap();
    server.create(pod("p")).unwrap();
    let pods = "/api/v1/namespaces/default/pods";
    for path in [WEBSITES, pods] {
        let name = if path == pods { "p" } else { "w" };
        let one = format!("{path}/{name}");
        let kind = "PartialObjectMetadata";
        let json = get_as(&server, &one, &view("application/json", kind, "v1")).await;
        let protobuf = get_as(&server, &one, &view(PROTOBUF, kind, "v1")).await;
        assert_eq!((protobuf.status, protobuf.content_type()), (200, PROTOBUF));
        assert_eq!(protobuf.value(), json.value());
        let kind = "PartialObjectMetadataList";
        let json = get_as(&server, path, &view("application/json", kind, "v1")).await;
        let protobuf = get_as(&server, path, &view(PROTOBUF, kind, "v1")).await;
        let mut json = json.value();
        let items = json["items"].as_array().unwrap();
        json["items"] = items.iter().map(without_type).collect();
        assert_eq!(protobuf.value(), json);
    }
    // A view that does not fit is refused in protobuf.
    let refused = get_as(
        &server,
        pods,
        &view(PROTOBUF, "PartialObjectMetadata", "v1"),
    )
    .await;
    assert_eq!(
        (refused.status, refused.content_type()),
        (406, "application/json")
    );
}

/// A list of `meta.k8s.io/v1beta1` has the numbers of its two fields the other way round.
#[tokio::test(start_paused = true)]
async fn metadata_of_v1beta1_has_its_own_numbers() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let kind = "PartialObjectMetadataList";
    let json = get_as(
        &server,
        CONFIG_MAPS,
        &view("application/json", kind, "v1beta1"),
    )
    .await;
    let json = json.value();
    assert_eq!(json["apiVersion"], "meta.k8s.io/v1beta1");
    let protobuf = get_as(&server, CONFIG_MAPS, &view(PROTOBUF, kind, "v1beta1")).await;
    let envelope = Envelope::open(&protobuf.body).unwrap();
    assert_eq!(
        (&*envelope.api_version, &*envelope.kind),
        ("meta.k8s.io/v1beta1", kind)
    );
    // Field 1 with a length of two bytes holds the item, field 2 the metadata.
    let raw = envelope.raw;
    assert_eq!(raw[0], 1 << 3 | 2);
    let length = usize::from(raw[1] & 0x7f) | usize::from(raw[2]) << 7;
    let (item, rest) = raw[3..].split_at(length);
    assert_eq!(
        (rest[0], usize::from(rest[1])),
        (2 << 3 | 2, rest.len() - 2)
    );
    let message = |name| Message::named(name).unwrap();
    let item = decoded_message(message("meta.v1.PartialObjectMetadata"), item);
    assert_eq!(item, without_type(&json["items"][0]));
    let metadata = decoded_message(message("meta.v1.ListMeta"), &rest[2..]);
    assert_eq!(metadata, json["metadata"]);
}

#[tokio::test(start_paused = true)]
async fn whole_custom_objects_tables_and_documents_are_never_protobuf() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    server.create(website("w")).unwrap();
    let both = format!("{PROTOBUF},application/json");
    let one = format!("{WEBSITES}/w");
    for path in [
        WEBSITES,
        &one,
        &format!("{one}/scale"),
        "/apis",
        "/api",
        "/apis/apps/v1",
    ] {
        let answer = get_as(&server, path, &both).await;
        assert_eq!(
            (answer.status, answer.content_type()),
            (200, "application/json"),
            "{path}"
        );
        let refused = get_as(&server, path, PROTOBUF).await;
        assert_eq!(
            (refused.status, refused.content_type()),
            (406, PROTOBUF),
            "{path}"
        );
        let message = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "NotAcceptable", "code": 406,
        });
        assert_eq!(refused.value(), status, "{path}");
    }
    // A definition is of a built-in kind.
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/websites.example.com";
    let definition = get_as(&server, path, PROTOBUF).await;
    let json = get_as(&server, path, "application/json").await;
    let message = Message::of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let encoded = encode_text(message.unwrap(), &json.body).unwrap();
    let envelope = Envelope::open(&definition.body).unwrap();
    assert_eq!(envelope.raw, encoded.raw);
    let table = view(PROTOBUF, "Table", "v1");
    let first = format!("{table},{}", view("application/json", "Table", "v1"));
    let answer = get_as(&server, CONFIG_MAPS, &first).await;
    assert_eq!(answer.value()["kind"], "Table");
    assert_eq!(get_as(&server, CONFIG_MAPS, &table).await.status, 406);
    // Errors of custom resources are of a built-in kind, too.
    let absent = get_as(&server, &format!("{WEBSITES}/absent"), &both).await;
    assert_eq!((absent.status, absent.content_type()), (404, PROTOBUF));
    assert_eq!(absent.value()["details"]["name"], Value::from("absent"));
}

#[tokio::test(start_paused = true)]
async fn the_preferred_type_is_answered() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let one = format!("{CONFIG_MAPS}/a");
    for (accept, expected) in [
        (format!("{PROTOBUF},application/json"), PROTOBUF),
        (format!("application/json,{PROTOBUF}"), "application/json"),
        (format!("application/json;q=0.5,{PROTOBUF}"), PROTOBUF),
        (format!("*/*,{PROTOBUF}"), PROTOBUF),
        ("*/*".to_owned(), "application/json"),
        ("application/yaml".to_owned(), "application/yaml"),
    ] {
        let answer = get_as(&server, &one, &accept).await;
        assert_eq!(answer.content_type(), expected, "{accept}");
    }
}
