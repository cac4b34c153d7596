//! The transition table: every phase, after every input.

use super::{FailureClass as Class, ReflectorStep as Step, WatchEnd as End, *};
use ReflectorMachine as Machine;
use std::fmt::Write as _;

/// Returns the origin of the test's instants.
#[expect(clippy::disallowed_methods, reason = "an origin, not a clock")]
fn origin() -> Instant {
    Instant::now()
}

fn version(text: &str) -> ResourceVersion {
    ResourceVersion::new(text)
}

/// The time after the opening of a watch at which it is no longer a short watch.
const LATER: Duration = Duration::from_secs(100);

/// Returns one machine per phase, at `now`.
fn phases(now: Instant) -> Vec<(&'static str, Machine)> {
    let listing = || {
        let mut machine = Machine::new(false, 500, 7);
        machine.next_step(now);
        machine
    };
    let paging = || {
        let mut machine = listing();
        machine.handle_page(&version("10"), Some("token".into()));
        machine.next_step(now);
        machine
    };
    let streaming = || {
        let mut machine = Machine::new(true, 500, 7);
        machine.next_step(now);
        machine.handle_open(now);
        machine
    };
    let watching = |streams: bool| {
        let mut machine = if streams { streaming() } else { listing() };
        if streams {
            machine.handle_bookmark(&version("10"), true, now);
        } else {
            machine.handle_page(&version("10"), None);
            machine.next_step(now);
            machine.handle_open(now);
        }
        machine
    };
    vec![
        ("listing", listing()),
        ("paging", paging()),
        ("streaming", streaming()),
        ("watching after a list", watching(false)),
        ("watching after a stream", watching(true)),
    ]
}

