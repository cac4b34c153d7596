//! Driver: keeps the objects in an etcd of this program, or in memory alone.

use std::time::Duration;

use bytes::Bytes;
use steersman_apiserver::ApiServer;
use steersman_registry::Snapshot;
use tokio::time::{Instant, sleep, timeout_at};

use crate::program::etcd::{AttachOutcome, Attachment, address_of, attach};
use crate::program::problem::{Problem, chain};
use crate::program::process::say;

/// Time that an etcd has to start listening.
const START: Duration = Duration::from_secs(5);
/// Time between two attempts to reach it.
const POLL: Duration = Duration::from_millis(100);
/// After a save, this many times its duration pass before the next, so that large snapshots do not
/// keep the processor busy.
const REST: u32 = 20;
/// The longest such pause.
const LONGEST_REST: Duration = Duration::from_secs(5);

/// The place where the objects are kept.
#[derive(Debug)]
pub(super) struct Storage {
    etcd: Option<KeptByEtcd>,
}

/// An etcd of this program.
#[derive(Debug)]
struct KeptByEtcd {
    url: String,
    address: String,
    attachment: Option<Attachment>,
    /// The revision of the last save.
    saved: Option<u64>,
    next_save: Instant,
    /// The message about the problem that lasts, so that it is printed once.
    problem: Option<String>,
}

impl Storage {
    /// Attaches to the etcd at a URL, and returns its snapshot. Without a URL, or if the URL is that
    /// of another program, the objects are kept in memory and a warning says so.
    ///
    /// # Errors
    /// The URL is none, another kube-apiserver is attached, nothing listens, or the snapshot cannot
    /// be read.
    pub(super) async fn open(url: Option<&str>) -> Result<(Self, Option<Snapshot>), Problem> {
        let Some(url) = url else {
            say_memory("there is no --etcd-servers");
            return Ok((Self { etcd: None }, None));
        };
        let address = match address_of("etcd-servers", url) {
            Ok(address) => address,
            // Such as `https` or `unixs`: that of another program.
            Err(problem) if has_foreign_scheme(url) => {
                say_memory(&problem.to_string());
                return Ok((Self { etcd: None }, None));
            }
            Err(problem) => return Err(problem.into()),
        };
        match attach_when_it_listens(&address).await {
            AttachOutcome::Attached(attachment, text) => {
                let snapshot = text.map(|text| Snapshot::read(&text)).transpose();
                let snapshot = snapshot.map_err(|source| Problem::CorruptEtcd {
                    url: url.to_owned(),
                    source,
                })?;
                let etcd = KeptByEtcd {
                    url: url.to_owned(),
                    address,
                    attachment: Some(attachment),
                    saved: None,
                    next_save: Instant::now(),
                    problem: None,
                };
                Ok((Self { etcd: Some(etcd) }, snapshot))
            }
            AttachOutcome::Held { by } => Err(Problem::Held {
                url: url.to_owned(),
                holder: by,
            }),
            AttachOutcome::Foreign { why } => {
                say_memory(&format!(
                    "{url} of --etcd-servers is no etcd of this program ({why}); start the `etcd` beside \
                     this program to keep them"
                ));
                Ok((Self { etcd: None }, None))
            }
            AttachOutcome::Unreachable(source) => Err(Problem::NoEtcd {
                url: url.to_owned(),
                source,
            }),
        }
    }

    /// Saves if there were changes. A problem is printed once, and the next call tries again.
    pub(super) async fn save_changes(&mut self, server: &ApiServer) {
        let Some(etcd) = &mut self.etcd else { return };
        let started = Instant::now();
        if started < etcd.next_save {
            return;
        }
        let problem = match etcd.save(server).await {
            Ok(()) => None,
            Err(problem) => Some(format!("kube-apiserver: {}", chain(&problem))),
        };
        let rest = match &problem {
            None => (started.elapsed() * REST).min(LONGEST_REST),
            Some(_) => Duration::ZERO,
        };
        etcd.next_save = Instant::now() + rest;
        match &problem {
            Some(text) if etcd.problem != problem => say(std::io::stderr(), text),
            None if etcd.problem.is_some() => {
                let text = format!("kube-apiserver: saved again to the etcd at {}", etcd.url);
                say(std::io::stderr(), &text);
            }
            Some(_) | None => {}
        }
        etcd.problem = problem;
    }

    /// Saves at the end.
    ///
    /// # Errors
    /// The etcd is gone, or cannot save.
    pub(super) async fn save_last(mut self, server: &ApiServer) -> Result<(), Problem> {
        match &mut self.etcd {
            Some(etcd) => {
                let saved = etcd.save(server).await;
                saved.map_err(|problem| Problem::Lost {
                    source: Box::new(problem),
                })
            }
            None => Ok(()),
        }
    }
}

impl KeptByEtcd {
    async fn save(&mut self, server: &ApiServer) -> Result<(), Problem> {
        let revision = server.revision();
        let lasting = self.attachment.take().filter(|one| !one.has_ended());
        let attachment = match lasting {
            Some(attachment) if self.saved == Some(revision) => {
                self.attachment = Some(attachment);
                return Ok(());
            }
            Some(attachment) => attachment,
            // The etcd was started again. Its snapshot is older than the objects here.
            None => self.attach_again().await?,
        };
        let snapshot = server.snapshot();
        let text = tokio::task::spawn_blocking(move || {
            let mut text = Vec::new();
            let written = snapshot.write(&mut text);
            written.map(|()| Bytes::from(text))
        });
        let written = match text.await {
            Ok(Ok(text)) => attachment.write(text).await,
            Ok(Err(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        };
        self.attachment = Some(attachment);
        written.map_err(|source| self.not_saved(source))?;
        self.saved = Some(revision);
        Ok(())
    }

    async fn attach_again(&self) -> Result<Attachment, Problem> {
        match attach(&self.address).await {
            AttachOutcome::Attached(attachment, _) => Ok(attachment),
            AttachOutcome::Held { by } => Err(Problem::Held {
                url: self.url.clone(),
                holder: by,
            }),
            AttachOutcome::Foreign { why } => Err(self.not_saved(why.into())),
            AttachOutcome::Unreachable(error) => Err(self.not_saved(error.into())),
        }
    }

    fn not_saved(&self, source: Box<dyn std::error::Error + Send + Sync>) -> Problem {
        let url = self.url.clone();
        Problem::NotSaved { url, source }
    }
}

/// Attaches, and gives an etcd that was started at the same time a moment to listen.
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
    let text = format!("kube-apiserver: objects are kept in memory alone, because {why}");
    say(std::io::stderr(), &text);
}
