//! Workers that take keys only with a permit.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use steersman_workqueue::{AddOptions, Priority, Queue, QueueOptions};
use tokio::sync::Semaphore;
use tokio::time::timeout;

fn queue() -> Queue<u32> {
    Queue::new(QueueOptions::new("permits"))
}

// WQ-10: the key with the higher priority is taken although it was added while the worker waited.
#[tokio::test(start_paused = true)]
async fn no_key_is_held_while_a_permit_is_waited_for() {
    let queue = queue();
    let (give, permit) = oneshot::channel::<u32>();
    let permit = permit.shared();
    let mut next = Box::pin(queue.next_with(|| permit.clone()));
    assert!((&mut next).now_or_never().is_none(), "no key is ready");
    queue.add(1);
    assert!((&mut next).now_or_never().is_none(), "there is no permit");
    assert_eq!((queue.len(), queue.held()), (1, Vec::new()));
    queue.add_with(2, AddOptions::new().priority(Priority::HIGH));
    give.send(7).unwrap();
    let (ticket, permit) = next.await.unwrap();
    assert_eq!((*ticket.key(), permit), (2, Ok(7)));
}

// WQ-10: idle workers hold no permit.
#[tokio::test(start_paused = true)]
async fn no_permit_is_asked_for_before_a_key_is_ready() {
    let queue = queue();
    let mut asked = 0;
    let next = queue.next_with(|| {
        asked += 1;
        async {}
    });
    assert!(next.now_or_never().is_none());
    assert_eq!(asked, 0);
}

// WQ-10
#[tokio::test(start_paused = true)]
async fn a_permit_is_returned_if_another_worker_took_the_key() {
    let queue = queue();
    let permits = Arc::new(Semaphore::new(1));
    let own = Arc::clone(&permits).acquire_owned().await.unwrap();
    let mut next = Box::pin(queue.next_with(|| Arc::clone(&permits).acquire_owned()));
    queue.add(1);
    assert!((&mut next).now_or_never().is_none());
    let taken = queue.next().await.unwrap();
    drop(own);
    assert!((&mut next).now_or_never().is_none(), "there is no key");
    assert_eq!(permits.available_permits(), 1);
    taken.forget();
    queue.add(2);
    let (ticket, _permit) = next.await.unwrap();
    assert_eq!(*ticket.key(), 2);
}

// WQ-10: the notification of a ready key is not lost with the worker that received it.
#[tokio::test(start_paused = true)]
async fn a_worker_that_gives_up_wakes_another() {
    let queue = queue();
    let mut first = Box::pin(queue.next_with(pending::<()>));
    assert!((&mut first).now_or_never().is_none());
    let second = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|ticket| *ticket.key()) }
    });
    tokio::task::yield_now().await;
    // The add wakes the worker that parked first.
    queue.add(1);
    assert!((&mut first).now_or_never().is_none());
    drop(first);
    let second = timeout(Duration::from_secs(60), second).await;
    assert_eq!(second.unwrap().unwrap(), Ok(1));
}

// WQ-6, WQ-10
#[tokio::test(start_paused = true)]
async fn a_shut_down_ends_the_wait_for_a_permit() {
    let queue = queue();
    queue.add(1);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next_with(pending::<()>).await.map(drop) }
    });
    tokio::task::yield_now().await;
    assert_eq!(queue.shut_down(), 1);
    assert!(worker.await.unwrap().is_err());
}