type Input = (&'static str, fn(&mut Machine, Instant));

fn fail(machine: &mut Machine, class: Class, now: Instant) {
    let failure = RequestFailure {
        class,
        begun: false,
        after: None,
        message: "scripted".into(),
    };
    let _told = machine.handle_failure(&failure, now);
}

fn end(machine: &mut Machine, end: End, now: Instant) {
    let _told = machine.handle_end(end, now);
}

const INPUTS: &[Input] = &[
    ("a last page", |m, _| {
        m.handle_page(&version("20"), None);
    }),
    ("a page with another after it", |m, _| {
        m.handle_page(&version("20"), Some("next".into()));
    }),
    ("an event", |m, now| m.handle_event(&version("30"), now)),
    ("an older event", |m, now| {
        m.handle_event(&version("9"), now)
    }),
    ("an event of no initial set", |m, now| {
        m.handle_live_event(now);
        end(m, End::Silent, now + STALL);
        m.handle_page(&version("60"), None);
        fail(m, Class::Expired, now + STALL);
    }),
    ("a bookmark", |m, now| {
        m.handle_bookmark(&version("40"), false, now);
    }),
    ("the end of the initial events", |m, now| {
        m.handle_bookmark(&version("50"), true, now);
    }),
    ("an end", |m, now| end(m, End::Closed, now)),
    ("an event and an end", |m, now| {
        m.handle_event(&version("30"), now);
        end(m, End::Closed, now);
    }),
    ("two ends", |m, now| {
        end(m, End::Closed, now);
        m.next_step(now + LATER);
        m.handle_open(now + LATER);
        end(m, End::Closed, now + LATER);
    }),
    ("silence", |m, now| end(m, End::Silent, now)),
    ("silence, a list and expired", |m, now| {
        end(m, End::Silent, now);
        m.handle_page(&version("60"), None);
        fail(m, Class::Expired, now);
    }),
    ("expired", |m, now| fail(m, Class::Expired, now)),
    ("expired twice", |m, now| {
        fail(m, Class::Expired, now);
        m.next_step(now);
        fail(m, Class::Expired, now);
    }),
    ("version unknown", |m, now| {
        fail(m, Class::VersionUnknown, now)
    }),
    ("rejected", |m, now| fail(m, Class::Rejected, now)),
    ("rejected five times", |m, now| {
        for _ in 0..5 {
            fail(m, Class::Rejected, now);
        }
    }),
    ("not served", |m, now| fail(m, Class::NotServed, now)),
    ("forbidden", |m, now| fail(m, Class::Forbidden, now)),
    ("throttled", |m, now| fail(m, Class::Throttled, now)),
    ("network", |m, now| fail(m, Class::Network, now)),
    ("starting", |m, now| fail(m, Class::Starting, now)),
    ("unavailable", |m, now| fail(m, Class::Unavailable, now)),
    ("unavailable, then expired", |m, now| {
        for _ in 0..6 {
            fail(m, Class::Unavailable, now);
        }
        fail(m, Class::Expired, now);
    }),
    ("a broken connection", |m, now| end(m, End::Broken, now)),
    ("three ends at once", |m, now| {
        for _ in 0..3 {
            let at = now + LATER;
            m.next_step(at);
            m.handle_open(at);
            end(m, End::Closed, at);
        }
    }),
    ("server", |m, now| fail(m, Class::Server, now)),
    ("decode", |m, now| fail(m, Class::Decode, now)),
    ("decode twice", |m, now| {
        fail(m, Class::Decode, now);
        m.next_step(now + LATER);
        fail(m, Class::Decode, now + LATER);
    }),
];

fn show(step: &Step) -> String {
    match step {
        Step::List {
            version,
            limit,
            page,
        } => {
            let limit = limit.map_or("all".to_owned(), |limit| limit.to_string());
            let page = page.as_deref().unwrap_or("first page");
            format!("list from {version:?}, {limit}, {page}")
        }
        Step::Watch { after, .. } => format!("watch after {after:?}"),
        Step::Stream { version, .. } => format!("stream from {version:?}"),
        Step::Sleep { .. } => "sleep".to_owned(),
    }
}

#[test]
fn transition_table() {
    let start = origin();
    let now = start + LATER;
    let mut table = String::new();
    for (name, _) in phases(start) {
        writeln!(table, "{name}").unwrap();
        for (input, apply) in INPUTS {
            let (_, mut machine) = phases(start).into_iter().find(|(n, _)| *n == name).unwrap();
            apply(&mut machine, now);
            let problem = machine.problem().map(|p| format!(" [{}]", p.reason));
            let mut step = machine.next_step(now + LATER + LATER);
            let waits = machine_waits(&mut step, apply, name, start, now);
            let problem = problem.unwrap_or_default();
            writeln!(table, "  {input:<30} {waits}{}{problem}", show(&step)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

/// Returns whether the machine sleeps before that step.
fn machine_waits(
    step: &mut Step,
    apply: &fn(&mut Machine, Instant),
    name: &str,
    start: Instant,
    now: Instant,
) -> &'static str {
    let (_, mut machine) = phases(start).into_iter().find(|(n, _)| *n == name).unwrap();
    apply(&mut machine, now);
    match machine.next_step(now) {
        Step::Sleep { .. } => "waits, then ",
        immediate => {
            *step = immediate;
            ""
        }
    }
}

// REFL-1
#[test]
fn refl_1_within_a_watch_the_version_only_advances() {
    let now = origin();
    let (_, mut machine) = phases(now).remove(3);
    for (seen, expected) in [
        ("11", "11"),
        ("9", "11"),
        ("", "11"),
        ("0", "11"),
        ("30", "30"),
    ] {
        machine.handle_event(&version(seen), now);
        assert_eq!(machine.position, version(expected));
    }
    // Versions that cannot be ordered: the last one counts as the newest.
    machine.handle_event(&version("x7"), now);
    machine.handle_event(&version("x6"), now);
    assert_eq!(machine.position, version("x6"));
}

#[test]
fn watches_last_a_little_less_than_five_minutes_and_differ() {
    let timeouts: std::collections::BTreeSet<Duration> = (0..20)
        .map(|seed| {
            let now = origin();
            let mut machine = Machine::new(true, 500, seed);
            match machine.next_step(now) {
                Step::Stream { timeout, .. } => timeout,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert!(timeouts.len() > 5);
    let bounds = Duration::from_secs(269)..=Duration::from_secs(290);
    assert!(timeouts.iter().all(|timeout| bounds.contains(timeout)));
}

/// Returns the reason of a failure, and its number since the last success.
fn reported(machine: &mut Machine, of: End, now: Instant) -> Option<(Reason, u32)> {
    let failed = machine.handle_end(of, now)?;
    Some((failed.reason, failed.attempt))
}

/// Returns the time of the next request.
fn due(machine: &mut Machine, mut now: Instant) -> Instant {
    while let Step::Sleep { until, .. } = machine.next_step(now) {
        now = until;
    }
    now
}

/// Opens the next watch. Returns its time.
fn open(machine: &mut Machine, now: Instant) -> Instant {
    let now = due(machine, now);
    machine.handle_open(now);
    now
}

#[test]
fn the_end_of_a_watch_is_a_failure_if_it_brought_nothing() {
    let start = origin();
    let (_, mut machine) = phases(start).remove(3);
    // A quiet watch that lasts until its timeout is no failure.
    assert_eq!(reported(&mut machine, End::Closed, start + LATER), None);
    let mut now = start + LATER;
    for attempt in 1..=3 {
        now = open(&mut machine, now);
        let short = reported(&mut machine, End::Closed, now + SHORT / 2);
        assert_eq!(short, Some((Reason::ShortWatch, attempt)));
    }
    assert_eq!(machine.problem().unwrap().reason, Reason::ShortWatch);
    // REFL-11: everything is listed. The list does not prove that watches work.
    now = due(&mut machine, now);
    assert!(matches!(machine.next_step(now), Step::List { .. }));
    machine.handle_page(&version("20"), None);
    assert_eq!(machine.problem().unwrap().reason, Reason::ShortWatch);
    // The watch delivered an event before it ended, so failures are counted anew.
    now = open(&mut machine, now);
    machine.handle_event(&version("30"), now);
    let failure = RequestFailure::cut();
    assert_eq!(machine.handle_failure(&failure, now).attempt, 1);
    now = open(&mut machine, now);
    machine.handle_event(&version("31"), now);
    assert_eq!(reported(&mut machine, End::Closed, now), None);
    for attempt in 1..=3 {
        now = open(&mut machine, now);
        now = machine.deadline(now);
        if !machine.handle_tick(now) {
            // The watch stayed open for a moment, which ends the problem but not the count.
            assert!(machine.problem().is_none());
            now = machine.deadline(now);
            assert!(machine.handle_tick(now));
        }
        let silent = reported(&mut machine, End::Silent, now);
        assert_eq!(silent, Some((Reason::Silent, attempt)));
    }
}

#[test]
fn a_streaming_list_without_an_end_is_a_failure_unless_the_server_streams_none() {
    let now = origin();
    let streaming = || phases(now).remove(2).1;
    let cut = reported(&mut streaming(), End::Closed, now + LATER);
    assert_eq!(cut, Some((Reason::Network, 1)));
    let stalled = reported(&mut streaming(), End::Silent, now + STALL);
    assert_eq!(stalled, Some((Reason::Silent, 1)));
    let mut ordinary = streaming();
    ordinary.handle_live_event(now);
    assert_eq!(reported(&mut ordinary, End::Silent, now + STALL), None);
}

// REFL-8
#[test]
fn refusals_are_counted_anew_after_a_healthy_watch() {
    let mut now = origin();
    let (_, mut machine) = phases(now).remove(3);
    for _ in 0..3 {
        for _ in 1..REFUSALS {
            fail(&mut machine, Class::Rejected, now);
        }
        now = open(&mut machine, now) + WELL;
        end(&mut machine, End::Closed, now);
    }
    assert!(matches!(machine.next_step(now), Step::Watch { .. }));
    for _ in 0..REFUSALS {
        fail(&mut machine, Class::Rejected, now);
    }
    assert!(matches!(machine.next_step(now + LATER), Step::List { .. }));
}

// REFL-8
#[test]
fn refl_8_no_number_of_failures_of_a_server_lists_anything_again() {
    let start = origin();
    for class in [
        Class::Server,
        Class::Unavailable,
        Class::Starting,
        Class::Network,
        Class::Throttled,
    ] {
        let (_, mut machine) = phases(start).remove(3);
        let mut now = start;
        for _ in 0..50 {
            fail(&mut machine, class, now);
            now = due(&mut machine, now);
        }
        let step = machine.next_step(now);
        assert!(matches!(step, Step::Watch { .. }), "{class:?}: {step:?}");
    }
}

// REFL-9
#[test]
fn refl_9_a_refusal_or_the_return_of_the_server_ends_the_backoff_of_an_outage() {
    let start = origin();
    let delay = |machine: &mut Machine, now: Instant| {
        fail(machine, Class::Unavailable, now);
        due(machine, now) - now
    };
    let ends: [fn(&mut Machine, Instant); 3] = [
        |m, now| fail(m, Class::Expired, now),
        |m, _| m.handle_answer(),
        |m, _| m.handle_return(),
    ];
    for ends in ends {
        let (_, mut machine) = phases(start).remove(3);
        let mut now = start;
        while now < start + Duration::from_secs(80) {
            now += delay(&mut machine, now);
        }
        assert!(delay(&mut machine, now) > Duration::from_secs(10));
        ends(&mut machine, now);
        assert!(delay(&mut machine, now) < Duration::from_secs(1));
    }
}

// REFL-10
#[test]
fn refl_10_a_watch_without_its_expected_bookmarks_is_silent_and_degrades_the_state() {
    let start = origin();
    let (_, mut machine) = phases(start).remove(3);
    let minute = Duration::from_secs(60);
    machine.handle_bookmark(&version("11"), false, start + minute);
    let silent = machine.deadline(start + minute);
    assert_eq!(silent, start + minute * 2 + Duration::from_secs(15));
    assert!(machine.handle_tick(silent));
    assert_eq!(
        reported(&mut machine, End::Silent, silent),
        Some((Reason::Silent, 1))
    );
    assert_eq!(machine.problem().unwrap().reason, Reason::Silent);
    let Step::Watch { after, .. } = machine.next_step(silent) else {
        panic!("{machine:?}")
    };
    assert_eq!(after, version("11"));
}

/// REFL-10: a list may take any time.
#[test]
fn a_late_response_is_a_problem_of_watches_and_not_of_lists() {
    let now = origin();
    let late = |number: usize| {
        let (_, mut machine) = phases(now).remove(number);
        machine.next_step(now);
        machine.handle_late(now);
        machine.problem().map(|problem| problem.reason)
    };
    assert_eq!(
        (late(0), late(2), late(3)),
        (None, None, Some(Reason::Network))
    );
}

// REFL-11
#[test]
fn refl_11_bookmarks_without_news_do_not_make_a_short_watch_a_success() {
    let start = origin();
    let (_, mut machine) = phases(start).remove(3);
    let (mut now, mut lists) = (start, 0);
    let end_of_time = start + Duration::from_secs(600);
    let mut requests = 0;
    while now < end_of_time {
        now = due(&mut machine, now);
        requests += 1;
        match machine.next_step(now) {
            Step::List { .. } => {
                lists += 1;
                machine.handle_page(&version("10"), None);
            }
            _ => {
                machine.handle_open(now);
                machine.handle_bookmark(&version("10"), false, now);
                end(&mut machine, End::Closed, now);
            }
        }
    }
    // Three watches and a list alternate, with growing delays.
    assert!((7..40).contains(&requests), "{requests}");
    assert!(
        (requests / 4..=requests / 4 + 1).contains(&lists),
        "{lists} of {requests}"
    );
}

#[test]
fn a_list_is_paged_again_after_a_list_in_one_page() {
    let now = origin();
    let (_, mut machine) = phases(now).remove(1);
    let limit = |machine: &mut Machine| match machine.next_step(now + LATER) {
        Step::List { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    fail(&mut machine, Class::Expired, now);
    assert_eq!(limit(&mut machine), None);
    machine.handle_page(&version("20"), None);
    fail(&mut machine, Class::Expired, now);
    assert_eq!(limit(&mut machine), Some(500));
}

// VIEW-3
#[test]
fn view_3_a_wider_list_is_not_older_than_the_versions_seen() {
    let now = origin();
    type Sees = fn(&mut Machine, Instant);
    let sees: [(Sees, &str); 2] = [
        (|m, now| m.handle_event(&version("30"), now), "30"),
        (
            |m, now| {
                m.handle_bookmark(&version("40"), false, now);
            },
            "40",
        ),
    ];
    for (sees, expected) in sees {
        let (_, mut machine) = phases(now).remove(3);
        sees(&mut machine, now);
        machine.handle_relist(now);
        let Step::List { version: from, .. } = machine.next_step(now) else {
            panic!("{machine:?}")
        };
        assert_eq!(from, version(expected));
    }
}
