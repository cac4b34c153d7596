//! Random histories of the queue, compared with a naive model.

use std::time::Duration;

use futures::FutureExt;
use proptest::prelude::*;
use steersman_workqueue::{AddOptions, Priority, Queue, QueueOptions, Ticket};

const KEYS: u8 = 5;

/// The number of other keys that are always ready, so that adds are buffered.
const CROWD: u8 = 100;

#[derive(Debug, Clone)]
enum Step {
    Add {
        key: u8,
        priority: i32,
        after: u64,
        add_delay: AddDelay,
    },
    Next,
    End {
        which: usize,
        verdict: End,
    },
    Pass {
        millis: u64,
    },
}

/// When an immediate add runs a key in backoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AddDelay {
    Now,
    Spaced,
    Backoff,
}

/// The deadline of a retry, and the number of earlier runs that failed.
type Retry = (u64, u32);

#[derive(Debug, Clone, Copy)]
enum End {
    Forget,
    After(u64),
    Backoff,
    Drop,
}

/// The model, with each rule written in the slow and obvious way. Times are milliseconds since the start.
#[derive(Default)]
struct Naive {
    now: u64,
    turns: u64,
    keys: Vec<State>,
    passed_over: u32,
    arrivals: u64,
}

#[derive(Default, Clone)]
struct State {
    ready: Option<(i32, u64)>,
    due: Option<(u64, u64, i32)>,
    // The retry after a failure, kept while an earlier run is ready or held.
    retry: Option<Retry>,
    held: Option<i32>,
    // The rerun that adds requested: its priority, and the shortest delay of the adds.
    again: Option<(i32, AddDelay)>,
    failures: u32,
}

impl Naive {
    fn line_up(&mut self, key: usize, priority: i32) {
        self.keys[key].ready = Some((priority, self.turns));
        self.turns += 1;
    }

    fn arrive(&mut self, key: usize, priority: i32, add_delay: AddDelay) {
        let now = self.now;
        let state = &mut self.keys[key];
        if let (Some((.., due)), Some(retry)) = (&mut state.due, state.retry)
            && add_delay > AddDelay::Now
        {
            let early = match add_delay {
                AddDelay::Spaced => earliest(retry, now),
                _ => retry.0,
            };
            if early >= retry.0 {
                *due = priority.max(*due);
                return;
            }
            if early > now {
                return self.wait(key, early - now, priority, None);
            }
        }
        if let Some((present, _)) = state.ready {
            if priority > present {
                self.line_up(key, priority);
            }
            return;
        }
        // The end of the ticket decides whether an add with a delay in backoff replaces the deadline.
        let due = if state.held.is_some() && add_delay > AddDelay::Now {
            None
        } else {
            state.due.take()
        };
        let priority = due.map_or(priority, |(.., due)| due.max(priority));
        if state.held.is_some() {
            let (again, least) = state.again.unwrap_or((priority, add_delay));
            state.again = Some((again.max(priority), least.min(add_delay)));
        } else {
            self.line_up(key, priority);
        }
    }

    fn wait(&mut self, key: usize, after: u64, priority: i32, retry: Option<Retry>) {
        let at = self.now + after;
        let state = &mut self.keys[key];
        if state.ready.is_some() {
            self.arrive(key, priority, AddDelay::Now);
        } else if let Some((again, AddDelay::Now)) = &mut state.again {
            *again = priority.max(*again);
        } else {
            state.retry = match (retry, state.retry) {
                (Some(new), Some(old)) => Some(if old.0 < new.0 { old } else { new }),
                (new, old) => new.or(old),
            };
            let (old_at, arrival, old_priority) = state.due.unwrap_or((u64::MAX, 0, priority));
            let priority = old_priority.max(priority);
            state.due = Some(if at < old_at {
                self.arrivals += 1;
                (at, self.arrivals, priority)
            } else {
                (old_at, arrival, priority)
            });
        }
    }

