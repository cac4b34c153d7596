//! Driver: keeps the objects in an etcd of this program, or in memory alone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steersman_apiserver::{ApiServer, WalGroup, WriteAheadLog};
use steersman_registry::{Recovery, Snapshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::etcd_link::EtcdLink;
use crate::program::durability::Durability;
use crate::program::etcd::{AppendConnection, AttachOutcome, EtcdState, address_of, attach};
use crate::program::problem::{Outcome, ProgramProblem, chain};
use crate::program::process::report;

const NAME: &str = "kube-apiserver";
/// Time that an etcd has to start listening.
const START: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(100);
/// The pause after a save, as a multiple of the time that the save took, so that saves of large snapshots cost little.
const REST: u32 = 20;
const LONGEST_REST: Duration = Duration::from_secs(5);
/// Time for the last appends when the program stops. A test environment kills the process after 20 seconds.
const LAST_APPENDS: Duration = Duration::from_secs(12);

pub(super) struct Storage {
    link: Arc<EtcdLink>,
    /// The log of the writes; `None` if the etcd keeps snapshots alone.
    log: Option<WriteAheadLog>,
    has_state: bool,
    saved: Option<u64>,
    next_save: Instant,
    problem: LastingProblem,
}

/// The message about a problem that has not ended yet, kept so that it is printed once.
#[derive(Default)]
struct LastingProblem(Option<String>);

impl Storage {
    /// Attaches to the etcd at a URL, and returns its state. Without a URL, or if the URL is that
    /// of another program, the objects are kept in memory and a warning says so.
    pub(super) async fn open(url: Option<&str>) -> Outcome<(Option<Self>, Option<Recovery>)> {
        let Some(url) = url else {
            say_memory("there is no --etcd-servers");
            return Ok((None, None));
        };
        let address = match address_of("etcd-servers", url) {
            Ok(address) => address,
            // A URL with a scheme such as `https` or `unixs` is for another program: the etcd of this program serves
            // only `http`.
            Err(problem) if has_foreign_scheme(url) => {
                say_memory(&problem.to_string());
                return Ok((None, None));
            }
            Err(problem) => return Err(problem.into()),
        };
        match attach_when_it_listens(&address).await {
            AttachOutcome::Attached(attachment, state) => {
                let recovery = state.map(|state| recovery(url, &state)).transpose()?;
                let log = attachment.durability != Durability::None;
                let storage = Self {
                    log: log.then(WriteAheadLog::new),
                    link: Arc::new(EtcdLink::new(url, address, attachment)),
                    has_state: recovery.is_some(),
                    saved: None,
                    next_save: Instant::now(),
                    problem: LastingProblem::default(),
                };
                Ok((Some(storage), recovery))
            }
            AttachOutcome::Held { by } => Err(ProgramProblem::Held {
                url: url.to_owned(),
                holder: by,
            }),
            AttachOutcome::Foreign { why } => {
                say_memory(&format!(
                    "{url} of --etcd-servers is no etcd of this program ({why}); start the `etcd` beside \
                     this program to keep them"
                ));
                Ok((None, None))
            }
            AttachOutcome::Unreachable(source) => Err(ProgramProblem::NoEtcd {
                url: url.to_owned(),
                source,
            }),
        }
    }

    pub(super) fn log(&self) -> Option<&WriteAheadLog> {
        self.log.as_ref()
    }

    /// Starts to append the writes of a server to the log of the etcd. If the etcd has no state, saves a snapshot
    /// first, because a log only continues a snapshot.
    pub(super) async fn begin(&self, server: &ApiServer) -> Outcome {
        if let Some(log) = &self.log {
            if !self.has_state {
                self.link.save(server).await?;
            }
            let (link, log) = (Arc::clone(&self.link), log.clone());
            tokio::spawn(keep_log(link, log.clone(), server.clone()));
            let settled = log.settled().await;
            settled.map_err(|why| ProgramProblem::Unwritten { why })?;
        }
        Ok(())
    }

    /// Saves a snapshot if one is due. A problem is printed once, and the next call tries again.
    pub(super) async fn save_changes(&mut self, server: &ApiServer) {
        let started = Instant::now();
        if started < self.next_save || (self.log.is_some() && !self.link.is_log_long()) {
            return;
        }
        let saved = match &self.log {
            // If the etcd has ended, the task that appends to the log attaches again.
            Some(_) => self.link.save(server).await,
            None => self.save_if_changed(server).await,
        };
        let rest = match &saved {
            Ok(()) => (started.elapsed() * REST).min(LONGEST_REST),
            Err(_) => Duration::ZERO,
        };
        self.next_save = Instant::now() + rest;
        self.problem.note(saved.as_ref().err(), &self.link.url);
    }

    pub(super) async fn save_last(mut self, server: &ApiServer) -> Outcome {
        if let Some(log) = &self.log {
            let settled = timeout(LAST_APPENDS, log.settled()).await;
            let settled = settled.unwrap_or_else(|_| Err("the etcd does not answer".into()));
            return settled.map_err(|why| ProgramProblem::Unwritten { why });
        }
        let saved = self.save_if_changed(server).await;
        saved.map_err(|problem| ProgramProblem::Lost {
            source: Box::new(problem),
        })
    }

    async fn save_if_changed(&mut self, server: &ApiServer) -> Outcome {
        let revision = server.revision();
        // An etcd that was started again has an older state than this server, so it needs a save even if nothing has
        // changed.
        let is_new = self.link.attach_again().await?;
        if is_new || self.saved != Some(revision) {
            self.link.save(server).await?;
            self.saved = Some(revision);
        }
        Ok(())
    }
}

/// Appends the writes of a server to the log of its etcd until the process ends.
async fn keep_log(link: Arc<EtcdLink>, log: WriteAheadLog, server: ApiServer) -> ! {
    let mut problem = LastingProblem::default();
    let mut appends = EtcdAppender::default();
    loop {
        let group = log.next().await;
        let mut payload = Vec::new();
        // Writing into memory cannot fail.
        let _ = group.write(&mut payload);
        let payload = Bytes::from(payload);
        loop {
            let kept = appends.keep(&link, &group, &payload, &server).await;
            problem.note(kept.as_ref().err(), &link.url);
            match kept {
                Ok(()) => break,
                Err(error) => log.fail(chain(&error)),
            }
            sleep(POLL).await;
        }
        log.keep(group);
    }
}

#[derive(Default)]
struct EtcdAppender {
    connection: Option<AppendConnection>,
    /// Whether the etcd was started again, so that it may lack transactions before the next group and needs a snapshot
    /// first.
    needs_snapshot: bool,
}

impl EtcdAppender {
    async fn keep(
        &mut self,
        link: &EtcdLink,
        group: &WalGroup,
        payload: &Bytes,
        server: &ApiServer,
    ) -> Outcome {
        if link.attach_again().await? {
            self.needs_snapshot = true;
            self.connection = None;
        }
        if self.needs_snapshot {
            // The snapshot includes the group, so the group is not appended.
            link.save(server).await?;
            self.needs_snapshot = false;
            return Ok(());
        }
        link.append(&mut self.connection, group, payload.clone())
            .await
    }
}

impl LastingProblem {
    /// Prints a problem, unless it is the same as at the last call. Prints once when a problem has ended.
    fn note(&mut self, problem: Option<&ProgramProblem>, url: &str) {
        let text = problem.map(|problem| chain(problem));
        match &text {
            Some(text) if self.0.as_ref() != Some(text) => report(NAME, text),
            None if self.0.is_some() => {
                report(NAME, format_args!("saved again to the etcd at {url}"));
            }
            Some(_) | None => {}
        }
        self.0 = text;
    }
}

fn recovery(url: &str, state: &EtcdState) -> Outcome<Recovery> {
    let corrupt = |source| ProgramProblem::CorruptEtcd {
        url: url.to_owned(),
        source,
    };
    let snapshot = Snapshot::read(&state.snapshot).map_err(|error| corrupt(error.into()))?;
    let mut recovery = Recovery::from(snapshot);
    for text in state.log.split_inclusive(|byte| *byte == b'\n') {
        let added = recovery.add(text);
        added.map_err(|error| corrupt(error.into()))?;
    }
    Ok(recovery)
}

/// Attaches to the etcd at an address. Tries again for `START`, as an etcd that is starting may not listen yet.
async fn attach_when_it_listens(address: &str) -> AttachOutcome {
    let deadline = Instant::now() + START;
    loop {
        let outcome = attach(address).await;
        let is_unreachable = matches!(outcome, AttachOutcome::Unreachable(_));
        if !is_unreachable || timeout_at(deadline, sleep(POLL)).await.is_err() {
            return outcome;
        }
    }
}

fn has_foreign_scheme(url: &str) -> bool {
    url.split_once("://")
        .is_some_and(|(scheme, _)| scheme != "http")
}

fn say_memory(why: &str) {
    let news = format!("objects are kept in memory alone, because {why}");
    report(NAME, news);
}
