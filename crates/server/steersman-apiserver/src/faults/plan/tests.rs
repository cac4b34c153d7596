//! Tests of the order, the time windows and the probabilities of faults.

use jiff::Timestamp;

use super::*;
use crate::faults::Verb;

fn request(verb: Verb, resource: &str, agent: &str) -> RequestRecord {
    RequestRecord {
        sequence: 0,
        at: Timestamp::UNIX_EPOCH,
        method: String::new(),
        path: String::new(),
        parameters: Vec::new(),
        verb: Some(verb),
        group: String::new(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        subresource: None,
        namespace: Some("default".to_owned()),
        name: Some("a".to_owned()),
        user_agent: agent.to_owned(),
        accept: String::new(),
        user: "ann".to_owned(),
        groups: Vec::new(),
        impersonated_by: None,
        watch_list: false,
        status: None,
    }
}

fn answer(code: u16) -> FaultSpec {
    FaultSpec::new(Effect::Answer {
        code,
        message: None,
        retry_after_seconds: 0,
        commit: false,
    })
}

fn code(decision: Decision) -> Option<u16> {
    decision.answer.map(|status| status.code)
}

const START: Duration = Duration::ZERO;

#[test]
fn a_fault_skips_the_first_requests_and_ends_after_its_times() {
    let mut plan = FaultPlan::new(0);
    plan.add(answer(500).skip(2).times(2), None, None, START);
    let codes: Vec<_> = (0..6)
        .map(|_| code(plan.decide(&request(Verb::Get, "pods", ""), START)))
        .collect();
    assert_eq!(codes, [None, None, Some(500), Some(500), None, None]);
}

#[test]
fn a_fault_without_a_delay_begins_at_once_on_every_clock() {
    let mut plan = FaultPlan::new(0);
    // The clock of the caller is ahead of the clock of the requests, which a test pauses.
    let ahead = Duration::from_secs(10);
    plan.add(answer(500), None, None, ahead);
    let decision = plan.decide(&request(Verb::Get, "pods", ""), START);
    assert_eq!(code(decision), Some(500));
}

#[test]
fn a_fault_lasts_from_its_beginning_to_its_end() {
    let mut plan = FaultPlan::new(0);
    let added = Duration::from_secs(10);
    plan.add(
        answer(503).after_millis(1_000).for_millis(500),
        None,
        None,
        added,
    );
    let mut at = |millis| {
        let now = Duration::from_millis(millis);
        code(plan.decide(&request(Verb::Get, "pods", ""), now))
    };
    assert_eq!(at(10_999), None);
    assert_eq!(at(11_000), Some(503));
    assert_eq!(at(11_499), Some(503));
    assert_eq!(at(11_500), None);
}

#[test]
fn the_same_seed_affects_the_same_requests() {
    let draws = |seed| {
        let mut plan = FaultPlan::new(seed);
        plan.add(answer(500).probability(0.25), None, None, START);
        let one = |_| code(plan.decide(&request(Verb::Get, "pods", ""), START)).is_some();
        (0..1_000).map(one).collect::<Vec<bool>>()
    };
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
    let met = draws(1).into_iter().filter(|met| *met).count();
    assert!((200..300).contains(&met), "{met}");
}

#[test]
fn a_fault_affects_requests_that_match_every_given_field() {
    let all = answer(500)
        .verb(Verb::Get)
        .resource("pods")
        .namespace("default")
        .name("a")
        .user("ann")
        .user_agent("kube");
    let fitting = request(Verb::Get, "pods", "kubectl/1");
    assert!(all.fits(&fitting));
    for other in [
        request(Verb::List, "pods", "kubectl/1"),
        request(Verb::Get, "secrets", "kubectl/1"),
        request(Verb::Get, "pods", "curl"),
        RequestRecord {
            namespace: None,
            ..request(Verb::Get, "pods", "kubectl/1")
        },
        RequestRecord {
            name: Some("b".to_owned()),
            ..fitting
        },
        RequestRecord {
            user: "bob".to_owned(),
            ..request(Verb::Get, "pods", "kubectl/1")
        },
    ] {
        assert!(!all.fits(&other), "{other:?}");
    }
}

/// FAULT-1: of several faults that would end a request, the one that was planned first takes effect.
#[test]
fn of_several_faults_that_end_a_request_the_first_planned_takes_effect() {
    let mut plan = FaultPlan::new(0);
    let first = plan.add(answer(500).times(1), None, None, START);
    let second = plan.add(
        FaultSpec::new(Effect::Cut { commit: false }),
        None,
        None,
        START,
    );
    let one = plan.decide(&request(Verb::Get, "pods", ""), START);
    assert!(!one.cut);
    assert_eq!(code(one), Some(500));
    assert_eq!((plan.hits(first), plan.hits(second)), (1, 0));
    assert!(plan.decide(&request(Verb::Get, "pods", ""), START).cut);
}

#[test]
fn an_invalid_fault_is_refused_with_its_reason() {
    let problem = |spec: FaultSpec| spec.problem().unwrap_or_default();
    assert!(problem(answer(200)).contains("400 to 599"));
    assert!(problem(answer(500).probability(1.5)).contains("from 0 to 1"));
    assert!(problem(answer(500).probability(f64::NAN)).contains("from 0 to 1"));
    let chunks = Effect::Chunks {
        bytes: 0,
        millis: 0,
    };
    assert!(problem(FaultSpec::new(chunks)).contains("at least 1"));
    assert_eq!(answer(500).problem(), None);
    let delay = |millis, jitter_millis| {
        problem(FaultSpec::new(Effect::Delay {
            millis,
            jitter_millis,
        }))
    };
    assert_eq!(
        delay(u64::MAX, 0),
        "effect.millis is 18446744073709551615, but must be at most 31536000000, a year"
    );
    assert!(delay(0, u64::MAX).starts_with("effect.jitterMillis is "));
    assert_eq!(delay(31_536_000_000, 1), "");
    let millis = u64::MAX;
    let late = [
        Effect::Chunks { bytes: 1, millis },
        Effect::LateBookmarks { millis },
    ];
    for effect in late {
        assert!(problem(FaultSpec::new(effect)).contains("a year"));
    }
}
