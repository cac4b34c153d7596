//! Driver: runs the worlds of a campaign, up to a number of them at once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steersman_apiserver::explore::engine::{Campaign, NextWorld, WorldOrder, WorldResult};
use steersman_apiserver::explore::{ExploreError, run_world};
use steersman_apiserver::{ApiServer, Authorization};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::output::ExploreProgress;
use super::process::{ProcessesGuard, WorldProcesses};
use crate::program::flags::PlayedPart;
use crate::program::problem::{Outcome, ProgramProblem};

/// The capacity of a world's log of requests, which nothing reads: its interceptor sees each request.
const REMEMBERED: usize = 100;

/// What each world needs.
pub(crate) struct Worlds {
    pub(crate) command: Vec<OsString>,
    pub(crate) play: bool,
    /// The folder of all worlds' kubeconfigs and outputs.
    pub(crate) folder: PathBuf,
}

/// How the worlds of a campaign ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllWorlds {
    Done,
    /// By a signal.
    Stopped,
}

/// Runs worlds until the campaign is done, or until `stop` ends. No process of an operator is left then.
pub(crate) async fn run_all(
    campaign: &mut Campaign,
    worlds: Arc<Worlds>,
    jobs: usize,
    stop: impl Future<Output = ()>,
    progress: &mut ExploreProgress,
) -> Outcome<AllWorlds> {
    let mut running = JoinSet::new();
    let done = run_in(&mut running, campaign, worlds, jobs, stop, progress).await;
    // Worlds that are still running end with their processes before the program does.
    running.shutdown().await;
    done
}

/// The running worlds.
type RunningWorlds = JoinSet<(usize, Result<WorldResult, WorldFailure>)>;

async fn run_in(
    running: &mut RunningWorlds,
    campaign: &mut Campaign,
    worlds: Arc<Worlds>,
    jobs: usize,
    stop: impl Future<Output = ()>,
    progress: &mut ExploreProgress,
) -> Outcome<AllWorlds> {
    let began = Instant::now();
    let mut stop = std::pin::pin!(stop);
    loop {
        while running.len() < jobs {
            match campaign.next_world(began.elapsed()) {
                NextWorld::Run(order) => {
                    let worlds = Arc::clone(&worlds);
                    running.spawn(async move {
                        let id = order.id;
                        (id, worlds.run(*order).await)
                    });
                }
                NextWorld::Wait => break,
                NextWorld::Done => return Ok(AllWorlds::Done),
            }
        }
        let joined = tokio::select! {
            () = &mut stop => return Ok(AllWorlds::Stopped),
            joined = running.join_next() => joined,
        };
        match joined {
            Some(Ok((id, Ok(result)))) => campaign.finish_world(id, result),
            Some(Ok((id, Err(failure)))) => {
                let is_refused =
                    matches!(&failure, WorldFailure::Explore(error) if error.is_refusal());
                if !campaign.fail_world(id, is_refused) {
                    return Err(failure.into());
                }
            }
            Some(Err(error)) => {
                return Err(ProgramProblem::World {
                    source: error.into(),
                });
            }
            None => return Ok(AllWorlds::Done),
        }
        progress.show(campaign.progress(), began.elapsed());
    }
}

/// Why a world could not run.
enum WorldFailure {
    Serve(steersman_apiserver::Error),
    Folder(PathBuf, std::io::Error),
    Explore(ExploreError),
}

impl From<WorldFailure> for ProgramProblem {
    fn from(failure: WorldFailure) -> Self {
        match failure {
            WorldFailure::Serve(error) => Self::Serve(error),
            WorldFailure::Folder(path, source) => Self::Folder { path, source },
            WorldFailure::Explore(error) => Self::World {
                source: error.into(),
            },
        }
    }
}

impl Worlds {
    async fn run(&self, order: WorldOrder) -> Result<WorldResult, WorldFailure> {
        let mut builder = ApiServer::builder()
            .log_capacity(REMEMBERED)
            .seed(order.seed);
        if self.play {
            builder = builder.play(PlayedPart::Workloads.played());
        }
        if order.scenario.rules.service_account.is_some() {
            builder = builder.authorization(Authorization::Rbac);
        }
        let server = builder.build();
        let serving = server
            .serve("127.0.0.1:0")
            .await
            .map_err(WorldFailure::Serve)?;
        let folder = self.folder.join(format!("world-{}", order.id));
        make_folder(&folder)?;
        let processes = WorldProcesses::new(serving, &self.command, order.id, &folder);
        let processes = ProcessesGuard(Arc::new(processes));
        let host = Arc::clone(&processes.0);
        let done = run_world(order, server.clone(), host).await;
        drop(processes);
        server.shut_down();
        // The story has what the operator printed last. A folder that stays is removed with all of them.
        let _ = std::fs::remove_dir_all(&folder);
        done.map_err(WorldFailure::Explore)
    }
}

fn make_folder(folder: &Path) -> Result<(), WorldFailure> {
    std::fs::create_dir_all(folder).map_err(|error| WorldFailure::Folder(folder.to_owned(), error))
}
