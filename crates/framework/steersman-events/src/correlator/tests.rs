//! Tests the correlator with single events and results of writes.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{ConfigMap, Node};

use super::*;
use crate::object_ref::Regarding;
use crate::series::{Reporter, WriteVerb};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A correlator with a simulated clock.
struct Bench {
    correlator: Correlator,
    start: Instant,
    now: Instant,
    reporter: Arc<Reporter>,
}

impl Bench {
    fn new() -> Self {
        let start = tokio::time::Instant::now().into_std();
        let reporter = Reporter {
            controller: "website".to_owned(),
            instance: "website-pod".to_owned(),
        };
        Self {
            correlator: Correlator::new(7, EventLimits::new()),
            start,
            now: start,
            reporter: Arc::new(reporter),
        }
    }

    /// Sets the clock to this time after the start.
    fn at(&mut self, since: Duration) -> &mut Self {
        self.now = self.start + since;
        self.correlator.handle_tick(self.now);
        self
    }

    fn time(&self) -> Timestamp {
        let since = self.now - self.start;
        Timestamp::from_second(1_700_000_000 + i64::try_from(since.as_secs()).unwrap()).unwrap()
    }

    fn record(&mut self, object: &str, reason: &str, note: impl std::fmt::Display) -> Recorded {
        let mut config = ConfigMap::default();
        config.metadata.namespace = Some("shop".to_owned());
        config.metadata.name = Some(object.to_owned());
        let subject = EventSubject {
            reporter: Arc::clone(&self.reporter),
            regarding: config.reference(),
        };
        let event = NewEvent::normal(reason, "Act").note(note);
        let time = self.time();
        self.correlator
            .handle_record(&subject, event, self.now, time)
    }

    /// Performs all queued writes, and returns one line per write.
    fn send(&mut self) -> String {
        self.send_with(WriteAnswer::Written)
    }

    fn send_with(&mut self, answer: WriteAnswer) -> String {
        let mut lines = String::new();
        while let Some(write) = self.correlator.next_write(self.now) {
            let object = write.body.subject.regarding.name();
            let (note, count) = (&write.body.note, write.count);
            writeln!(lines, "{:?} {object} {note:?} {count}", write.verb).unwrap();
            self.correlator
                .handle_answer(write.series, answer, self.now);
        }
        lines
    }

    fn is_empty(&self) -> bool {
        let c = &self.correlator;
        c.objects.is_empty() && c.series.is_empty() && c.queue.is_empty() && c.timers.is_empty()
    }

    /// Checks the invariants of the correlator after a call.
    fn check(&self) {
        let c = &self.correlator;
        assert_eq!(c.timers.len(), c.objects.len(), "one timer per object");
        for (subject, object) in &c.objects {
            assert!(c.timers.contains_key(&object.timer), "{subject:?}");
            assert!(object.members().count() <= 25);
            assert!(
                object
                    .members()
                    .all(|series| c.series.contains_key(&series))
            );
        }
        let queued = |s: &&Series| s.stage == SeriesStage::Queued;
        assert_eq!(c.series.values().filter(queued).count(), c.queue.len());
    }
}

/// EVENT-3: an event that is repeated within six minutes is counted in a series.
#[test]
fn a_repeated_event_is_one_event_that_the_server_learns_of_in_few_writes() {
    let mut bench = Bench::new();
    let steps: [(u64, &str); 9] = [
        (0, "Create a \"hi\" 1\n"),
        // The first repetition is written at once.
        (10, "Patch a \"hi\" 2\n"),
        (20, ""),
        (300, ""),
        (600, ""),
        (900, ""),
        (1200, ""),
        (1500, ""),
        // The next write follows 30 minutes after the last one.
        (1811, "Patch a \"hi\" 9\n"),
    ];
    for (second, expected) in steps {
        bench.at(SECOND * u32::try_from(second).unwrap());
        bench.record("a", "Hello", "hi");
        assert_eq!(bench.send(), expected, "at {second} s");
        bench.check();
    }
    bench.at(SECOND * 1900).record("a", "Hello", "hi");
    assert_eq!(bench.send(), "");
    // The series ends six minutes after its last occurrence, with its final count.
    bench.at(SECOND * (1900 + 359));
    assert_eq!(bench.send(), "");
    bench.at(SECOND * (1900 + 360));
    assert_eq!(bench.send(), "Patch a \"hi\" 10\n");
    bench.at(SECOND * (1900 + 361)).record("a", "Hello", "hi");
    assert_eq!(bench.send(), "Create a \"hi\" 1\n");
    bench.check();
}

