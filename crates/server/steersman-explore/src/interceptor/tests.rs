//! Tests of the interceptor.

use serde_json::json;

use super::*;
use crate::points::ReferenceWrite;

fn request(sequence: u64, process: usize, verb: RequestVerb, resource: &str) -> OperatorRequest {
    OperatorRequest {
        sequence,
        process,
        verb,
        resource: resource.to_owned(),
        subresource: None,
        namespace: Some("shop".to_owned()),
        name: None,
        is_dry_run: false,
        may_be_stale: verb == RequestVerb::List,
        is_streaming_list: false,
    }
}

fn create(sequence: u64, process: usize) -> OperatorRequest {
    request(sequence, process, RequestVerb::Create, "configmaps")
}

fn change() -> ObjectChange {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "pages"},
    });
    ObjectChange {
        id: ObjectId::of(&object),
        before: None,
        after: Some(object),
    }
}

/// Returns the points of a reference with two creates and a list.
fn reference() -> ReferencePoints {
    let mut counter = PointCounter::default();
    let mut points = ReferencePoints::default();
    for sequence in 0..2 {
        let (_, point) = counter.count(&create(sequence, 1)).unwrap();
        points.writes.push(ReferenceWrite {
            point,
            change: Some(change()),
            revision: 10 + sequence,
            step_revision: 9,
        });
    }
    let (_, point) = counter
        .count(&request(2, 1, RequestVerb::List, "configmaps"))
        .unwrap();
    points.reads.push(point);
    points
}

fn interceptor(name: &str) -> Interceptor {
    let perturbations = Perturbation::parse_all(name).unwrap();
    Interceptor::new(&perturbations, Some(&reference())).0
}

/// Lets a request pass the interceptor, and returns what it decides at the end.
fn pass(interceptor: &mut Interceptor, request: &OperatorRequest) -> Ruling<Departure> {
    let (arrival, _) = interceptor.arrive(request);
    assert_eq!(arrival.verdict, Arrival::Pass, "{request}");
    interceptor.depart(request, 200, Some(&change()), 12)
}

fn actions<V>(ruling: &Ruling<V>) -> Vec<&WorldAction> {
    let told = |action: &&WorldAction| !matches!(action, WorldAction::Tell(_));
    ruling.actions.iter().filter(told).collect()
}

/// EXPLORE-1: a killed process changes nothing after its point.
#[test]
fn a_process_that_is_killed_before_a_write_carries_out_nothing_more() {
    let mut interceptor = interceptor("crash-before-write@2");
    assert_eq!(
        pass(&mut interceptor, &create(0, 1)).verdict,
        Departure::Answer
    );
    let (arrival, number) = interceptor.arrive(&create(1, 1));
    assert_eq!((arrival.verdict, number), (Arrival::Drop, Some(2)));
    assert_eq!(actions(&arrival), [&WorldAction::Kill(1)]);
    // What the dying process still sends is not carried out; the next process is served.
    assert_eq!(interceptor.arrive(&create(2, 1)).0.verdict, Arrival::Drop);
    assert_eq!(
        pass(&mut interceptor, &create(4, 2)).verdict,
        Departure::Answer
    );
    assert!(interceptor.has_happened());
}

/// EXPLORE-1: a killed process changes nothing after its point.
#[test]
fn a_process_that_is_killed_after_a_write_gets_no_answer() {
    let mut interceptor = interceptor("crash-after-write@1");
    let departure = pass(&mut interceptor, &create(0, 1));
    assert_eq!(departure.verdict, Departure::Drop);
    assert_eq!(actions(&departure), [&WorldAction::Kill(1)]);
    assert_eq!(interceptor.arrive(&create(1, 1)).0.verdict, Arrival::Drop);
}

/// EXPLORE-2: a perturbation happens once.
#[test]
fn a_perturbation_happens_once_although_its_point_comes_again() {
    let mut interceptor = interceptor("lost-answer@1");
    assert_eq!(
        pass(&mut interceptor, &create(0, 1)).verdict,
        Departure::Replace(504)
    );
    for sequence in 1..4 {
        assert_eq!(
            pass(&mut interceptor, &create(sequence, 1)).verdict,
            Departure::Answer
        );
    }
}

