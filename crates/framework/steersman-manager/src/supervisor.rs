//! Driver: starts, supervises and stops the runnables of a manager in order.

use std::future::pending;
use std::time::Duration;

use steersman_api::clock::{at, now};
use steersman_object::report;
use tracing::{error, info};

use crate::error::Error;
use crate::order::Group;
use crate::readiness::GroupReadiness;
use crate::runnable::ErasedRunnable;
use crate::shutdown::Shutdown;
use crate::supervision::{Supervision, SupervisionEvent, SupervisionStep};
use crate::tasks::RunnableTasks;

pub(crate) mod campaign;

use self::campaign::{Campaign, WorkAtEnd};

/// The least time for which writes in flight are awaited before the lease is released.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// The functions of a manager that the supervisor calls.
pub(crate) trait Supervised {
    fn take_waiting(&self, which: impl Fn(&ErasedRunnable) -> bool) -> Vec<ErasedRunnable>;

    /// Waits until a runnable is added. Cancel safe.
    async fn added(&self);

    fn reached(&self, group: Group);

    fn refuse(&self);

    /// Reports that the runnables of the leader start.
    fn leads(&self);

    /// Reports that the runnables of the leader have ended.
    fn stops_leading(&self);

    /// Waits until no write of the manager's clients is in flight. Cancel safe.
    async fn writes_finished(&self);
}

/// Runs the runnables of a manager, from the start of the first group until all have stopped.
pub(crate) async fn supervise(
    manager: &impl Supervised,
    mut tasks: RunnableTasks,
    mut campaign: Campaign,
    mut supervision: Supervision,
    mut shutdown: Shutdown,
) -> Result<(), Error> {
    shutdown.install().map_err(Error::Signals)?;
    let mut readiness = None;
    let mut work = WorkAtEnd::default();
    let mut step = Supervision::first_step();
    loop {
        let done = match step {
            SupervisionStep::Wait => None,
            SupervisionStep::Start(group) => {
                manager.reached(group);
                if group == Group::LeaderElected {
                    work.has_led = true;
                    manager.leads();
                }
                let runnables = manager.take_waiting(|waiting| waiting.group == group);
                readiness = Some(tasks.start(runnables));
                None
            }
            SupervisionStep::Campaign => {
                start_waiting(manager, &mut tasks, &supervision);
                manager.reached(Group::LeaderElected);
                campaign.start().err().map(SupervisionEvent::Failed)
            }
            SupervisionStep::AllStarted => {
                info!("the manager has started");
                start_waiting(manager, &mut tasks, &supervision);
                None
            }
            SupervisionStep::StartAdded => {
                start_waiting(manager, &mut tasks, &supervision);
                None
            }
            SupervisionStep::BeginStop => {
                log_stop(&supervision);
                manager.refuse();
                // A replica that has led keeps the lease at first, because other groups may have work that needs it.
                if !work.has_led {
                    campaign.withdraw();
                }
                Some(SupervisionEvent::StopBegun)
            }
            SupervisionStep::Stop(group) => {
                tasks.ask_to_stop(group);
                None
            }
            SupervisionStep::DropLate => {
                tasks.drop_late();
                Some(SupervisionEvent::LateDropped)
            }
            SupervisionStep::DropAll => break,
        };
        let event = match done {
            Some(event) => event,
            None => {
                next_event(
                    manager, &mut tasks, &campaign, &supervision, &mut readiness, &mut shutdown,
                )
                .await
            }
        };
        step = supervision.handle_event(event, now());
    }
    manager.refuse();
    let dropped = tasks.drop_all().await;
    work.tasks = dropped.left_behind;
    if work.has_led {
        manager.stops_leading();
    }
    end_candidacy(manager, campaign, work, &supervision, &mut shutdown).await;
    supervision.finish(dropped.late)
}