/// EVENT-3: an event that is repeated within six minutes is counted in a series.
#[test]
fn an_event_after_six_minutes_is_another_event_even_if_no_timer_was_served() {
    let mut bench = Bench::new();
    bench.record("a", "Hello", "hi");
    assert_eq!(bench.send(), "Create a \"hi\" 1\n");
    bench.now += MINUTE * 6;
    bench.record("a", "Hello", "hi");
    assert_eq!(bench.send(), "Create a \"hi\" 1\n");
    bench.now += MINUTE * 6 - SECOND;
    bench.record("a", "Hello", "hi");
    assert_eq!(bench.send(), "Patch a \"hi\" 2\n");
    bench.check();
}

/// EVENT-3: an event that is repeated within six minutes is counted in a series.
#[test]
fn repetitions_before_the_first_write_are_part_of_it() {
    let mut bench = Bench::new();
    for _ in 0..10_000 {
        assert!(!matches!(
            bench.record("a", "Hello", "hi"),
            Recorded::Dropped(_)
        ));
    }
    assert_eq!(bench.correlator.queue.len(), 1);
    assert_eq!(bench.send(), "Create a \"hi\" 10000\n");
    // Repetitions during the create are written right after it.
    bench.record("b", "Hello", "hi");
    let write = bench.correlator.next_write(bench.now).unwrap();
    bench.record("b", "Hello", "hi");
    bench.record("b", "Hello", "hi");
    assert!(bench.correlator.next_write(bench.now).is_none());
    bench
        .correlator
        .handle_answer(write.series, WriteAnswer::Written, bench.now);
    assert_eq!(bench.send(), "Patch b \"hi\" 3\n");
}

/// EVENT-4: after ten notes, similar events become one combined Event.
#[test]
fn after_ten_notes_similar_events_are_combined_until_a_pause_of_ten_minutes() {
    let mut bench = Bench::new();
    for note in 0..10 {
        bench.record("a", "Done", note);
    }
    assert_eq!(bench.send().lines().count(), 10);
    bench.record("a", "Done", 10);
    assert_eq!(
        bench.send(),
        "Create a \"(combined from similar events): 10\" 1\n"
    );
    bench.record("a", "Done", 11);
    bench.record("a", "Done", 12);
    assert_eq!(
        bench.send(),
        "Patch a \"(combined from similar events): 10\" 3\n"
    );
    // A note with its own Event still counts there, and another reason is not affected.
    bench.record("a", "Done", 3);
    bench.record("a", "Else", 3);
    assert_eq!(bench.send(), "Patch a \"3\" 2\nCreate a \"3\" 1\n");
    // The combined Event has ended, but the window of ten minutes has not.
    bench.at(SECOND * 599).record("a", "Done", 13);
    assert_eq!(
        bench.send(),
        "Create a \"(combined from similar events): 13\" 1\n"
    );
    bench.at(SECOND * 1199).record("a", "Done", 14);
    assert_eq!(bench.send(), "Create a \"14\" 1\n");
    bench.check();
}

/// EVENT-5: the number of Events about one object is limited.
#[test]
fn an_object_gets_25_events_at_once_and_one_more_every_five_minutes() {
    let mut bench = Bench::new();
    let spam = |bench: &mut Bench, object: &str, round: u32| {
        let dropped = (0..100).filter(|n| {
            let recorded = bench.record(object, &format!("Reason{round}x{n}"), "hi");
            recorded == Recorded::Dropped(DropReason::RateLimited)
        });
        let dropped = dropped.count();
        bench.check();
        (dropped, bench.send().lines().count())
    };
    assert_eq!(spam(&mut bench, "a", 0), (75, 25));
    // Another object has its own tokens.
    assert_eq!(spam(&mut bench, "b", 0), (75, 25));
    assert_eq!(spam(&mut bench, "a", 1), (100, 0));
    // After six minutes, no Event is followed, and one token is back.
    bench.at(MINUTE * 6);
    assert_eq!(spam(&mut bench, "a", 2), (99, 1));
    bench.at(MINUTE * 12);
    assert_eq!(spam(&mut bench, "a", 3), (99, 1));
}

/// EVENT-5, EVENT-6
#[test]
fn no_more_than_25_events_of_an_object_are_followed_although_tokens_come_back() {
    let mut bench = Bench::new();
    for round in 0..100 {
        bench.at(MINUTE * 5 * round);
        for n in 0..25 + round {
            bench.record("a", &format!("Reason{n}"), "hi");
        }
        bench.send();
        bench.check();
        assert!(bench.correlator.series.len() <= 25);
    }
}