    fn add(&mut self, key: usize, after: u64, priority: i32, add_delay: AddDelay) {
        if after == 0 {
            self.arrive(key, priority, add_delay);
        } else {
            self.wait(key, after, priority, None);
        }
    }

    fn promote(&mut self) {
        loop {
            let due = (0..self.keys.len())
                .filter_map(|key| {
                    let (at, arrival, _) = self.keys[key].due?;
                    Some((at, arrival, key))
                })
                .filter(|(at, ..)| *at <= self.now)
                .min();
            let Some((.., key)) = due else { return };
            let state = &mut self.keys[key];
            let priority = state.due.take().map_or(0, |(.., priority)| priority);
            // A run before the retry is due keeps the retry.
            state.retry = state.retry.filter(|(deadline, _)| *deadline > self.now);
            self.arrive(key, priority, AddDelay::Now);
        }
    }

    fn next(&mut self) -> Option<usize> {
        self.promote();
        let mut ready: Vec<(i32, u64, usize)> = (0..self.keys.len())
            .filter_map(|key| {
                let (priority, turn) = self.keys[key].ready?;
                Some((priority, turn, key))
            })
            .collect();
        ready.sort_by_key(|(priority, turn, _)| (-priority, *turn));
        let (top, _, mut chosen) = *ready.first()?;
        let oldest = ready.iter().min_by_key(|(_, turn, _)| *turn)?;
        if ready.iter().all(|(priority, ..)| *priority == top) {
            self.passed_over = 0;
        } else {
            self.passed_over += 1;
            if self.passed_over == 8 {
                self.passed_over = 0;
                chosen = oldest.2;
            }
        }
        let state = &mut self.keys[chosen];
        state.held = state.ready.take().map(|(priority, _)| priority);
        Some(chosen)
    }

    fn end(&mut self, key: usize, verdict: End) {
        let now = self.now;
        let state = &mut self.keys[key];
        let priority = state.held.take().unwrap_or_default();
        let kept = state.retry.take().filter(|(deadline, _)| *deadline > now);
        let mut retry = None;
        let delay = match verdict {
            End::Forget => {
                state.failures = 0;
                None
            }
            End::After(after) => {
                state.failures = 0;
                Some(after)
            }
            End::Backoff | End::Drop => {
                let (deadline, early) = kept.map_or_else(
                    || {
                        state.failures += 1;
                        (now + (5 << (state.failures - 1)).min(1_000_000), 0)
                    },
                    |(deadline, early)| (deadline, early + 1),
                );
                retry = Some((deadline, early));
                Some(deadline - now)
            }
        };
        match (state.again.take(), delay, retry) {
            (Some((again, AddDelay::Backoff)), Some(delay), Some(_)) => {
                self.wait(key, delay, priority.max(again), retry);
            }
            (Some((again, AddDelay::Spaced)), _, Some(some)) if earliest(some, now) > now => {
                self.wait(key, earliest(some, now) - now, again, retry);
            }
            (Some((again, _)), ..) => {
                state.retry = retry;
                let due = state.due.take().map_or(again, |(.., due)| due);
                self.line_up(key, again.max(due));
            }
            (None, Some(delay), Some(_)) => self.wait(key, delay, priority, retry),
            (None, Some(delay), None) => self.add(key, delay, priority, AddDelay::Now),
            (None, None, _) => {}
        }
    }
}

