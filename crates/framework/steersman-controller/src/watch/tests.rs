//! Tests of the requests that an event causes, and of the options with which they are added to the queue.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use steersman_informer::{Certainty, Entry};

use super::*;
use crate::handler::target::Keyed;
use crate::handler::{Itself, itself};
use crate::predicate::func;
use crate::request::Request;

fn entry(version: u32, generation: i64) -> Entry<Deployment> {
    Entry::new(Deployment {
        metadata: ObjectMeta {
            namespace: Some("shop".into()),
            name: Some("web".into()),
            uid: Some("u".into()),
            resource_version: Some(version.to_string()),
            generation: Some(generation),
            ..ObjectMeta::default()
        },
        ..Deployment::default()
    })
}

fn added(event: &Event<Deployment>, handler: Itself) -> String {
    let route = EventRoute::<Deployment, Keyed<Request>>::new(Kind::of::<Deployment>(), handler);
    let mut requests = requests_of(event, Priority::LOW);
    route.route(event, None, &mut requests);
    let (_, options) = requests.drain().next().unwrap();
    format!("{options:?}")
}

// CTRL-5: requests of initial lists and resyncs have low priority, and requests of deletes never have.
#[test]
fn initial_events_and_resyncs_have_low_priority_and_deletes_have_not() {
    let low = format!("{:?}", AddOptions::new().priority(Priority::LOW));
    let low_and_soft = format!(
        "{:?}",
        AddOptions::new().priority(Priority::LOW).keep_backoff()
    );
    let normal = format!("{:?}", AddOptions::new());
    let soft = format!("{:?}", AddOptions::new().keep_backoff());
    let spaced = format!("{:?}", AddOptions::new().space_in_backoff());
    let table = [
        (Event::created(entry(1, 1), Origin::Initial), &low),
        (Event::created(entry(1, 1), Origin::Live), &normal),
        (
            Event::updated(entry(1, 1), entry(2, 2), Origin::Live),
            &normal,
        ),
        (
            Event::updated(entry(1, 1), entry(1, 1), Origin::Resync),
            &low_and_soft,
        ),
        (
            Event::updated(entry(1, 1), entry(1, 1), Origin::Live),
            &low_and_soft,
        ),
        (
            Event::updated(entry(1, 1), entry(2, 1), Origin::Live),
            &spaced,
        ),
        (Event::deleted(entry(1, 1), Certainty::Observed), &normal),
        (
            Event::deleted(entry(1, 1), Certainty::FinalStateUnknown),
            &normal,
        ),
    ];
    for (event, expected) in table {
        assert_eq!(added(&event, itself()), *expected, "{event:?}");
    }
    // CTRL-4: the generation is unchanged, so only the status was updated.
    let event = Event::updated(entry(1, 1), entry(2, 1), Origin::Live);
    assert_eq!(added(&event, itself().sole_status_writer()), soft);
    let event = Event::updated(entry(1, 1), entry(2, 2), Origin::Live);
    assert_eq!(added(&event, itself().sole_status_writer()), normal);
}

#[test]
fn a_filter_over_all_watches_runs_first_and_sees_deletes() {
    let refuses = |_: &Event<Deployment>| -> bool { panic!("the filter refused the event") };
    let mut route =
        EventRoute::<Deployment, Keyed<Request>>::new(Kind::of::<Deployment>(), itself());
    route.filter(func(refuses));
    let filter: EventFilter = Arc::new(|event| {
        assert_eq!(event.kind.gvk().kind(), "Deployment");
        assert_eq!(event.key.to_string(), "shop/web");
        assert!(event.is_delete && event.labels.is_empty());
        false
    });
    let event = Event::deleted(entry(1, 1), Certainty::Observed);
    let mut requests = requests_of(&event, Priority::LOW);
    route.route(&event, Some(&filter), &mut requests);
    assert_eq!(requests.iter().count(), 0);
}