/// EVENT-6: the memory of a publisher is bounded.
#[test]
fn state_is_bounded_by_objects_and_ends_with_their_events() {
    let mut bench = Bench::new();
    // All of more objects than client-go's cache can hold keep their series.
    for object in 0..20_000 {
        bench.record(&format!("o{object}"), "Hello", "hi");
        bench.send();
    }
    bench.now += MINUTE;
    for object in 0..20_000 {
        assert_eq!(
            bench.record(&format!("o{object}"), "Hello", "hi"),
            Recorded::Queued
        );
        assert!(bench.send().starts_with("Patch"));
    }
    bench.check();
    assert_eq!(bench.correlator.objects.len(), 20_000);
    // Ten minutes after the only new Event of an object, its bucket is full again.
    for _ in 0..200 {
        bench.at(MINUTE * 12);
    }
    assert!(bench.is_empty(), "{:?}", bench.correlator.objects.len());

    for n in 0..100 {
        bench.record("spammed", &format!("Reason{n}"), n);
    }
    bench.send();
    bench.at(MINUTE * (12 + 124));
    bench.at(MINUTE * (12 + 124));
    assert_eq!(bench.correlator.objects.len(), 1);
    assert!(bench.correlator.series.is_empty());
    bench.at(MINUTE * (12 + 125));
    assert!(bench.is_empty());
}

/// EVENT-2: the number of waiting writes is bounded, and each lost event is counted.
#[test]
fn at_most_1000_writes_wait_and_repetitions_need_no_room() {
    let mut bench = Bench::new();
    let record = |bench: &mut Bench, object: usize| bench.record(&format!("o{object}"), "A", "hi");
    for object in 0..1000 {
        assert_eq!(record(&mut bench, object), Recorded::Queued);
    }
    let full = Recorded::Dropped(DropReason::QueueFull);
    assert_eq!(record(&mut bench, 1000), full);
    assert_eq!(record(&mut bench, 3), Recorded::Counted);
    bench.check();
    // A dropped event leaves no state.
    assert_eq!(bench.correlator.objects.len(), 1000);
    assert_eq!(bench.send().lines().count(), 1000);
    assert_eq!(record(&mut bench, 1000), Recorded::Queued);

    // A count waits in its series while the queue is full.
    let mut bench = Bench::new();
    record(&mut bench, 0);
    bench.send();
    for object in 1..=1000 {
        record(&mut bench, object);
    }
    assert_eq!(record(&mut bench, 0), Recorded::Counted);
    assert!(!bench.send().contains("Patch"));
    bench.at(MINUTE * 6);
    assert_eq!(bench.send(), "Patch o0 \"hi\" 2\n");
}

/// EVENT-9: writes of Events wait while the server is away.
#[test]
fn while_the_server_is_away_all_writes_wait_and_each_is_tried_twelve_times() {
    let mut bench = Bench::new();
    bench.record("a", "Hello", "hi");
    bench.record("b", "Hello", "hi");
    let mut attempts = 0;
    let lost = loop {
        let write = bench.correlator.next_write(bench.now).unwrap();
        assert_eq!(write.body.subject.regarding.name(), "a");
        attempts += 1;
        let answer = WriteAnswer::Later(None);
        if let Some(lost) = bench
            .correlator
            .handle_answer(write.series, answer, bench.now)
        {
            break lost;
        }
        // Nothing is sent during the pause of 10 to 12.5 s.
        assert!(bench.correlator.next_write(bench.now).is_none());
        let pause = bench.correlator.deadline().unwrap() - bench.now;
        assert!((10_000..12_500).contains(&pause.as_millis()), "{pause:?}");
        bench.now += pause;
    };
    assert_eq!((attempts, lost.reason), (12, DropReason::Unreachable));
    assert_eq!(bench.send(), "Create b \"hi\" 1\n");
    bench.check();

    // A `Retry-After` of the server counts within one second and one minute.
    for (named, expected) in [(0, 1), (3, 3), (3600, 60)] {
        bench.record("c", "Hello", named);
        let write = bench.correlator.next_write(bench.now).unwrap();
        let answer = WriteAnswer::Later(Some(SECOND * named));
        assert_eq!(
            bench
                .correlator
                .handle_answer(write.series, answer, bench.now),
            None
        );
        let until = bench.now + SECOND * expected;
        assert!(bench.correlator.next_write(until - SECOND).is_none());
        assert!(bench.correlator.next_write(until).is_some());
    }
}

/// EVENT-9: writes of Events wait while the server is away.
#[test]
fn an_event_that_is_gone_is_created_anew_with_its_count() {
    let mut bench = Bench::new();
    bench.record("a", "Hello", "hi");
    assert_eq!(bench.send(), "Create a \"hi\" 1\n");
    bench.record("a", "Hello", "hi");
    let write = bench.correlator.next_write(bench.now).unwrap();
    assert_eq!(write.verb, WriteVerb::Patch);
    bench
        .correlator
        .handle_answer(write.series, WriteAnswer::Gone, bench.now);
    assert_eq!(bench.send(), "Create a \"hi\" 2\n");
    // A create that finds the Event existing repeats an attempt without a response.
    bench.record("b", "Hello", "hi");
    bench.record("b", "Hello", "hi");
    let write = bench.correlator.next_write(bench.now).unwrap();
    bench
        .correlator
        .handle_answer(write.series, WriteAnswer::Exists, bench.now);
    assert_eq!(bench.send(), "Patch b \"hi\" 2\n");
    // An Event that is always gone does not keep the sender busy for ever.
    bench.record("c", "Hello", "hi");
    assert_eq!(bench.send_with(WriteAnswer::Gone).lines().count(), 12);
    bench.check();
}

