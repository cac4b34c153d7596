//! No key starves, and urgent keys overtake ordinary ones.

use std::collections::HashMap;

use futures::FutureExt;
use proptest::prelude::*;
use steersman_workqueue::{AddOptions, Priority, Queue, QueueOptions};

// WQ-5: a hot key that is added again during each of its runs, among a thousand cold keys.
#[tokio::test(start_paused = true)]
async fn a_hot_key_delays_cold_keys_by_one_run_each_at_most() {
    let queue = Queue::new(QueueOptions::<u32>::new("hot"));
    queue.add(0);
    for key in 1..=1000 {
        queue.add(key);
    }
    let mut cold = 0;
    let mut turns = 0;
    while cold < 1000 {
        let ticket = queue.next().await.unwrap();
        turns += 1;
        if *ticket.key() == 0 {
            queue.add(0);
        } else {
            cold += 1;
        }
        ticket.forget();
    }
    assert!(turns <= 2001, "{turns} turns");
}

// WQ-5: an initial list of low priority, and a steady flow of ordinary keys.
#[tokio::test(start_paused = true)]
async fn low_priority_keeps_a_share_under_a_steady_flow() {
    let queue = Queue::new(QueueOptions::<u32>::new("share"));
    for key in 0..100 {
        queue.add_with(key, AddOptions::new().priority(Priority::LOW));
    }
    queue.add(1_000_000);
    let mut low = Vec::new();
    let mut flow = 1_000_000;
    let mut turns = 0;
    while low.len() < 100 {
        let ticket = queue.next().await.unwrap();
        turns += 1;
        if *ticket.key() < 100 {
            low.push(*ticket.key());
        } else {
            flow += 1;
            queue.add(flow);
        }
        ticket.forget();
    }
    assert_eq!(
        low,
        (0..100).collect::<Vec<_>>(),
        "first in, first out within the priority"
    );
    assert_eq!(turns, 800, "one turn in eight");
}

#[tokio::test(start_paused = true)]
async fn ordinary_keys_overtake_an_initial_list() {
    let queue = Queue::new(QueueOptions::<u32>::new("overtake"));
    for key in 0..1000 {
        queue.add_with(key, AddOptions::new().priority(Priority::LOW));
    }
    queue.add_with(500, AddOptions::new());
    queue.add(5000);
    let mut taken = Vec::new();
    for _ in 0..3 {
        let ticket = queue.next().await.unwrap();
        taken.push(*ticket.key());
        ticket.forget();
    }
    assert_eq!(taken, [500, 5000, 0]);
}

/// A strategy for flows: per turn, the priorities of the keys that are added before the turn.
fn flow() -> impl Strategy<Value = Vec<Vec<i32>>> {
    let priority = prop::sample::select(vec![-100, 0, 0, 1, 100, 100]);
    prop::collection::vec(prop::collection::vec(priority, 0..4), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    // WQ-5: whatever is added with a higher priority, the number of turns that a key waits is bounded by the number of
    // keys that were ready before it.
    #[test]
    fn no_flow_of_higher_priorities_delays_a_key_without_bound(flow in flow(), share in 2_u32..12) {
        let options = QueueOptions::<usize>::new("flow").lower_priority_share(share);
        let queue = Queue::new(options);
        let mut latest: HashMap<usize, usize> = HashMap::new();
        let (mut key, mut turn) = (0, 0);
        let mut adds = flow.into_iter();
        loop {
            let more = adds.next();
            let ends = more.is_none();
            for priority in more.unwrap_or_default() {
                latest.insert(key, turn + share as usize * (queue.len() + 1));
                queue.add_with(key, AddOptions::new().priority(Priority::new(priority)));
                key += 1;
            }
            match queue.next().now_or_never().and_then(Result::ok) {
                Some(ticket) => {
                    let latest = latest[ticket.key()];
                    prop_assert!(turn <= latest, "key {} at turn {turn}, after {latest}", ticket.key());
                    ticket.forget();
                    turn += 1;
                }
                None if ends => break,
                None => {}
            }
        }
    }
}
