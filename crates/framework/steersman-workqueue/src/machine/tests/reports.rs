//! What the machine reports of its keys.

use std::time::Duration;

use super::*;
use crate::report::{KeyReport, KeyState, QueueReport};

fn keys(report: &QueueReport<&'static str>) -> Vec<(&'static str, KeyState)> {
    report.keys.iter().map(|one| (one.key, one.state)).collect()
}

#[test]
fn a_report_has_the_first_keys_of_each_state_and_all_numbers() {
    let mut world = World::new();
    world.machine = Machine::new(QueueOptions::new("test").record_times());
    let start = world.now;
    let second = Duration::from_secs(1);
    for key in ["held", "again"] {
        world.add(key, now());
        world.take().unwrap();
        world.now += second;
    }
    world.add("again", now());
    for key in ["ready-1", "ready-2", "ready-3"] {
        world.add(key, now());
    }
    for (key, delay) in [("late", 9), ("soon", 5), ("later", 99)] {
        world.add(key, now().after(second * delay));
    }
    let report = world.machine.report(2);
    assert_eq!((report.held, report.ready, report.delayed), (2, 3, 3));
    let held = |runs_again| KeyState::Held {
        since: Some(start + second * u32::from(runs_again)),
        runs_again,
    };
    let until = |seconds| KeyState::Delayed {
        until: world.now + second * seconds,
    };
    let ready = KeyState::Ready { since: None };
    let expected = [
        ("held", held(false)),
        ("again", held(true)),
        ("ready-1", ready),
        ("ready-2", ready),
        ("soon", until(5)),
        ("late", until(9)),
    ];
    assert_eq!(keys(&report), expected);
}

#[test]
fn a_failed_key_is_found_with_its_failures_and_its_retry() {
    let mut world = World::new();
    let taken = world.retry("bad", 2);
    world.end(&taken, Verdict::Backoff);
    let due = world.machine.deadline().unwrap();
    let found = world.machine.find(|key| *key == "bad").unwrap();
    let expected = KeyReport {
        key: "bad",
        state: KeyState::Delayed { until: due },
        priority: Priority::NORMAL,
        failures: 3,
        retry_at: Some(due),
    };
    assert_eq!(found, expected);
    assert_eq!(world.machine.report(1).failing, [expected]);
    // WQ-11: an add brings the next run forward, and the deadline of the retry stays.
    world.add("bad", now());
    let found = world.machine.find(|key| *key == "bad").unwrap();
    assert_eq!(found.state, KeyState::Ready { since: None });
    assert_eq!(found.retry_at, Some(due));
    assert_eq!(world.machine.find(|key| *key == "other"), None);
}
