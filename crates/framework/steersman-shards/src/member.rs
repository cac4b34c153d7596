//! Handle: the membership of this replica in a group that shares the work.

use std::collections::BTreeMap;
use std::time::Duration;

use steersman_api::{ClientConfig, ProblemLog};
use steersman_object::ObjectKey;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::driver::{MemberCommand, MemberDriver};
use crate::error::Error;
use crate::gate::ShardGate;
use crate::metrics::ShardMetrics;
use crate::options::{MemberOptions, Shards};
use crate::status::ShardStatus;

/// The pause between two warnings about the same error.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// The membership of this replica in a group.
///
/// The owner starts it, works on objects with permits of its [`ShardGate`], and calls [`leave`](Self::leave) when its
/// work has ended. Dropping it ends the membership without a release: the Lease expires.
#[derive(Debug)]
#[must_use = "call `start`, and `leave` after the work has ended"]
pub struct ShardMember {
    options: MemberOptions,
    client_config: ClientConfig,
    gate: ShardGate,
    metrics: Option<ShardMetrics>,
    status: watch::Receiver<ShardStatus>,
    publish: Option<watch::Sender<ShardStatus>>,
    commands: Option<mpsc::UnboundedSender<MemberCommand>>,
}

impl ShardMember {
    /// Makes a member. It sends no request before [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// [`Error::Name`], [`Error::Timing`] or [`Error::NoNamespace`] if the options cannot work.
    pub fn new(options: Shards, client_config: &ClientConfig) -> Result<Self, Error> {
        let options = options.validate(client_config.namespace())?;
        let (publish, status) = watch::channel(ShardStatus {
            group: options.group.name().to_owned(),
            member: options.member.name().to_owned(),
            ..ShardStatus::default()
        });
        Ok(Self {
            gate: ShardGate::new(options.given.by),
            options,
            client_config: client_config.clone(),
            metrics: None,
            status,
            publish: Some(publish),
            commands: None,
        })
    }

    /// Sets the metrics. Default: none.
    pub fn metrics(mut self, metrics: ShardMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Returns the gate of the slots of this replica.
    pub fn gate(&self) -> ShardGate {
        self.gate.clone()
    }

    /// Returns the key of the Lease of the group.
    pub fn group(&self) -> &ObjectKey {
        &self.options.group
    }

    /// Returns the state of the membership, with its changes.
    pub fn status(&self) -> watch::Receiver<ShardStatus> {
        self.status.clone()
    }

    /// Starts the membership on a thread of its own, or on the current runtime after [`Shards::on_callers_runtime`].
    /// Further calls do nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] if the thread cannot be started.
    ///
    /// # Panics
    ///
    /// If it is called outside a tokio runtime after `on_callers_runtime`.
    pub fn start(&mut self) -> Result<(), Error> {
        let Some(published) = self.publish.take() else {
            return Ok(());
        };
        let (commands, received) = mpsc::unbounded_channel();
        self.commands = Some(commands);
        let driver = MemberDriver {
            options: self.options.clone(),
            client_config: self.client_config.clone(),
            gate: self.gate.clone(),
            metrics: self.metrics.clone(),
            published,
            commands: received,
            failures: ProblemLog::repeating_after(BETWEEN_WARNINGS),
            failing: BTreeMap::new(),
            awaited: BTreeMap::new(),
        };
        if self.options.given.on_callers_runtime {
            tokio::spawn(driver.run());
            return Ok(());
        }
        let failed = |source| Error::Thread {
            group: self.options.group.to_string(),
            source,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let thread = std::thread::Builder::new().name("shards".to_owned());
        let started = thread.spawn(move || runtime.block_on(driver.run()));
        started.map(drop).map_err(failed)
    }

    /// Leaves the group: the slots go to other members at once, if no permit is held. Returns whether the release was
    /// written; otherwise the other members wait until the Lease of this one expires.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the membership without waiting for the release.
    pub async fn leave(mut self) -> bool {
        let Some(commands) = self.commands.take() else {
            return true;
        };
        if commands.send(MemberCommand::Leave).is_err() {
            return true;
        }
        let limit = self.options.given.timing.renew_deadline;
        // The driver drops its sender when it has ended.
        let ended = async { while self.status.changed().await.is_ok() {} };
        timeout(limit, ended).await.is_ok()
    }
}
