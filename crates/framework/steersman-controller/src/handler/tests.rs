//! Tests of the requests that each handler makes of an event.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use steersman_informer::{Certainty, Entry, Origin};
use steersman_object::ObjectKey;
use steersman_workqueue::Priority;

use super::*;
use crate::handler::target::Keyed;
use crate::request::Request;

fn reference(api_version: &str, kind: &str, name: &str, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: format!("uid-of-{name}"),
        controller: controller.then_some(true),
        ..OwnerReference::default()
    }
}

fn owned(references: &[OwnerReference]) -> Entry<ReplicaSet> {
    Entry::new(ReplicaSet {
        metadata: ObjectMeta {
            namespace: Some("shop".into()),
            name: Some("rs".into()),
            uid: Some("u".into()),
            owner_references: Some(references.to_vec()),
            ..ObjectMeta::default()
        },
        ..ReplicaSet::default()
    })
}

fn keys<K: Object>(
    handler: &impl EventHandler<K, Keyed<Request>>,
    event: &Event<K>,
) -> Vec<String> {
    let mut requests = Requests::new();
    handler.handle(event, &mut requests);
    requests.iter().map(ToString::to_string).collect()
}

fn created<K: Object>(entry: Entry<K>) -> Event<K> {
    Event::created(entry, Origin::Live)
}

#[test]
fn an_object_requests_itself_whatever_happens_to_it() {
    let entry = || owned(&[]);
    for event in [
        created(entry()),
        Event::updated(entry(), entry(), Origin::Live),
        Event::deleted(entry(), Certainty::Observed),
    ] {
        assert_eq!(keys(&itself(), &event), ["shop/rs"]);
    }
}

// An owner reference is compared by group and kind; its version and uid do not count.
#[test]
fn owners_are_found_by_group_and_kind() {
    let event = created(owned(&[
        reference("apps/v1", "Deployment", "now", true),
        reference("apps/v1beta1", "Deployment", "older", false),
        reference("extensions/v1", "Deployment", "foreign", false),
        reference("apps/v1", "StatefulSet", "other", false),
    ]));
    assert_eq!(
        keys(&owner::<Deployment>(), &event),
        ["shop/now", "shop/older"]
    );
    assert_eq!(
        keys(&owner::<Deployment>().controller_only(), &event),
        ["shop/now"]
    );
}

// The key of a cluster-scoped owner has no namespace, although the owned object has one.
#[test]
fn a_cluster_scoped_owner_is_requested_without_a_namespace() {
    let event = created(owned(&[reference("v1", "Namespace", "shop", true)]));
    assert_eq!(keys(&owner::<Namespace>(), &event), ["shop"]);
}

// If a child gets another owner, the former owner is requested as well.
#[test]
fn an_update_requests_former_and_present_owners() {
    let of = |name| owned(&[reference("apps/v1", "Deployment", name, true)]);
    let moved = Event::updated(of("from"), of("to"), Origin::Live);
    assert_eq!(
        keys(&owner::<Deployment>(), &moved),
        ["shop/from", "shop/to"]
    );
    let stayed = Event::updated(of("one"), of("one"), Origin::Live);
    assert_eq!(keys(&owner::<Deployment>(), &stayed), ["shop/one"]);
    let gone = Event::deleted(of("one"), Certainty::FinalStateUnknown);
    assert_eq!(keys(&owner::<Deployment>(), &gone), ["shop/one"]);
}

#[test]
fn a_mapping_runs_on_the_old_and_the_new_object() {
    let config = |users: &str| {
        Entry::new(ConfigMap {
            metadata: ObjectMeta {
                namespace: Some("shop".into()),
                name: Some("pages".into()),
                ..ObjectMeta::default()
            },
            data: Some([("users".to_owned(), users.to_owned())].into()),
            ..ConfigMap::default()
        })
    };
    let handler = mapped(|config: &ConfigMap| {
        let users = config.data.as_ref().and_then(|data| data.get("users"));
        let users = users.map(String::as_str).unwrap_or_default();
        let keys = users
            .split_whitespace()
            .map(|name| ObjectKey::namespaced("shop", name));
        keys.collect::<Vec<_>>()
    });
    let event = Event::updated(config("a b"), config("b c"), Origin::Live);
    assert_eq!(keys(&handler, &event), ["shop/a", "shop/b", "shop/c"]);
    let gone = Event::deleted(config("z"), Certainty::Observed);
    assert_eq!(keys(&handler, &gone), ["shop/z"]);
}

#[test]
fn a_handler_may_make_requests_of_its_own_type() {
    let handler = mapped(|set: &ReplicaSet| set.metadata.namespace.clone());
    let mut requests = Requests::<String>::new();
    EventHandler::<_, Keyed<String>>::handle(&handler, &created(owned(&[])), &mut requests);
    assert_eq!(requests.iter().collect::<Vec<_>>(), ["shop"]);
}

// A request that counts how often it is compared, to show that the list of requests does not compare all pairs.
#[derive(Clone, Debug)]
struct Compared(u32, Arc<AtomicUsize>);

impl PartialEq for Compared {
    fn eq(&self, other: &Self) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0 == other.0
    }
}

impl Eq for Compared {}

impl Hash for Compared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn many_requests_of_one_event_are_added_once_in_order_with_few_comparisons() {
    const MANY: u32 = 10_000;
    let compared = Arc::new(AtomicUsize::new(0));
    let mut requests = Requests::new();
    let order = (0..MANY).rev().chain(0..MANY).chain((0..MANY).rev());
    for number in order {
        requests.add(Compared(number, Arc::clone(&compared)));
    }
    let count = compared.load(Ordering::Relaxed);
    assert!(count < 10 * MANY as usize, "{count} comparisons");
    let low = AddOptions::new().priority(Priority::LOW);
    requests.add_with(Compared(3, Arc::clone(&compared)), low);
    let all: Vec<u32> = requests.iter().map(|request| request.0).collect();
    assert_eq!(all, (0..MANY).rev().collect::<Vec<_>>());
    for (request, options) in requests.drain() {
        let expected = if request.0 == 3 {
            low
        } else {
            AddOptions::new()
        };
        assert_eq!(format!("{options:?}"), format!("{expected:?}"));
    }
}

#[test]
fn a_repeated_request_keeps_its_position_and_takes_the_new_options() {
    for count in 0..=3 * SCANNED {
        let mut requests = Requests::new();
        for number in (0..count).chain(0..count) {
            let priority = Priority::new(i32::try_from(number).unwrap());
            requests.add(number);
            requests.add_with(number, AddOptions::new().priority(priority));
        }
        let added: Vec<(usize, AddOptions)> = requests.drain().collect();
        assert_eq!(added.len(), count);
        for (number, (request, options)) in added.into_iter().enumerate() {
            let priority = Priority::new(i32::try_from(number).unwrap());
            let expected = AddOptions::new().priority(priority);
            assert_eq!(request, number);
            assert_eq!(format!("{options:?}"), format!("{expected:?}"));
        }
        // After `drain`, new requests can be added as to an empty list.
        requests.add(7);
        assert_eq!(requests.iter().collect::<Vec<_>>(), [&7]);
    }
}
