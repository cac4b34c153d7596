//! Machine: the next step of a manager: which group starts or stops, and when a stop is cut short.

use std::error::Error as _;
use std::time::{Duration, Instant};

use steersman_controller::ControllerError;
use steersman_lease::LossReason;
use tracing::error;

use crate::error::Error;
use crate::options::DEFAULT_GRACE;
use crate::order::{Group, START, STOP};

/// One run of a manager, from the start of the first group to the stop of the last group.
///
/// The supervisor reports each [`Event`] and executes the [`Step`] that follows it.
#[derive(Debug)]
pub(crate) struct Supervision {
    stage: Stage,
    /// The time limit for a stop; `None` means no limit.
    grace: Option<Duration>,
    /// The time limit, after `grace`, for the groups that were not asked to stop within it.
    last_moment: Duration,
    failure: Option<Error>,
    cut: Option<EarlyEnd>,
    /// The requests that controllers dropped at the end of their grace period.
    dropped: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The group at this position of `START` is starting.
    Starting(usize),
    /// Every group of all replicas is ready, and the lease is not held yet.
    Electing,
    Running,
    /// The group at this position of `STOP` is stopping.
    Stopping {
        position: usize,
        deadline: Option<Instant>,
    },
}

/// Why a stop in order was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlyEnd {
    /// The grace is over.
    Late,
    /// A second request to stop came.
    SecondRequest,
}

/// An event of the runnables, or a request to the manager.
#[derive(Debug)]
pub(crate) enum Event {
    /// The group that is starting is ready.
    Ready,
    /// This replica leads. A manager without leader election leads when every other group is ready.
    Elected,
    /// This replica has lost its lease.
    LeadershipLost(LossReason),
    /// A runnable was added.
    Added,
    /// A runnable returned an error or panicked.
    Failed(Error),
    /// The first request to stop.
    StopRequested,
    /// The second request to stop.
    SecondRequest,
    /// The supervisor has executed [`Step::BeginStop`].
    StopBegun,
    /// All runnables of the stopping group have ended.
    GroupStopped,
    /// The [`deadline`](Supervision::deadline) has passed.
    DeadlinePassed,
    /// The supervisor has executed [`Step::DropLate`].
    LateDropped,
}

/// The next step of the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Waits for the next event.
    Wait,
    /// Starts the runnables of one group.
    Start(Group),
    /// Begins to request the lease, and starts the runnables that were added in the meantime for all replicas.
    Campaign,
    /// Every group is ready: starts the runnables that were added in the meantime.
    AllStarted,
    /// Starts what was added and may run.
    StartAdded,
    /// Refuses further runnables, and logs why the manager stops.
    BeginStop,
    /// Asks one group to stop.
    Stop(Group),
    /// Drops the runnables of the groups that were asked to stop.
    DropLate,
    /// Drops every runnable. The run is over.
    DropAll,
}

impl Supervision {
    pub(crate) fn new(grace: Option<Duration>, last_moment: Duration) -> Self {
        Self {
            stage: Stage::Starting(0),
            grace,
            last_moment,
            failure: None,
            cut: None,
            dropped: Vec::new(),
        }
    }

    /// Returns the first step.
    pub(crate) fn first_step() -> Step {
        Step::Start(START[0])
    }

    /// Returns the step that follows an event.
    pub(crate) fn on(&mut self, event: Event, now: Instant) -> Step {
        match self.stage {
            Stage::Stopping { position, .. } => self.on_stopping(position, event, now),
            Stage::Starting(_) | Stage::Electing | Stage::Running => match event {
                Event::Ready => self.start_next(),
                Event::Elected => self.start_elected(),
                Event::LeadershipLost(reason) => self.lose(reason),
                Event::Added if !self.is_starting() => Step::StartAdded,
                Event::StopRequested => self.begin_stop(),
                Event::Failed(failure) => {
                    self.failure = Some(failure);
                    self.begin_stop()
                }
                _ => Step::Wait,
            },
        }
    }

