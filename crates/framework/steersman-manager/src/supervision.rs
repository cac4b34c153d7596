//! Machine: decides which group of a manager starts or stops next, and when a stop is cut short.

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
/// The supervisor reports each [`SupervisionEvent`] and executes the [`SupervisionStep`] that follows it.
#[derive(Debug)]
pub(crate) struct Supervision {
    stage: SupervisionStage,
    /// The time limit for a stop; `None` means no limit.
    grace: Option<Duration>,
    /// The time limit, after `grace`, of the groups that were not asked to stop within it.
    last_moment: Duration,
    failure: Option<Error>,
    cut: Option<EarlyEnd>,
    /// The requests that controllers dropped at the end of their grace period.
    dropped: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SupervisionStage {
    /// The group at this position of `START` is starting.
    Starting(usize),
    /// Every group before the leader-elected group is ready, and the lease is not held yet.
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
    Late,
    SecondRequest,
}

#[derive(Debug)]
pub(crate) enum SupervisionEvent {
    Ready,
    /// This replica leads. Without leader election, a manager leads when all other groups are ready.
    Elected,
    LeadershipLost(LossReason),
    Added,
    /// A runnable returned an error or panicked.
    Failed(Error),
    StopRequested,
    SecondRequest,
    /// The supervisor has executed [`SupervisionStep::BeginStop`].
    StopBegun,
    GroupStopped,
    DeadlinePassed,
    /// The supervisor has executed [`SupervisionStep::DropLate`].
    LateDropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SupervisionStep {
    Wait,
    Start(Group),
    /// Begins to request the lease, and starts added runnables of the groups that every replica runs.
    Campaign,
    /// Every group is ready: starts the runnables that were added meanwhile.
    AllStarted,
    StartAdded,
    /// Refuses further runnables, and logs why the manager stops.
    BeginStop,
    Stop(Group),
    /// Drops the runnables of the groups that were asked to stop.
    DropLate,
    /// Drops every runnable, and ends the run.
    DropAll,
}

impl Supervision {
    pub(crate) fn new(grace: Option<Duration>, last_moment: Duration) -> Self {
        Self {
            stage: SupervisionStage::Starting(0),
            grace,
            last_moment,
            failure: None,
            cut: None,
            dropped: Vec::new(),
        }
    }

    pub(crate) fn first_step() -> SupervisionStep {
        SupervisionStep::Start(START[0])
    }

    pub(crate) fn handle_event(
        &mut self,
        event: SupervisionEvent,
        now: Instant,
    ) -> SupervisionStep {
        match self.stage {
            SupervisionStage::Stopping { position, .. } => self.on_stopping(position, event, now),
            SupervisionStage::Starting(_)
            | SupervisionStage::Electing
            | SupervisionStage::Running => match event {
                SupervisionEvent::Ready => self.start_next(),
                SupervisionEvent::Elected => self.start_elected(),
                SupervisionEvent::LeadershipLost(reason) => self.lose(reason),
                SupervisionEvent::Added if !self.is_starting() => SupervisionStep::StartAdded,
                SupervisionEvent::StopRequested => self.begin_stop(),
                SupervisionEvent::Failed(failure) => {
                    self.failure = Some(failure);
                    self.begin_stop()
                }
                _ => SupervisionStep::Wait,
            },
        }
    }

    /// Returns the instant at which the stop is cut short; `None` without a limit.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let SupervisionStage::Stopping { deadline, .. } = self.stage else {
            return None;
        };
        deadline
    }

    pub(crate) fn stopping(&self) -> Option<Group> {
        let SupervisionStage::Stopping { position, .. } = self.stage else {
            return None;
        };
        STOP.get(position).copied()
    }

    /// Returns whether the manager waits for the lease.
    pub(crate) fn is_electing(&self) -> bool {
        self.stage == SupervisionStage::Electing
    }

    /// Returns whether an added runnable of this group may start now; the leader-elected group starts only on the
    /// leader.
    pub(crate) fn may_start(&self, group: Group) -> bool {
        group != Group::LeaderElected || self.stage == SupervisionStage::Running
    }

