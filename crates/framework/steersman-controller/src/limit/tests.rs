//! Tests of the permits of a limit, also when the future of a waiting worker is dropped.

use futures::FutureExt;

use super::*;
use crate::metrics::Registrar;

fn limit(permits: usize) -> (ReconcileLimit, LimitUser) {
    let limit = ReconcileLimit::new(NonZeroUsize::new(permits).unwrap());
    let registrar = Registrar {
        controller: "test",
        registry: &prometheus::Registry::new(),
    };
    let user = limit.user(PermitMetrics::new(&registrar).unwrap());
    (limit, user)
}

// CTRL-10: controllers that share a limit run at most its number of reconciles at once.
#[tokio::test(start_paused = true)]
async fn at_most_the_permitted_number_is_in_use() {
    let (limit, user) = limit(2);
    let first = user.permit().await;
    let second = user.permit().await;
    assert_eq!(limit.in_use(), 2);
    let mut third = Box::pin(user.permit());
    assert!((&mut third).now_or_never().is_none());
    drop(first);
    let third = third.await;
    assert_eq!(limit.in_use(), 2);
    drop((second, third));
    assert_eq!(limit.in_use(), 0);
}

// CTRL-10: a permit that was granted to a dropped future is free again.
#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_returns_the_permit_that_it_was_given() {
    let (limit, user) = limit(1);
    let held = user.permit().await;
    let mut waits = Box::pin(user.permit());
    let mut leaves = Box::pin(user.permit());
    assert!((&mut waits).now_or_never().is_none());
    assert!((&mut leaves).now_or_never().is_none());
    drop(leaves);
    drop(held);
    assert_eq!(limit.in_use(), 1, "granted, and not received yet");
    drop(waits);
    assert_eq!(limit.in_use(), 0);
    assert!(limit.shared.state.lock().waiters.is_empty());
}
