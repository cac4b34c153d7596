//! Machine: the life of one started controller: when its workers start, and what ends it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use steersman_object::Kind;

use crate::error::ControllerError;
use crate::watch::PumpEnd;

/// The time between two log lines that say which kinds have not synced (CTRL-7).
const REMINDER: Duration = Duration::from_secs(60);

/// The stages of a controller: wait for the first syncs, work, stop the workers, end.
///
/// The driver reports each [`LifecycleEvent`] and executes the [`LifecycleStep`] that follows it.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    controller: String,
    stage: LifecycleStage,
    /// The kinds with initial objects that are not all in the queue yet, in the order of the watches.
    awaited: VecDeque<Kind>,
    /// The time limit of the first syncs from `require_sync`; `None` is no limit.
    limit: Option<Duration>,
    /// The time that running reconciles have to finish after the controller was told to stop.
    grace: Duration,
    result: Result<(), ControllerError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LifecycleStage {
    Syncing {
        deadline: Option<Instant>,
        /// The time of the next log line that says which kinds have not synced.
        reminder: Instant,
        /// Whether at least one log line said that the controller waits for a sync.
        reminded: bool,
    },
    Working,
    /// The workers finish their reconciles until this instant, the end of the grace. `None` after the grace has ended.
    Stopping(Option<Instant>),
    Ended,
}

#[derive(Debug)]
pub(crate) enum LifecycleEvent {
    /// All initial objects of the first awaited kind are in the queue, or no kind is awaited.
    Synced,
    Cancelled,
    TaskEnded(TaskEnd),
    DeadlinePassed,
    WorkersEnded,
    WorkersAborted(Vec<String>),
    WritesEnded,
}

#[derive(Debug)]
pub(crate) enum TaskEnd {
    /// The end of a task that feeds the queue of the controller: a task of a watch, or of a stream of requests.
    Pump(PumpEnd),
    /// The end of a worker task: a worker ends when the queue is shut down.
    Worker,
    Panicked {
        task: &'static str,
        message: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LifecycleStep {
    Wait,
    /// Logs that the controller waits for first syncs. This kind is the first that has not synced.
    Remind(Kind),
    /// Ends with [`ControllerError::Sync`] because this kind did not sync within the limit.
    GiveUp(Kind, Duration),
    /// Starts the workers. `reminded`: a log line said that the controller waits, so another line says that it starts.
    StartWorkers {
        reminded: bool,
    },
    /// Takes no further request, and waits until the workers have ended.
    StopWorkers,
    /// Aborts the workers, which drops the reconciles that are still running.
    AbortWorkers,
    /// Waits at most this long until the writes that reconciles have sent are finished.
    AwaitWrites(Duration),
    End,
}

impl Lifecycle {
    pub(crate) fn new(
        controller: &str,
        awaited: impl IntoIterator<Item = Kind>,
        limit: Option<Duration>,
        grace: Duration,
        now: Instant,
    ) -> Self {
        Self {
            controller: controller.to_owned(),
            stage: LifecycleStage::Syncing {
                // A deadline that the clock cannot represent counts as no limit.
                deadline: limit.and_then(|limit| now.checked_add(limit)),
                reminder: now + REMINDER,
                reminded: false,
            },
            awaited: awaited.into_iter().collect(),
            limit,
            grace,
            result: Ok(()),
        }
    }

    /// Returns the instant of the next [`LifecycleEvent::DeadlinePassed`]; `None` if no deadline is set.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.stage {
            LifecycleStage::Syncing {
                deadline, reminder, ..
            } => Some(deadline.map_or(reminder, |deadline| deadline.min(reminder))),
            LifecycleStage::Stopping(deadline) => deadline,
            LifecycleStage::Working | LifecycleStage::Ended => None,
        }
    }

    pub(crate) fn is_syncing(&self) -> bool {
        matches!(self.stage, LifecycleStage::Syncing { .. })
    }

    /// Returns whether the controller has been told to stop, or a task of it failed.
    pub(crate) fn is_stopping(&self) -> bool {
        matches!(
            self.stage,
            LifecycleStage::Stopping(_) | LifecycleStage::Ended
        )
    }