#[test]
fn a_point_is_the_nth_request_of_its_form_whatever_else_is_sent() {
    let mut interceptor = interceptor("refuse@2:409");
    let other = request(0, 1, RequestVerb::Patch, "services");
    assert_eq!(pass(&mut interceptor, &other).verdict, Departure::Answer);
    assert_eq!(
        pass(&mut interceptor, &create(1, 1)).verdict,
        Departure::Answer
    );
    let (arrival, number) = interceptor.arrive(&create(2, 1));
    assert_eq!((arrival.verdict, number), (Arrival::Refuse(409), Some(3)));
}

#[test]
fn a_refused_write_keeps_its_refusal_although_its_answer_was_to_be_lost() {
    let mut interceptor = interceptor("lost-answer@1");
    let first = create(0, 1);
    interceptor.arrive(&first);
    assert_eq!(
        interceptor.depart(&first, 409, None, 12).verdict,
        Departure::Answer
    );
}

#[test]
fn watches_are_silent_until_the_next_write_was_carried_out() {
    let mut interceptor = interceptor("late-watch@1");
    let (arrival, _) = interceptor.arrive(&create(0, 1));
    assert_eq!(
        actions(&arrival),
        [&WorldAction::SilenceWatches("configmaps".to_owned())]
    );
    let departure = interceptor.depart(&create(0, 1), 201, Some(&change()), 12);
    assert!(actions(&departure).is_empty());
    // A refused write is none.
    interceptor.arrive(&create(1, 1));
    assert!(
        interceptor
            .depart(&create(1, 1), 409, None, 12)
            .actions
            .is_empty()
    );
    assert_eq!(
        actions(&pass(&mut interceptor, &create(2, 1))),
        [&WorldAction::ResumeWatches]
    );
    assert!(interceptor.become_quiet().is_empty());
}

#[test]
fn watches_that_are_still_silent_deliver_when_the_operator_is_quiet() {
    let mut interceptor = interceptor("late-watch@1");
    pass(&mut interceptor, &create(0, 1));
    assert!(
        interceptor
            .become_quiet()
            .contains(&WorldAction::ResumeWatches)
    );
    assert!(interceptor.become_quiet().is_empty());
}

#[test]
fn a_restarted_process_lists_the_older_state_until_it_has_written() {
    let mut interceptor = interceptor("stale-restart@1:3");
    let departure = pass(&mut interceptor, &create(0, 1));
    let silence = WorldAction::SilenceWatches("*".to_owned());
    assert_eq!(actions(&departure), [&silence, &WorldAction::Kill(1)]);
    let list = |sequence| request(sequence, 2, RequestVerb::List, "configmaps");
    assert_eq!(interceptor.arrive(&list(1)).0.verdict, Arrival::PassAsOf(9));
    // A consistent read is never stale.
    let mut newest = list(2);
    newest.may_be_stale = false;
    assert_eq!(interceptor.arrive(&newest).0.verdict, Arrival::Pass);
    // A streaming list would be the newest state, so an informer must list.
    let mut stream = request(3, 2, RequestVerb::Watch, "configmaps");
    stream.is_streaming_list = true;
    assert_eq!(interceptor.arrive(&stream).0.verdict, Arrival::Refuse(422));
    assert_eq!(
        actions(&pass(&mut interceptor, &create(3, 2))),
        [&WorldAction::ResumeWatches]
    );
    assert_eq!(interceptor.arrive(&list(5)).0.verdict, Arrival::Pass);
    stream.sequence = 6;
    assert_eq!(interceptor.arrive(&stream).0.verdict, Arrival::Pass);
}