    /// Returns the instant at which the stop is cut short, if there is one.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Stopping { deadline, .. } => deadline,
            Stage::Starting(_) | Stage::Electing | Stage::Running => None,
        }
    }

    /// Returns the group that is stopping.
    pub(crate) fn stopping(&self) -> Option<Group> {
        match self.stage {
            Stage::Stopping { position, .. } => STOP.get(position).copied(),
            Stage::Starting(_) | Stage::Electing | Stage::Running => None,
        }
    }

    /// Returns whether the manager waits for the lease.
    pub(crate) fn is_electing(&self) -> bool {
        self.stage == Stage::Electing
    }

    /// Returns whether an added runnable of this group may start: that of the leader only on the leader.
    pub(crate) fn may_start(&self, group: Group) -> bool {
        group != Group::LeaderElected || self.stage == Stage::Running
    }

    /// Returns whether a second request cut the stop short.
    pub(crate) fn is_insisted(&self) -> bool {
        self.cut == Some(EarlyEnd::SecondRequest)
    }

    /// Returns whether a group is starting, so that its readiness counts.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.stage, Stage::Starting(_))
    }

    /// Returns the failure that ended the manager, if one did.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Returns the result of the run. `late` has the names of the runnables that were dropped
    /// although they had been asked to stop. The first failure is returned; other failures are
    /// logged.
    pub(crate) fn finish(self, mut late: Vec<String>) -> Result<(), Error> {
        late.extend(self.dropped);
        late.sort();
        let stopped = match self.cut {
            Some(EarlyEnd::SecondRequest) => Err(Error::Aborted { running: late }),
            None if late.is_empty() => Ok(()),
            None | Some(EarlyEnd::Late) => Err(Error::StopTimeout {
                grace: self.grace.unwrap_or(DEFAULT_GRACE),
                running: late,
            }),
        };
        let Some(failure) = self.failure else {
            return stopped;
        };
        if let Err(unclean) = stopped {
            error!(error = %unclean, "the manager failed, and its stop was not clean either");
        }
        Err(failure)
    }

    // MGR-1: a group starts when the previous one is ready.
    fn start_next(&mut self) -> Step {
        let Stage::Starting(position) = self.stage else {
            return Step::Wait;
        };
        match START.get(position + 1) {
            // LEASE-7: what only the leader runs waits for the lease.
            Some(Group::LeaderElected) => {
                self.stage = Stage::Electing;
                Step::Campaign
            }
            Some(group) => {
                self.stage = Stage::Starting(position + 1);
                Step::Start(*group)
            }
            None => {
                self.stage = Stage::Running;
                Step::AllStarted
            }
        }
    }

    fn start_elected(&mut self) -> Step {
        if self.stage != Stage::Electing {
            return Step::Wait;
        }
        let last = START.len() - 1;
        self.stage = Stage::Starting(last);
        Step::Start(START[last])
    }

    /// LEASE-1: a leader that lost its lease drops everything, without the order and the grace of a stop.
    fn lose(&mut self, reason: LossReason) -> Step {
        let lost = Error::LeadershipLost { reason };
        if let Some(failure) = self.failure.replace(lost) {
            error!(error = %failure, "the manager stopped because of this error when it lost its lease");
        }
        Step::DropAll
    }

    fn begin_stop(&mut self) -> Step {
        self.stage = Stage::Stopping {
            position: 0,
            deadline: None,
        };
        Step::BeginStop
    }

    // MGR-1: a group is asked to stop when the previous one has stopped.
    fn on_stopping(&mut self, position: usize, event: Event, now: Instant) -> Step {
        match event {
            Event::StopBegun => {
                self.stop_until(
                    position,
                    self.grace.and_then(|grace| now.checked_add(grace)),
                );
                Step::Stop(STOP[0])
            }
            Event::GroupStopped => {
                self.stop_until(position + 1, self.deadline());
                STOP.get(position + 1)
                    .map_or(Step::DropAll, |group| Step::Stop(*group))
            }
            Event::Failed(failure) => {
                let cause = failure.source().map(ToString::to_string);
                error!(error = %failure, cause, "a runnable failed while the manager stopped");
                self.dropped.extend(dropped_requests(&failure));
                Step::Wait
            }
            // MGR-3: after the late runnables were dropped, the remaining groups are still asked to
            // stop, in order.
            Event::DeadlinePassed if self.cut.is_none() => {
                self.cut = Some(EarlyEnd::Late);
                self.stop_until(position, now.checked_add(self.last_moment));
                Step::DropLate
            }
            Event::DeadlinePassed => Step::DropAll,
            Event::LeadershipLost(reason) => self.lose(reason),
            Event::SecondRequest => {
                self.cut = Some(EarlyEnd::SecondRequest);
                Step::DropLate
            }
            Event::LateDropped if self.cut == Some(EarlyEnd::SecondRequest) => Step::DropAll,
            Event::LateDropped
            | Event::Ready
            | Event::Elected
            | Event::Added
            | Event::StopRequested => Step::Wait,
        }
    }

    fn stop_until(&mut self, position: usize, deadline: Option<Instant>) {
        self.stage = Stage::Stopping { position, deadline };
    }
}

/// Returns the name of a controller that dropped reconciles at its end, with their requests.
fn dropped_requests(failure: &Error) -> Option<String> {
    let Error::Failed { name, source, .. } = failure else {
        return None;
    };
    match source.downcast_ref() {
        Some(ControllerError::StillRunning { requests, .. }) => {
            Some(format!("{name} ({})", requests.join(", ")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