    /// Returns whether a second request to stop cut the stop short.
    pub(crate) fn is_insisted(&self) -> bool {
        self.cut == Some(EarlyEnd::SecondRequest)
    }

    /// Returns whether a group is starting, and the supervisor waits for its readiness.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.stage, SupervisionStage::Starting(_))
    }

    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Returns the result of the run: the first failure; further failures are logged. `late` has the names of the
    /// runnables that were asked to stop and had to be dropped.
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

    // MGR-1: a group starts when the previous group is ready.
    fn start_next(&mut self) -> SupervisionStep {
        let SupervisionStage::Starting(position) = self.stage else {
            return SupervisionStep::Wait;
        };
        match START.get(position + 1) {
            // LEASE-7: the runnables of the leader wait for the lease.
            Some(Group::LeaderElected) => {
                self.stage = SupervisionStage::Electing;
                SupervisionStep::Campaign
            }
            Some(group) => {
                self.stage = SupervisionStage::Starting(position + 1);
                SupervisionStep::Start(*group)
            }
            None => {
                self.stage = SupervisionStage::Running;
                SupervisionStep::AllStarted
            }
        }
    }

    fn start_elected(&mut self) -> SupervisionStep {
        if self.stage != SupervisionStage::Electing {
            return SupervisionStep::Wait;
        }
        let last = START.len() - 1;
        self.stage = SupervisionStage::Starting(last);
        SupervisionStep::Start(START[last])
    }

    /// LEASE-1: a leader that lost its lease drops every runnable, without the order and the grace of a stop.
    fn lose(&mut self, reason: LossReason) -> SupervisionStep {
        let lost = Error::LeadershipLost { reason };
        if let Some(failure) = self.failure.replace(lost) {
            error!(error = %failure, "the manager stopped because of this error when it lost its lease");
        }
        SupervisionStep::DropAll
    }

    fn begin_stop(&mut self) -> SupervisionStep {
        self.stage = SupervisionStage::Stopping {
            position: 0,
            deadline: None,
        };
        SupervisionStep::BeginStop
    }

    // MGR-1: a group is asked to stop when the previous group has stopped.
    fn on_stopping(
        &mut self,
        position: usize,
        event: SupervisionEvent,
        now: Instant,
    ) -> SupervisionStep {
        match event {
            SupervisionEvent::StopBegun => {
                let deadline = self.grace.and_then(|grace| now.checked_add(grace));
                self.stop_until(position, deadline);
                SupervisionStep::Stop(STOP[0])
            }
            SupervisionEvent::GroupStopped => {
                self.stop_until(position + 1, self.deadline());
                let next = STOP.get(position + 1).copied();
                next.map_or(SupervisionStep::DropAll, SupervisionStep::Stop)
            }
            SupervisionEvent::Failed(failure) => {
                let cause = failure.source().map(ToString::to_string);
                error!(error = %failure, cause, "a runnable failed while the manager stopped");
                self.dropped.extend(dropped_requests(&failure));
                SupervisionStep::Wait
            }
            // MGR-3: after the late runnables were dropped, the remaining groups are asked to stop, in order.
            SupervisionEvent::DeadlinePassed if self.cut.is_none() => {
                self.cut = Some(EarlyEnd::Late);
                self.stop_until(position, now.checked_add(self.last_moment));
                SupervisionStep::DropLate
            }
            SupervisionEvent::DeadlinePassed => SupervisionStep::DropAll,
            SupervisionEvent::LeadershipLost(reason) => self.lose(reason),
            SupervisionEvent::SecondRequest => {
                self.cut = Some(EarlyEnd::SecondRequest);
                SupervisionStep::DropLate
            }
            SupervisionEvent::LateDropped if self.cut == Some(EarlyEnd::SecondRequest) => {
                SupervisionStep::DropAll
            }
            SupervisionEvent::LateDropped
            | SupervisionEvent::Ready
            | SupervisionEvent::Elected
            | SupervisionEvent::Added
            | SupervisionEvent::StopRequested => SupervisionStep::Wait,
        }
    }

    fn stop_until(&mut self, position: usize, deadline: Option<Instant>) {
        self.stage = SupervisionStage::Stopping { position, deadline };
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
