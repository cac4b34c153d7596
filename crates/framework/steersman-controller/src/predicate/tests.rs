//! Tests of predicates with events of Deployments, which have generations, and ConfigMaps, which have none.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use steersman_informer::Certainty;

use super::*;

fn meta(version: u32) -> ObjectMeta {
    ObjectMeta {
        namespace: Some("default".into()),
        name: Some("web".into()),
        uid: Some("u1".into()),
        resource_version: Some(version.to_string()),
        ..ObjectMeta::default()
    }
}

fn deployment(change: impl FnOnce(&mut ObjectMeta)) -> Entry<Deployment> {
    let mut metadata = meta(2);
    metadata.generation = Some(1);
    change(&mut metadata);
    Entry::new(Deployment {
        metadata,
        ..Deployment::default()
    })
}

fn config_map(version: u32) -> Entry<ConfigMap> {
    Entry::new(ConfigMap {
        metadata: meta(version),
        ..ConfigMap::default()
    })
}

fn map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn updated<K: Object>(old: Entry<K>, new: Entry<K>) -> Event<K> {
    Event::updated(old, new, Origin::Live)
}

fn deleted<K: Object>(last_known: Entry<K>) -> Event<K> {
    Event::deleted(last_known, Certainty::FinalStateUnknown)
}

// Each update changes one part of the object. `generation_changed` passes new generations, requests for deletion and
// objects with another uid.
#[test]
fn each_change_passes_its_own_predicate() {
    let base = || deployment(|_| {});
    let changes: [(&str, Entry<Deployment>); 7] = [
        ("spec", deployment(|m| m.generation = Some(2))),
        (
            "status",
            deployment(|m| m.resource_version = Some("3".into())),
        ),
        ("labels", deployment(|m| m.labels = Some(map("a", "b")))),
        (
            "annotations",
            deployment(|m| m.annotations = Some(map("a", "b"))),
        ),
        (
            "finalizers",
            deployment(|m| m.finalizers = Some(vec!["x/y".into()])),
        ),
        (
            "deletion",
            deployment(|m| m.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH))),
        ),
        ("another uid", deployment(|m| m.uid = Some("u2".into()))),
    ];
    let predicates: [(Changed, &[&str]); 5] = [
        (generation_changed(), &["spec", "deletion", "another uid"]),
        (resource_version_changed(), &["status", "another uid"]),
        (labels_changed(), &["labels", "another uid"]),
        (annotations_changed(), &["annotations", "another uid"]),
        (finalizers_changed(), &["finalizers", "another uid"]),
    ];
    for (predicate, expected) in predicates {
        let passed: Vec<&str> = changes
            .iter()
            .filter(|(_, new)| predicate.passes(&updated(base(), new.clone())))
            .map(|(change, _)| *change)
            .collect();
        assert_eq!(passed, expected, "{predicate:?}");
    }
}

#[test]
fn creations_and_deletes_pass_every_comparison() {
    for predicate in [
        generation_changed(),
        resource_version_changed(),
        labels_changed(),
        annotations_changed(),
        finalizers_changed(),
    ] {
        let entry = || deployment(|_| {});
        assert!(predicate.passes(&Event::created(entry(), Origin::Initial)));
        assert!(predicate.passes(&Event::created(entry(), Origin::Live)));
        // A delete passes although the last known object has the same generation as before and no deletion timestamp.
        assert!(predicate.passes(&deleted(entry())));
    }
}

#[test]
fn an_object_without_a_generation_passes_generation_changed() {
    assert!(generation_changed().passes(&updated(config_map(2), config_map(3))));
}

#[test]
fn combined_predicates_pass_deletes_and_combine_the_rest() {
    let spec = || updated(deployment(|_| {}), deployment(|m| m.generation = Some(2)));
    let labels = || {
        updated(
            deployment(|_| {}),
            deployment(|m| m.labels = Some(map("a", "b"))),
        )
    };
    let gone = || deleted(deployment(|_| {}));
    let both = || and(generation_changed(), labels_changed());
    let either = || or(generation_changed(), labels_changed());
    assert!(!both().passes(&spec()) && !both().passes(&labels()) && both().passes(&gone()));
    assert!(either().passes(&spec()) && either().passes(&labels()) && either().passes(&gone()));
    let neither = not(either());
    assert!(!neither.passes(&spec()) && !neither.passes(&labels()));
    assert!(
        neither.passes(&gone()),
        "the opposite of passing deletes is not hiding them"
    );
}

#[test]
fn a_selector_passes_objects_that_leave_it_and_hides_others() {
    let web = || deployment(|m| m.labels = Some(map("app", "web")));
    let other = || deployment(|_| {});
    let predicate = labelled("app=web".parse().unwrap());
    let created = |entry| Event::created(entry, Origin::Live);
    assert!(predicate.passes(&created(web())));
    assert!(!predicate.passes(&created(other())));
    assert!(
        predicate.passes(&updated(web(), other())),
        "it left the selection"
    );
    assert!(predicate.passes(&updated(other(), web())));
    assert!(!predicate.passes(&updated(other(), other())));
    assert!(predicate.passes(&deleted(web())));
    assert!(
        !predicate.passes(&deleted(other())),
        "on purpose: it was never selected"
    );
}

#[test]
fn closures_see_objects_or_whole_events() {
    let named_web = object(|d: &Deployment| d.metadata.name.as_deref() == Some("web"));
    let nothing = object(|_: &Deployment| false);
    let event = updated(deployment(|_| {}), deployment(|_| {}));
    assert!(named_web.passes(&event) && !nothing.passes(&event));
    assert!(
        nothing.passes(&deleted(deployment(|_| {}))),
        "deletes are not asked about"
    );
    let no_deletes = func(|event: &Event<Deployment>| !event.is_delete());
    assert!(no_deletes.passes(&event));
    assert!(
        !no_deletes.passes(&deleted(deployment(|_| {}))),
        "filtered on purpose"
    );
}
