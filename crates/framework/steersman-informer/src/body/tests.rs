//! Bodies under several budgets, read as several types, on one thread and on many.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::{DynamicObject, PartialObjectMeta};

use super::*;
use crate::metrics::Counters;
use steersman_pack::Budget;

const JSON: &[u8] = br#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;

type Metadata = PartialObjectMeta<ConfigMap>;

impl BodyContext {
    pub(crate) fn alone(budget: Budget) -> Arc<Self> {
        Arc::new(Self::new(budget, Counters::default(), false))
    }
}

/// The owner of a body in these tests, in place of an entry.
struct Held(Body);

impl Evictable for Held {
    fn take_visited(&self) -> bool {
        self.0.visited.swap(false, Ordering::Relaxed)
    }

    fn evicted_at(&self) -> &AtomicU32 {
        &self.0.evicted_at
    }

    fn evict(&self) {
        self.0.evict();
    }
}

fn fresh(json: &[u8], projection: Projection, context: &Arc<BodyContext>) -> Arc<Held> {
    Arc::new(Held(Body::new(
        json.into(),
        Conformity::Unchecked,
        projection,
        context,
    )))
}

fn held(json: &[u8], projection: Projection, context: &Arc<BodyContext>) -> Arc<Held> {
    let held = fresh(json, projection, context);
    pack(&held);
    held
}

fn pack(held: &Arc<Held>) -> bool {
    held.0.pack(|| Arc::downgrade(held) as Weak<dyn Evictable>)
}

fn check(held: &Arc<Held>) -> Result<(), Arc<str>> {
    let holder = || Arc::downgrade(held) as Weak<dyn Evictable>;
    held.0.check::<ConfigMap>(holder)
}

fn body() -> Arc<Held> {
    held(
        JSON,
        Projection::EveryField,
        &BodyContext::alone(Budget::unlimited()),
    )
}

fn decoded<K: Object>(held: &Arc<Held>) -> DecodeResult<K> {
    held.0
        .decoded(|| Arc::downgrade(held) as Weak<dyn Evictable>)
}

fn decode_if_room(held: &Arc<Held>) -> Arc<ConfigMap> {
    let holder = || Arc::downgrade(held) as Weak<dyn Evictable>;
    held.0.decode_if_room(holder).unwrap()
}

fn is_cached(held: &Arc<Held>) -> bool {
    held.0.cached::<ConfigMap>().is_some()
}

// STORE-2
#[test]
fn store_2_all_readers_of_one_type_share_the_object() {
    let body = body();
    let one = decoded::<ConfigMap>(&body).unwrap();
    let metadata = decoded::<Metadata>(&body).unwrap();
    assert_eq!(metadata.metadata, one.metadata);
    assert!(Arc::ptr_eq(&one, &decoded(&body).unwrap()));
}

// VIEW-5
#[test]
fn view_5_decode_once_caches_nothing_and_shares_a_cached_form() {
    let body = body();
    let (one, two) = (
        body.0.decode_once::<ConfigMap>().unwrap(),
        body.0.decode_once::<ConfigMap>().unwrap(),
    );
    assert!(one == two && !Arc::ptr_eq(&one, &two));
    assert_eq!(Arc::strong_count(&one), 1);
    let cached = decoded::<ConfigMap>(&body).unwrap();
    assert!(Arc::ptr_eq(&cached, &body.0.decode_once().unwrap()));
}

// VIEW-4
#[test]
fn view_4_forgetting_one_type_keeps_the_forms_of_others() {
    for budget in [Budget::unlimited(), Budget::default()] {
        let body = held(
            JSON,
            Projection::EveryField,
            &BodyContext::alone(budget.clone()),
        );
        let first = decoded::<ConfigMap>(&body).unwrap();
        let alone = budget.charged();
        let other = decoded::<Metadata>(&body).unwrap();
        assert!(budget.limit().is_none() || budget.charged() > alone);
        body.0.forget(&[TypeId::of::<ConfigMap>()]);
        assert_eq!(Arc::strong_count(&first), 1);
        assert!(Arc::ptr_eq(&other, &decoded(&body).unwrap()));
        body.0.forget(&[TypeId::of::<Metadata>()]);
        assert_eq!((Arc::strong_count(&other), budget.charged()), (1, 0));
        assert_eq!(decoded::<ConfigMap>(&body).unwrap(), first);
        assert_eq!(budget.charged(), alone);
    }
}