/// Returns the time at which a spaced add runs.
fn earliest((deadline, early): Retry, now: u64) -> u64 {
    match early {
        0 => now,
        _ => deadline.min(now + (5 << (early - 1))),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop::sample::select(vec![-100, 0, 0, 100]);
    let delay = prop::sample::select(vec![0_u64, 0, 0, 3, 10, 50]);
    let add_delay = prop::sample::select(vec![AddDelay::Now, AddDelay::Spaced, AddDelay::Backoff]);
    let verdict = prop_oneof![
        Just(End::Forget),
        delay.clone().prop_map(End::After),
        Just(End::Backoff),
        Just(End::Drop),
    ];
    prop_oneof![
        4 => (0..KEYS, priority, delay, add_delay).prop_map(
            |(key, priority, after, add_delay)| Step::Add { key, priority, after, add_delay },
        ),
        4 => Just(Step::Next),
        4 => (0_usize..8, verdict).prop_map(|(which, verdict)| Step::End { which, verdict }),
        2 => prop::sample::select(vec![1_u64, 5, 20, 100]).prop_map(|millis| Step::Pass { millis }),
    ]
}

async fn agrees(steps: Vec<Step>, crowd: u8) -> Result<(), TestCaseError> {
    let queue = Queue::new(QueueOptions::<u8>::new("model"));
    let mut naive = Naive {
        keys: vec![State::default(); usize::from(KEYS + crowd)],
        ..Naive::default()
    };
    for key in KEYS..KEYS + crowd {
        queue.add_with(key, AddOptions::new().priority(Priority::new(-1000)));
        naive.add(key.into(), 0, -1000, AddDelay::Now);
    }
    let mut held: Vec<Ticket<u8>> = Vec::new();
    for step in steps {
        match step {
            Step::Add {
                key,
                priority,
                after,
                add_delay,
            } => {
                let mut options = AddOptions::new()
                    .priority(Priority::new(priority))
                    .after(Duration::from_millis(after));
                options = match add_delay {
                    AddDelay::Now => options,
                    AddDelay::Spaced => options.space_in_backoff(),
                    AddDelay::Backoff => options.keep_backoff(),
                };
                queue.add_with(key, options);
                naive.add(key.into(), after, priority, add_delay);
            }
            Step::Next => {
                let taken = queue.next().now_or_never().and_then(Result::ok);
                let expected = naive.next();
                prop_assert_eq!(taken.as_ref().map(|t| usize::from(*t.key())), expected);
                if let Some(ticket) = taken {
                    let state = &naive.keys[usize::from(*ticket.key())];
                    prop_assert_eq!(ticket.attempts(), state.failures);
                    prop_assert_eq!(Some(ticket.priority().value()), state.held);
                    // WQ-1
                    prop_assert!(held.iter().all(|other| other.key() != ticket.key()));
                    held.push(ticket);
                }
            }
            Step::End { which, verdict } if !held.is_empty() => {
                let ticket = held.remove(which % held.len());
                naive.end(usize::from(*ticket.key()), verdict);
                match verdict {
                    End::Forget => ticket.forget(),
                    End::After(after) => ticket.after(Duration::from_millis(after)),
                    End::Backoff => drop(ticket.backoff()),
                    End::Drop => drop(ticket),
                }
            }
            Step::End { .. } => {}
            Step::Pass { millis } => {
                tokio::time::advance(Duration::from_millis(millis)).await;
                naive.now += millis;
            }
        }
    }
    // WQ-3: every owed run still takes place.
    drop(held);
    let mut rounds = 0;
    while !queue.idle() {
        let ticket = queue
            .next()
            .await
            .map_err(|e| TestCaseError::fail(e.to_string()))?;
        ticket.forget();
        rounds += 1;
        prop_assert!(
            rounds <= 2 * usize::from(KEYS + crowd),
            "a key comes back for ever"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    // WQ-1, WQ-2, WQ-3, WQ-4, WQ-5, WQ-11, WQ-12
    #[test]
    fn the_queue_agrees_with_the_naive_one(steps in prop::collection::vec(step(), 1..120)) {
        run(steps, 0)?;
    }

    // WQ-7
    #[test]
    fn the_queue_agrees_with_the_naive_one_in_a_crowd(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        run(steps, CROWD)?;
    }
}

fn run(steps: Vec<Step>, crowd: u8) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|e| TestCaseError::fail(e.to_string()))?;
    runtime.block_on(agrees(steps, crowd))
}
