//! Tests of points.

use serde_json::{Value, json};

use super::*;
use crate::object_id::ObjectId;
use crate::scenario::ScenarioRules;

fn request(verb: RequestVerb, resource: &str) -> OperatorRequest {
    OperatorRequest {
        sequence: 0,
        process: 1,
        verb,
        resource: resource.to_owned(),
        subresource: None,
        namespace: Some("shop".to_owned()),
        name: Some("a".to_owned()),
        is_dry_run: false,
        may_be_stale: false,
        is_streaming_list: false,
    }
}

fn scenario(applied: Vec<Value>) -> Scenario {
    Scenario {
        initial: applied.into(),
        steps: Vec::new().into(),
        rules: std::sync::Arc::new(ScenarioRules::default()),
    }
}

fn object(finalizers: &Value) -> Value {
    let metadata = json!({"namespace": "shop", "name": "a", "finalizers": finalizers});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// Returns the points of one write that changed an object.
fn one_write(before: Option<Value>, after: Option<Value>) -> ReferencePoints {
    let mut counter = PointCounter::default();
    let (_, point) = counter
        .count(&request(RequestVerb::Patch, "configmaps"))
        .unwrap();
    let id = ObjectId::of(after.as_ref().or(before.as_ref()).unwrap());
    let change = Some(ObjectChange { id, before, after });
    let write = ReferenceWrite {
        point,
        change,
        revision: 20,
        step_revision: 18,
    };
    ReferencePoints {
        writes: vec![write],
        ..ReferencePoints::default()
    }
}

fn names(points: &ReferencePoints, scenario: &Scenario) -> Vec<String> {
    let all = points.perturbations(scenario).into_iter();
    all.map(|one| one.to_string()).collect()
}

#[test]
fn leases_events_reviews_and_dry_runs_are_no_points() {
    let mut counter = PointCounter::default();
    for resource in [
        "leases.coordination.k8s.io",
        "events",
        "events.events.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "tokenreviews.authentication.k8s.io",
    ] {
        assert_eq!(
            counter.count(&request(RequestVerb::Create, resource)),
            None,
            "{resource}"
        );
    }
    let mut dry = request(RequestVerb::Patch, "configmaps");
    dry.is_dry_run = true;
    assert_eq!(counter.count(&dry), None);
    assert_eq!(
        counter.count(&request(RequestVerb::Watch, "configmaps")),
        None
    );
    assert_eq!(counter.writes(), 0);
    // Reads and writes are counted apart.
    let (number, _) = counter
        .count(&request(RequestVerb::Get, "configmaps"))
        .unwrap();
    assert_eq!(number, 1);
    let (number, point) = counter
        .count(&request(RequestVerb::Patch, "configmaps"))
        .unwrap();
    assert_eq!(number, 1);
    assert_eq!(point.to_string(), "patch configmaps in shop, number 1");
}

#[test]
fn each_write_has_its_perturbations_and_each_world_its_own() {
    let points = one_write(None, Some(object(&json!(null))));
    let expected = [
        "throttled", "settled-restart", "crash-before-write@1", "crash-after-write@1",
        "lost-answer@1", "refuse@1:409", "refuse@1:422", "refuse@1:429", "refuse@1:500",
        "refuse@1:503", "late-watch@1", "missed@1", "expired-watch@1", "server-restart@1",
        "interfere@1", "namespace-deleted@1",
    ];
    assert_eq!(names(&points, &scenario(Vec::new())), expected);
}

#[test]
fn what_the_operator_does_not_use_is_not_perturbed() {
    let mut points = one_write(None, Some(object(&json!(null))));
    let has = |points: &ReferencePoints, name: &str| {
        names(points, &scenario(Vec::new())).contains(&name.to_owned())
    };
    assert!(
        !has(&points, "two-leaders@1")
            && !has(&points, "no-webhook")
            && !has(&points, "stale-restart@1:1")
    );
    (points.elects, points.has_webhooks, points.may_be_stale) = (true, true, true);
    assert!(has(&points, "two-leaders@1") && has(&points, "no-webhook"));
    // The state before the write, and before the user's step.
    assert!(has(&points, "stale-restart@1:1") && has(&points, "stale-restart@1:3"));
}

#[test]
fn an_object_is_deleted_unseen_only_if_its_deletion_completes() {
    let has_missed = |points: &ReferencePoints, scenario: &Scenario| {
        names(points, scenario).contains(&"missed@1".to_owned())
    };
    let nothing = scenario(Vec::new());
    let held = one_write(None, Some(object(&json!(["example.com/f"]))));
    assert!(!has_missed(&held, &nothing));
    // The operator's change of an object that another client made would not come back.
    let changed = one_write(Some(object(&json!(null))), Some(object(&json!(null))));
    assert!(!has_missed(&changed, &nothing));
    assert!(has_missed(&changed, &scenario(vec![object(&json!(null))])));
    assert!(!has_missed(
        &one_write(Some(object(&json!(null))), None),
        &nothing
    ));
}