#[test]
fn completing_a_body_keeps_its_decoded_metadata() {
    let context = BodyContext::alone(Budget::default());
    let json = br#"{"metadata":{"name":"a"}}"#;
    let body = held(json, Projection::Metadata, &context);
    let metadata = decoded::<Metadata>(&body).unwrap();
    assert!(decoded::<ConfigMap>(&body).is_err());
    body.0
        .complete(RawObject::from_json(JSON).unwrap(), Projection::EveryField);
    pack(&body);
    assert!(decoded::<ConfigMap>(&body).unwrap().data.is_some());
    assert!(Arc::ptr_eq(&metadata, &decoded(&body).unwrap()));
}

// PACK-2
#[test]
fn pack_2_a_completed_body_evicts_others_when_the_budget_is_spent() {
    // Returns whether a completed body and another body of a whole object both stay cached, and their charge.
    let fill = |budget: &Budget| {
        let context = BodyContext::alone(budget.clone());
        let json = br#"{"metadata":{"name":"a"}}"#;
        let (grows, other) = (
            held(json, Projection::Metadata, &context),
            held(JSON, Projection::EveryField, &context),
        );
        decoded::<Metadata>(&grows).unwrap();
        decoded::<ConfigMap>(&other).unwrap();
        grows
            .0
            .complete(RawObject::from_json(JSON).unwrap(), Projection::EveryField);
        decoded::<ConfigMap>(&grows).unwrap();
        pack(&grows);
        let all = [is_cached(&grows), is_cached(&other)];
        (all.iter().all(|cached| *cached), budget.charged())
    };
    let (fits, charged) = fill(&Budget::default());
    assert!(fits);
    let (fits, _) = fill(&Budget::bytes(charged));
    assert!(fits);
    let (fits, _) = fill(&Budget::bytes(charged - 1));
    assert!(!fits, "no body was evicted");
}

#[test]
fn decode_errors_quote_no_value_of_a_secret() {
    let json = br#"{"metadata":{"name":"a"},"data":"hunter2"}"#;
    let error = |secret| {
        let context = BodyContext::new(Budget::default(), Counters::default(), secret);
        decoded::<ConfigMap>(&held(json, Projection::EveryField, &Arc::new(context))).unwrap_err()
    };
    assert!(
        error(false).starts_with("data: invalid type"),
        "{}",
        error(false)
    );
    assert!(!error(true).contains("hunter2"), "{}", error(true));
}

// PACK-2
#[test]
fn pack_2_a_zero_budget_caches_nothing_and_no_limit_caches_everything() {
    for (budget, stays) in [
        (Budget::bytes(0), false),
        (Budget::default(), true),
        (Budget::unlimited(), true),
    ] {
        let body = fresh(JSON, Projection::EveryField, &BodyContext::alone(budget));
        // All views that decode an arriving object share its decoded form.
        assert!(check(&body).is_ok() && is_cached(&body) && !pack(&body));
        assert_eq!(is_cached(&body), stays);
        assert!(check(&body).is_ok());
        assert_eq!(
            decoded::<ConfigMap>(&body).unwrap().data.as_ref().unwrap()["k"],
            "v"
        );
        assert_eq!(is_cached(&body), stays);
    }
}

