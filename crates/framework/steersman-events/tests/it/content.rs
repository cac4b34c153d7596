//! Tests the content of Events: the server validates each Event, and the fields are those of client-go.

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube_core::{DynamicObject, PartialObjectMeta};
use steersman_events::{NewEvent, ObjectRef};
use steersman_object::{Kind, ObjectKey};

use crate::world::{World, config};

fn regarding(event: &Event) -> ObjectReference {
    event.regarding.clone().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_event_names_its_object_its_recorder_and_the_related_object() {
    let world = World::new();
    let event = NewEvent::warning("Refused", "Publish")
        .note(format_args!("{} of {}", 1, 2))
        .related(&config("child"));
    world.recorder.publish(&config("site"), event);
    world.stop().await;
    let events = world.events("default").await;
    let [event] = &*events else {
        panic!("{events:?}")
    };
    let name = event.metadata.name.as_deref().unwrap();
    assert!(name.starts_with("site.") && name.len() == 21, "{name}");
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.reason.as_deref(), Some("Refused"));
    assert_eq!(event.action.as_deref(), Some("Publish"));
    assert_eq!(event.note.as_deref(), Some("1 of 2"));
    assert_eq!(event.reporting_controller.as_deref(), Some("website"));
    let instance = event.reporting_instance.as_deref().unwrap();
    assert!(instance.starts_with("website-"), "{instance}");
    let time = event.event_time.as_ref().unwrap().0;
    assert_eq!(time.as_microsecond(), world.server.now().as_microsecond());
    assert!(event.series.is_none());
    let about = regarding(event);
    assert_eq!(about.kind.as_deref(), Some("ConfigMap"));
    assert_eq!(about.api_version.as_deref(), Some("v1"));
    assert_eq!(about.namespace.as_deref(), Some("default"));
    assert_eq!(about.uid.as_deref(), Some("uid-of-site"));
    let related = event.related.clone().unwrap();
    assert_eq!(related.name.as_deref(), Some("child"));
}

#[tokio::test(start_paused = true)]
async fn events_of_cluster_scoped_objects_are_in_the_namespace_default() {
    let world = World::new();
    let mut node = Node::default();
    node.metadata.name = Some("worker".to_owned());
    world
        .recorder
        .normal(&node, "Drained", "Drain", "no Pods are left");
    world.stop().await;
    let events = world.events("default").await;
    assert_eq!(regarding(&events[0]).namespace, None);
    assert_eq!(regarding(&events[0]).kind.as_deref(), Some("Node"));
    assert_eq!(world.dropped("incomplete") + world.dropped("refused"), 0);
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_and_metadata_are_referenced_as_typed_objects_are() {
    let world = World::new();
    let kind = Kind::of::<Node>();
    let mut dynamic = DynamicObject::new("worker", &kind.api_resource());
    dynamic.metadata.uid = Some("u".to_owned());
    let metadata = PartialObjectMeta::<Node> {
        metadata: dynamic.metadata.clone(),
        ..PartialObjectMeta::default()
    };
    let by_hand = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some("worker".to_owned()),
        uid: Some("u".to_owned()),
        resource_version: Some("12".to_owned()),
        ..ObjectReference::default()
    };
    let recorder = &world.recorder;
    recorder.normal(&ObjectRef::new(&kind, &dynamic), "Seen", "See", "");
    recorder.normal(&metadata, "Seen", "See", "");
    recorder.normal(&ObjectRef::from(by_hand), "Seen", "See", "");
    world.stop().await;
    let events = world.events("default").await;
    // All events are about one object and equal, so they become one Event.
    let counts: Vec<_> = events
        .iter()
        .map(|e| e.series.as_ref().map(|s| s.count))
        .collect();
    assert_eq!(counts, [Some(3)], "{events:?}");
    let named = ObjectRef::of_key(&kind, &ObjectKey::cluster_scoped("worker"));
    assert_eq!(named.to_string(), "Node worker");
}

/// EVENT-7: the server accepts every Event, whatever the names and texts are.
#[tokio::test(start_paused = true)]
async fn the_server_accepts_every_name_and_every_text() {
    let world = World::new();
    let names = [
        "a".repeat(253),
        format!("{}.{}", "a".repeat(240), "b".repeat(12)),
        "system:Controller".to_owned(),
        "x..y".to_owned(),
        "::".to_owned(),
    ];
    let long = "ü".repeat(2000);
    let recorder = world.publisher.recorder(&format!("my controller/{long}"));
    for name in &names {
        let mut role = ClusterRole::default();
        role.metadata.name = Some(name.clone());
        recorder.publish(&role, NewEvent::normal(&long, &long).note(&long));
        recorder.normal(&role, "OnlyReason", "", "");
    }
    world.stop().await;
    let events = world.events("default").await;
    assert_eq!(events.len(), 2 * names.len());
    for event in &events {
        let note = event.note.as_deref().unwrap_or_default();
        assert!(note.is_empty() || note == "ü".repeat(512), "{note}");
        assert!(event.reason.as_ref().unwrap().len() <= 128);
    }
    let mut about: Vec<_> = events.iter().map(|e| regarding(e).name.unwrap()).collect();
    about.sort();
    about.dedup();
    let mut expected = names.to_vec();
    expected.sort();
    assert_eq!(about, expected);
}