fn start_waiting(manager: &impl Supervised, tasks: &mut RunnableTasks, supervision: &Supervision) {
    let may_start = |waiting: &ErasedRunnable| supervision.may_start(waiting.group);
    drop(tasks.start(manager.take_waiting(may_start)));
}

fn log_stop(supervision: &Supervision) {
    match supervision.failure() {
        Some(failure) => {
            error!(error = %report(failure), "a runnable failed: the manager stops");
        }
        None => info!("the manager stops on request"),
    }
}

/// Ends the candidacy after every runnable has stopped.
async fn end_candidacy(
    manager: &impl Supervised,
    campaign: Campaign,
    mut work: WorkAtEnd,
    supervision: &Supervision,
    shutdown: &mut Shutdown,
) {
    let mut is_urgent = supervision.is_insisted();
    // LEASE-8: waits for the writes in flight, because a write outlives the task that sent it.
    if work.has_led && campaign.is_candidate() {
        (work.writes, is_urgent) = tokio::select! {
            biased;
            () = manager.writes_finished() => (false, is_urgent),
            () = at(write_limit(supervision)) => (true, is_urgent),
            () = shutdown.requested_again(), if !is_urgent => (true, true),
        };
    }
    campaign.end(work, is_urgent, shutdown).await;
}

/// Returns the instant until which the writes in flight are awaited before the release: the end of the stop, and at
/// least a moment; after a loss now, because the lease expires.
fn write_limit(supervision: &Supervision) -> Option<std::time::Instant> {
    let now = now();
    let is_lost = supervision.failure().is_some_and(Error::is_leadership_lost);
    if is_lost {
        return Some(now);
    }
    let least = now + LAST_WRITES;
    if supervision.is_insisted() {
        return Some(least);
    }
    supervision.deadline().map(|deadline| deadline.max(least))
}

/// Waits for the next event that can occur in the current stage.
async fn next_event(
    manager: &impl Supervised,
    tasks: &mut RunnableTasks,
    campaign: &Campaign,
    supervision: &Supervision,
    readiness: &mut Option<GroupReadiness>,
    shutdown: &mut Shutdown,
) -> SupervisionEvent {
    if supervision.stopping().is_some() {
        return next_event_of_stop(tasks, campaign, supervision, shutdown).await;
    }
    loop {
        tokio::select! {
            biased;
            reason = campaign.lost() => return SupervisionEvent::LeadershipLost(reason),
            () = shutdown.requested() => return SupervisionEvent::StopRequested,
            ended = tasks.ended() => if let Err(failure) = ended {
                return SupervisionEvent::Failed(failure);
            },
            () = reached(readiness), if supervision.is_starting() => return SupervisionEvent::Ready,
            () = campaign.elected(), if supervision.is_electing() => return SupervisionEvent::Elected,
            () = manager.added(), if !supervision.is_starting() => return SupervisionEvent::Added,
        }
    }
}

async fn next_event_of_stop(
    tasks: &mut RunnableTasks,
    campaign: &Campaign,
    supervision: &Supervision,
    shutdown: &mut Shutdown,
) -> SupervisionEvent {
    loop {
        if let Some(group) = supervision.stopping()
            && !tasks.any_in(group)
        {
            info!(%group, "the group has stopped");
            return SupervisionEvent::GroupStopped;
        }
        tokio::select! {
            // The branches are polled in this order, so that a group that has stopped does not count as late.
            biased;
            reason = campaign.lost() => return SupervisionEvent::LeadershipLost(reason),
            ended = tasks.ended() => if let Err(failure) = ended {
                return SupervisionEvent::Failed(failure);
            },
            () = at(supervision.deadline()) => return SupervisionEvent::DeadlinePassed,
            () = shutdown.requested_again() => return SupervisionEvent::SecondRequest,
        }
    }
}

async fn reached(readiness: &mut Option<GroupReadiness>) {
    match readiness {
        Some(readiness) => readiness.reached().await,
        None => pending().await,
    }
}