    pub(crate) fn handle_event(&mut self, event: LifecycleEvent, now: Instant) -> LifecycleStep {
        match (self.stage, event) {
            (LifecycleStage::Syncing { reminded, .. }, LifecycleEvent::Synced) => {
                self.synced(reminded)
            }
            (LifecycleStage::Syncing { .. }, LifecycleEvent::DeadlinePassed) => {
                self.remind_or_give_up(now)
            }
            (
                LifecycleStage::Syncing { .. } | LifecycleStage::Working,
                LifecycleEvent::Cancelled,
            ) => self.stop(now, Ok(())),
            (
                LifecycleStage::Syncing { .. } | LifecycleStage::Working,
                LifecycleEvent::TaskEnded(end),
            ) => match self.failure_of(end) {
                Some(failure) => self.stop(now, Err(failure)),
                None => LifecycleStep::Wait,
            },
            (LifecycleStage::Stopping(_), LifecycleEvent::DeadlinePassed) => {
                // The grace is over, so `AbortWorkers` follows, and there is no further deadline.
                self.stage = LifecycleStage::Stopping(None);
                LifecycleStep::AbortWorkers
            }
            (LifecycleStage::Stopping(deadline), LifecycleEvent::WorkersEnded) => {
                let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
                LifecycleStep::AwaitWrites(left.unwrap_or(Duration::MAX))
            }
            (LifecycleStage::Stopping(_), LifecycleEvent::WorkersAborted(requests)) => {
                if self.result.is_ok() {
                    self.result = Err(ControllerError::StillRunning {
                        controller: self.controller.clone(),
                        requests,
                        grace: self.grace,
                    });
                }
                LifecycleStep::AwaitWrites(Duration::ZERO)
            }
            (LifecycleStage::Stopping(_), LifecycleEvent::WritesEnded) => {
                self.stage = LifecycleStage::Ended;
                LifecycleStep::End
            }
            _ => LifecycleStep::Wait,
        }
    }

    pub(crate) fn finish(self) -> Result<(), ControllerError> {
        self.result
    }

    // CTRL-1: workers start when the initial objects of every watch are in the queue.
    fn synced(&mut self, reminded: bool) -> LifecycleStep {
        self.awaited.pop_front();
        if !self.awaited.is_empty() {
            return LifecycleStep::Wait;
        }
        self.stage = LifecycleStage::Working;
        LifecycleStep::StartWorkers { reminded }
    }

    // CTRL-7: without a limit the controller waits until all its kinds have synced.
    fn remind_or_give_up(&mut self, now: Instant) -> LifecycleStep {
        let LifecycleStage::Syncing {
            deadline,
            reminder,
            reminded,
        } = &mut self.stage
        else {
            return LifecycleStep::Wait;
        };
        let Some(kind) = self.awaited.front() else {
            return LifecycleStep::Wait;
        };
        if let (Some(deadline), Some(limit)) = (*deadline, self.limit)
            && deadline <= now
        {
            return LifecycleStep::GiveUp(kind.clone(), limit);
        }
        if now < *reminder {
            return LifecycleStep::Wait;
        }
        *reminder = now + REMINDER;
        *reminded = true;
        LifecycleStep::Remind(kind.clone())
    }

    // Before the first syncs no worker runs, so the controller ends at once and waits for no reconcile.
    fn stop(&mut self, now: Instant, result: Result<(), ControllerError>) -> LifecycleStep {
        self.result = result;
        if self.is_syncing() {
            self.stage = LifecycleStage::Ended;
            return LifecycleStep::End;
        }
        self.stage = LifecycleStage::Stopping(now.checked_add(self.grace));
        LifecycleStep::StopWorkers
    }

    /// Returns the error with which the end of a task ends the controller. The end of a stream of requests is no error.
    fn failure_of(&self, end: TaskEnd) -> Option<ControllerError> {
        let controller = self.controller.clone();
        match end {
            TaskEnd::Worker | TaskEnd::Pump(PumpEnd::Finished) => None,
            TaskEnd::Pump(PumpEnd::Stopped { kind }) => {
                Some(ControllerError::WatchEnded { controller, kind })
            }
            TaskEnd::Pump(PumpEnd::StreamPanicked { message }) => {
                Some(ControllerError::TaskPanicked {
                    controller,
                    task: "stream of requests",
                    message,
                })
            }
            TaskEnd::Panicked { task, message } => Some(ControllerError::TaskPanicked {
                controller,
                task,
                message,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
