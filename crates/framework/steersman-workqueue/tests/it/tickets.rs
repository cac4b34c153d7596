//! How tickets end: by verdict, by panic, with their task.

use std::time::Duration;

use steersman_workqueue::{Queue, QueueOptions};

// WQ-3
#[tokio::test(start_paused = true)]
async fn a_panic_and_an_aborted_task_requeue_with_backoff() {
    let queue = Queue::new(QueueOptions::<&str>::new("tickets"));
    queue.add("a");
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _ticket = queue.next().await;
            panic!("the reconciler of this test panics");
        }
    });
    assert!(worker.await.unwrap_err().is_panic());

    let start = tokio::time::Instant::now();
    let ticket = queue.next().await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(5));
    assert_eq!(ticket.attempts(), 1);

    let worker = tokio::spawn(async move {
        let _held = ticket;
        std::future::pending::<()>().await;
    });
    tokio::task::yield_now().await;
    worker.abort();
    assert!(worker.await.unwrap_err().is_cancelled());
    let ticket = queue.next().await.unwrap();
    assert_eq!(ticket.attempts(), 2);
    ticket.forget();
    assert!(queue.idle());
}

#[test]
fn handles_cross_threads() {
    fn assert_send_sync<T: Send + Sync>() {}
    fn assert_send<T: Send>(_: T) {}
    assert_send_sync::<Queue<String>>();
    assert_send_sync::<steersman_workqueue::Ticket<String>>();
    let queue = Queue::new(QueueOptions::<u8>::new("send"));
    assert_send(queue.next());
    assert_send(queue.drain());
}