// PACK-2
#[test]
fn pack_2_an_evicted_body_is_decoded_again_when_read() {
    let budget = Budget::default();
    let context = BodyContext::alone(budget.clone());
    let one = held(JSON, Projection::EveryField, &context);
    decoded::<ConfigMap>(&one).unwrap();
    decoded::<DynamicObject>(&one).unwrap();
    let charge = budget.charged();
    drop(one);
    assert_eq!(budget.charged(), 0);

    let budget = Budget::bytes(charge * 5 / 2);
    let context = BodyContext::alone(budget.clone());
    let bodies: Vec<_> = (0..10)
        .map(|_| held(JSON, Projection::EveryField, &context))
        .collect();
    for body in &bodies {
        decoded::<ConfigMap>(body).unwrap();
        decoded::<DynamicObject>(body).unwrap();
        assert!(budget.charged() <= charge * 5 / 2);
    }
    let cached = bodies.iter().filter(|body| is_cached(body)).count();
    assert_eq!(cached, 2);
    assert!(!is_cached(&bodies[0]));
    let again = decoded::<ConfigMap>(&bodies[0]).unwrap();
    assert!(Arc::ptr_eq(&again, &decoded(&bodies[0]).unwrap()));
    drop(bodies);
    assert_eq!(budget.charged(), 0);
}

// PACK-3
#[test]
fn pack_3_arriving_objects_evict_nothing() {
    let budget = Budget::default();
    let context = BodyContext::alone(budget.clone());
    let one = held(JSON, Projection::EveryField, &context);
    decoded::<ConfigMap>(&one).unwrap();
    let charge = budget.charged();

    let budget = Budget::bytes(charge * 3 / 2);
    let context = BodyContext::alone(budget.clone());
    let (one, another) = (
        fresh(JSON, Projection::EveryField, &context),
        fresh(JSON, Projection::EveryField, &context),
    );
    for body in [&one, &another] {
        check(body).unwrap();
        pack(body);
    }
    assert!(is_cached(&one) && !is_cached(&another));
    assert_eq!(budget.charged(), charge);
    // Only a read evicts other forms.
    decode_if_room(&another);
    assert!(is_cached(&one) && !is_cached(&another));
    one.take_visited();
    decode_if_room(&one);
    decoded::<ConfigMap>(&another).unwrap();
    assert!(!is_cached(&one) && is_cached(&another));
}

// PACK-3
#[test]
fn pack_3_decode_once_caches_and_evicts_nothing() {
    let context = BodyContext::alone(Budget::bytes(1 << 20));
    let body = held(JSON, Projection::EveryField, &context);
    body.0.decode_once::<ConfigMap>().unwrap();
    assert!(!is_cached(&body));
    decoded::<ConfigMap>(&body).unwrap();
    body.take_visited();
    body.0.decode_once::<ConfigMap>().unwrap();
    assert!(!body.take_visited());
    assert!(is_cached(&body) && body.take_visited());
}

// PACK-2
#[test]
fn pack_2_concurrent_reads_and_evictions_leave_the_charge_at_zero() {
    let budget = Budget::bytes(20_000);
    let context = BodyContext::alone(budget.clone());
    let bodies: Vec<_> = (0..40)
        .map(|_| held(JSON, Projection::EveryField, &context))
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let bodies = &bodies;
            scope.spawn(move || {
                for round in 0..500_usize {
                    let body = &bodies[(round * (thread + 1) * 7) % bodies.len()];
                    match (round + thread) % 5 {
                        0 => body.0.forget(&[TypeId::of::<ConfigMap>()]),
                        1 => drop(decoded::<Metadata>(body).unwrap()),
                        2 => body.0.evict(),
                        _ => drop(decoded::<ConfigMap>(body).unwrap()),
                    }
                }
            });
        }
    });
    for body in &bodies {
        body.0.evict();
    }
    assert_eq!(budget.charged(), 0);
}

// STORE-7
#[test]
fn store_7_try_peek_does_not_wait_for_a_writer() {
    let body = body();
    decoded::<ConfigMap>(&body).unwrap();
    let peeked = || {
        body.0
            .try_peek::<ConfigMap>()
            .map(|object| Arc::strong_count(&object))
    };
    assert!(is_cached(&body) && peeked() == Some(1));
    assert!(body.0.try_peek::<Metadata>().is_none(), "of another type");
    let changing = body.0.state.write();
    assert!(peeked().is_none());
    drop(changing);
    assert!(is_cached(&body) && peeked() == Some(1));
}