#[test]
fn a_paused_leader_writes_when_the_other_one_is_quiet() {
    let mut interceptor = interceptor("two-leaders@1");
    let (arrival, _) = interceptor.arrive(&create(7, 1));
    assert_eq!(arrival.verdict, Arrival::Wait);
    assert_eq!(actions(&arrival), [&WorldAction::Pause(1)]);
    assert!(!interceptor.is_released(7));
    assert!(
        interceptor
            .become_quiet()
            .contains(&WorldAction::Continue(1))
    );
    assert!(interceptor.is_released(7));
    assert_eq!(
        interceptor
            .depart(&create(7, 1), 201, Some(&change()), 12)
            .verdict,
        Departure::Answer
    );
}

#[test]
fn a_crash_after_a_read_is_at_a_read() {
    let mut interceptor = interceptor("crash-after-read@1");
    assert_eq!(
        pass(&mut interceptor, &create(0, 1)).verdict,
        Departure::Answer
    );
    let list = request(1, 1, RequestVerb::List, "configmaps");
    assert_eq!(pass(&mut interceptor, &list).verdict, Departure::Drop);
}

#[test]
fn a_third_of_the_requests_is_throttled_but_no_watch_and_no_lease() {
    let (mut interceptor, begin) =
        Interceptor::new(&Perturbation::parse_all("throttled").unwrap(), None);
    assert_eq!(begin.len(), 1);
    assert!(interceptor.has_happened());
    let verdicts = (0..6).map(|sequence| {
        let watch = request(100 + sequence, 1, RequestVerb::Watch, "configmaps");
        assert_eq!(interceptor.arrive(&watch).0.verdict, Arrival::Pass);
        let lease = request(
            200 + sequence,
            1,
            RequestVerb::Update,
            "leases.coordination.k8s.io",
        );
        assert_eq!(interceptor.arrive(&lease).0.verdict, Arrival::Pass);
        interceptor.arrive(&create(sequence, 1)).0.verdict
    });
    let verdicts: Vec<Arrival> = verdicts.collect();
    let throttled = verdicts
        .iter()
        .filter(|verdict| **verdict == Arrival::Refuse(429));
    assert_eq!(throttled.count(), 2, "{verdicts:?}");
}

#[test]
fn a_write_of_a_user_is_acted_on_by_its_object() {
    let id = change().id;
    for (name, action) in [
        ("interfere@1", WorldAction::Undo(id.clone())),
        ("missed@1", WorldAction::DeleteInGap(id)),
        (
            "namespace-deleted@1",
            WorldAction::DeleteNamespace("shop".to_owned()),
        ),
        ("expired-watch@1", WorldAction::ExpireWatches),
        ("server-restart@1", WorldAction::RestartServer),
    ] {
        let departure = pass(&mut interceptor(name), &create(0, 1));
        assert_eq!(
            (actions(&departure), departure.verdict),
            (vec![&action], Departure::Answer),
            "{name}"
        );
    }
}

#[test]
fn a_write_that_follows_two_reads_is_not_throttled_in_each_try() {
    let throttled = Perturbation::of_world(PerturbationKind::Throttled);
    for requests_of_a_try in 1..=6_u64 {
        let (mut interceptor, _) = Interceptor::new(&[throttled], None);
        let mut most_refused_in_a_row = 0;
        let mut refused_in_a_row = 0;
        for sequence in 1..=60 {
            let is_last = sequence % requests_of_a_try == 0;
            let verb = if is_last {
                RequestVerb::Create
            } else {
                RequestVerb::Get
            };
            let (ruling, _) = interceptor.arrive(&request(sequence, 1, verb, "configmaps"));
            if is_last {
                let is_refused = ruling.verdict == Arrival::Refuse(429);
                refused_in_a_row = if is_refused { refused_in_a_row + 1 } else { 0 };
                most_refused_in_a_row = most_refused_in_a_row.max(refused_in_a_row);
            }
        }
        assert!(
            most_refused_in_a_row <= 4,
            "{requests_of_a_try} requests in each try: {most_refused_in_a_row} refused in a row"
        );
    }
}