/// EVENT-9: writes of Events wait while the server is away.
#[test]
fn a_refused_event_is_dropped_and_the_next_one_is_tried() {
    let mut bench = Bench::new();
    for n in 0..3 {
        bench.record("a", "Hello", "hi");
        bench.record("a", "Hello", "hi");
        let write = bench.correlator.next_write(bench.now).unwrap();
        assert_eq!(write.verb, WriteVerb::Create, "{n}");
        let answer = WriteAnswer::Refused(DropReason::Forbidden);
        let lost = bench
            .correlator
            .handle_answer(write.series, answer, bench.now)
            .unwrap();
        assert_eq!((lost.reason, lost.events), (DropReason::Forbidden, 2));
        bench.check();
    }
    assert!(bench.correlator.series.is_empty());
}

/// EVENT-8: a stop sends the waiting Events and the counts of all series within the bound.
#[test]
fn a_closed_correlator_writes_all_counts_and_refuses_events() {
    let mut bench = Bench::new();
    bench.record("a", "Hello", "hi");
    bench.record("a", "Hello", "hi");
    bench.send();
    bench.record("a", "Hello", "hi");
    bench.record("b", "Hello", "hi");
    assert!(!bench.correlator.is_drained());
    bench.correlator.handle_close(bench.now);
    assert_eq!(
        bench.record("c", "Hello", "hi"),
        Recorded::Dropped(DropReason::Stopped)
    );
    assert_eq!(bench.send(), "Create b \"hi\" 1\nPatch a \"hi\" 3\n");
    assert!(bench.correlator.is_drained());

    // A closed correlator tries each write only once.
    let mut bench = Bench::new();
    bench.record("a", "Hello", "hi");
    bench.record("b", "Hello", "hi");
    bench.correlator.handle_close(bench.now);
    assert_eq!(bench.send_with(WriteAnswer::Later(None)).lines().count(), 2);
    assert!(bench.correlator.is_drained());

    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.record("a", "Hello", "hi");
    }
    let lost = bench.correlator.abandon();
    assert_eq!(lost.iter().map(|lost| lost.events).sum::<u64>(), 3);
    assert!(bench.is_empty());
}

/// EVENT-7: the server accepts every Event, whatever the names and texts are.
#[test]
fn an_event_without_a_reason_or_a_named_object_is_dropped() {
    let mut bench = Bench::new();
    let incomplete = Recorded::Dropped(DropReason::Incomplete);
    assert_eq!(bench.record("", "Hello", "hi"), incomplete);
    let subject = EventSubject {
        reporter: Arc::clone(&bench.reporter),
        regarding: Node::default().reference(),
    };
    let event = NewEvent::warning("", "");
    let time = bench.time();
    let recorded = bench
        .correlator
        .handle_record(&subject, event, bench.now, time);
    assert_eq!(recorded, incomplete);
    // A reason alone is also the action, and an action alone is also the reason.
    let event = NewEvent::warning("", "Scale");
    assert_eq!((&*event.reason, &*event.action), ("Scale", "Scale"));
    assert!(bench.is_empty());
}

/// EVENT-3, EVENT-4, EVENT-5
#[test]
fn other_limits_than_the_default_ones_apply() {
    let mut bench = Bench::new();
    let limits = EventLimits::new()
        .rate(3, SECOND * 10)
        .combined(2, MINUTE)
        .series(MINUTE, MINUTE * 2);
    bench.correlator = Correlator::new(7, limits);
    let write_all = |bench: &mut Bench| {
        while let Some(write) = bench.correlator.next_write(bench.now) {
            let answer = WriteAnswer::Written;
            bench
                .correlator
                .handle_answer(write.series, answer, bench.now);
        }
    };
    // Two notes get Events of their own, and all others share one Event.
    let recorded = ["a", "b", "c", "d"].map(|note| bench.record("site", "Slow", note));
    let counted = Recorded::Counted;
    let queued = Recorded::Queued;
    assert_eq!(recorded, [queued, queued, queued, counted]);
    let limited = Recorded::Dropped(DropReason::RateLimited);
    assert_eq!(bench.record("site", "Other", ""), limited);
    write_all(&mut bench);
    bench.at(MINUTE * 2);
    write_all(&mut bench);
    // The Events of two minutes ago are finished and no longer count against the limit.
    assert_eq!(bench.record("site", "Other", ""), queued);
}
