//! Driver: installs one definition, waits until it is served, and migrates its objects.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_api::{Error as RequestError, Mapper};
use steersman_object::{json_items, json_text};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::crd::{Crd, stored_kind};
use crate::difference::CrdDifference;
use crate::error::Error;
use crate::migration::Migration;
use crate::plan::plan;
use crate::progress::{MigrationProgress, StoredObjects};
use crate::release_history::ReleaseHistory;
use crate::requests::CrdRequests;
use crate::server_migration::{self, ServerMigration};
use crate::status::CrdPhase;
use crate::status_board::CrdReport;
use crate::version_difference::check_versions;

pub(crate) struct Installer<'a> {
    pub(crate) definition: &'a Crd,
    pub(crate) report: CrdReport<'a>,
    pub(crate) requests: CrdRequests,
    pub(crate) mapper: Mapper,
    /// The PEM authorities of the operator's conversion webhook; the value is `None` until they are known.
    pub(crate) authorities: Option<watch::Receiver<Option<String>>>,
    /// The time in which every API server notices a changed definition.
    pub(crate) settle: Duration,
    /// Whether stored objects are migrated.
    pub(crate) is_migrated: bool,
}

/// The pause between two reads of a definition that is not yet served.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// The number of attempts for a write that conflicts with other writers.
const MOST_ATTEMPTS: u32 = 10;
/// How long an installation waits until a written definition is served.
pub(crate) const UNTIL_SERVED: Duration = Duration::from_secs(60);

impl Installer<'_> {
    /// Compares the definition with that on the server without writing, and reports the result.
    pub(crate) async fn look(&self) -> Result<(), Error> {
        self.check()?;
        let present = self.requests.read().await?;
        match self.plan(present.as_ref()) {
            CrdDifference::Missing | CrdDifference::Outdated(_) | CrdDifference::ToMigrate(_) => {
                // A problem that a leader in this process has reported stays.
                if self.report.phase() == CrdPhase::Refused {
                    self.report.enter(CrdPhase::Pending, None);
                }
            }
            CrdDifference::Equal => {
                if present.as_ref().and_then(obstacle).is_none() {
                    self.report.enter(CrdPhase::Installed, None);
                }
            }
            CrdDifference::Later(more) => self.keep(&more),
            CrdDifference::Refused(problems) => return Err(self.refuse(problems)),
        }
        Ok(())
    }

    /// Creates or updates the definition, and waits until each version is served.
    ///
    /// # Errors
    ///
    /// The errors of [`Crd::check`], [`Error::Narrowed`], [`Error::NotServed`] after the limit, [`Error::Request`].
    pub(crate) async fn install(&self, limit: Duration) -> Result<(), Error> {
        self.check()?;
        let mut attempt = 1;
        loop {
            let present = self.requests.read().await?;
            let is_new = match self.plan(present.as_ref()) {
                CrdDifference::Equal => break,
                CrdDifference::Later(more) => {
                    self.keep(&more);
                    return Ok(());
                }
                CrdDifference::Refused(problems) => return Err(self.refuse(problems)),
                CrdDifference::ToMigrate(problems) => {
                    if !self.is_migrated {
                        return Err(self.refuse(problems));
                    }
                    // The future of a migration is large, so it is boxed.
                    while !Box::pin(self.migrate()).await? {}
                    continue;
                }
                CrdDifference::Missing => true,
                CrdDifference::Outdated(_) => false,
            };
            let content = self.complete(present.as_ref()).await;
            if !is_new {
                self.report.note_change();
            }
            match self.requests.apply(content).await {
                Ok(()) => {
                    let definition = self.report.name;
                    match is_new {
                        true => info!(definition, "the definition was installed"),
                        false => info!(definition, "the definition was updated"),
                    }
                    break;
                }
                // Another writer has changed the definition since the read.
                Err(error) if error.is_conflict() && attempt < MOST_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error.into()),
            }
        }
        self.served(limit).await?;
        self.report.enter(CrdPhase::Installed, None);
        Ok(())
    }

    fn plan(&self, present: Option<&Value>) -> CrdDifference {
        plan(present, &self.definition.content, &self.definition.accepted)
    }

    /// Returns the definition to apply: with the resource version that was read, and with the authorities of the
    /// conversion webhook.
    async fn complete(&self, present: Option<&Value>) -> Value {
        let mut content = self.definition.content.clone();
        let mut history = present.map(ReleaseHistory::read).unwrap_or_default();
        history.add(&content);
        history.write(&mut content);
        content["apiVersion"] = json!("apiextensions.k8s.io/v1");
        content["kind"] = json!("CustomResourceDefinition");
        if let Some(present) = present {
            // DEF-5: the write fails if another writer has injected an authority since the read.
            content["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"].clone();
        }
        let conversion = |definition: &Value| {
            definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].clone()
        };
        let needs_bundle = content["spec"]["conversion"]["strategy"] == "Webhook";
        if !needs_bundle || !conversion(&content).is_null() {
            return content;
        }
        let mut bundle = present.map(conversion).unwrap_or_default();
        if let (true, Some(mut authorities)) = (bundle.is_null(), self.authorities.clone()) {
            // If the sender is dropped, this process has no authority; the leader injects its own.
            if let Ok(pem) = authorities.wait_for(Option::is_some).await {
                bundle = json!(STANDARD.encode(pem.as_deref().unwrap_or_default()));
            }
        }
        if !bundle.is_null() {
            content["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = bundle;
        }
        content
    }

    fn keep(&self, more: &[String]) {
        if self.report.phase() != CrdPhase::Kept {
            warn!(
                definition = self.report.name,
                differences = more.join("; "),
                "the definition on the server accepts more than this operator's, which is that of an earlier release or \
                 narrower by mistake: the one on the server stays; to narrow it, use Crd::accept_narrowing"
            );
        }
        self.report.enter(CrdPhase::Kept, None);
    }

    /// DEF-7: checks the definition alone, before a comparison or a write.
    fn check(&self) -> Result<(), Error> {
        let checked = self.definition.check();
        checked.inspect_err(|error| self.enter_refused(error))
    }

    fn refuse(&self, problems: Vec<String>) -> Error {
        let error = Error::Narrowed {
            definition: self.report.name.to_owned(),
            problems,
        };
        self.enter_refused(&error);
        error
    }

    fn enter_refused(&self, error: &Error) {
        self.report
            .enter(CrdPhase::Refused, Some(error.to_string()));
    }

    /// Waits until the server serves each version of the definition.
    async fn served(&self, limit: Duration) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let problem = match self.requests.read().await? {
                None => Some("the definition was deleted".to_owned()),
                Some(definition) => obstacle(&definition),
            };
            let problem = match problem {
                None => self.missing_version().await?,
                problem => problem,
            };
            let Some(problem) = problem else {
                return Ok(());
            };
            let after = begun.elapsed();
            if after >= limit {
                let definition = self.report.name.to_owned();
                return Err(Error::NotServed {
                    definition,
                    after,
                    problem,
                });
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Returns a version that discovery does not list yet.
    async fn missing_version(&self) -> Result<Option<String>, RequestError> {
        let served = self.definition.served();
        if let Some(first) = served.first() {
            // The mapper may have cached the group with its former versions.
            self.mapper.forget(first.group());
        }
        for gvk in served {
            match self.mapper.kind(&gvk).await {
                Ok(_) => {}
                Err(error) if error.is_kind_not_served() => {
                    return Ok(Some(format!("discovery has no {gvk}")));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Migrates the objects to the stored version, and removes the other versions from `storedVersions`. Returns
    /// `false` if the definition has changed meanwhile, so that the migration has to run again.
    pub(crate) async fn migrate(&self) -> Result<bool, Error> {
        let Some(present) = self.requests.read().await? else {
            return Ok(true);
        };
        let (Some(stored), Some(kind)) = (StoredObjects::read(&present), stored_kind(&present))
        else {
            return Ok(true);
        };
        if !stored.need_migration() {
            if stored.has_annotation {
                self.requests.annotate(None).await?;
            }
            if self.report.phase() == CrdPhase::Migrating {
                // Another leader has finished the migration, or the response to its last request was lost.
                self.report.enter(CrdPhase::Installed, None);
            }
            return Ok(true);
        }
        // DEF-7: writing an object again would drop the fields that only its former version has.
        check_versions(&present)?;
        let (definition, version) = (self.report.name, &*stored.version);
        self.report.enter(CrdPhase::Migrating, None);
        let progress = stored.progress.clone().unwrap_or_default();
        if progress.continue_token.is_none() {
            info!(
                definition,
                version, "objects may be stored in other versions: they are migrated"
            );
            // DEF-4: the progress is saved before the server shortens `storedVersions`.
            let begun = MigrationProgress {
                generation: stored.generation,
                ..MigrationProgress::default()
            };
            self.requests.annotate(Some(begun.text())).await?;
            sleep(self.settle).await;
            let (client, generation) = (&self.requests.client, stored.generation);
            let by_server =
                server_migration::migrate(client, &self.mapper, definition, &kind, generation);
            match by_server.await? {
                ServerMigration::Succeeded => return self.prune(&stored).await,
                ServerMigration::Unavailable(reason) => {
                    info!(
                        definition,
                        reason, "the server does not migrate the objects: the operator does"
                    );
                }
            }
        }
        let mut migration = Migration::new(&self.requests, self.report, kind, stored.generation);
        migration.run(progress).await?;
        self.prune(&stored).await
    }

    /// DEF-3: removes the former versions from `storedVersions` unless the definition has changed since the start of
    /// the migration. Returns whether the versions were removed.
    async fn prune(&self, migrated: &StoredObjects) -> Result<bool, Error> {
        for _ in 0..MOST_ATTEMPTS {
            let Some(present) = self.requests.read().await? else {
                return Ok(true);
            };
            let Some(stored) = StoredObjects::read(&present) else {
                return Ok(true);
            };
            if stored.generation != migrated.generation {
                return Ok(false);
            }
            if stored.are_mixed {
                let read_at = &present["metadata"]["resourceVersion"];
                let pruned = self.requests.set_stored_versions(read_at, &stored.version);
                match pruned.await {
                    Ok(()) => {}
                    Err(error) if error.is_invalid() || error.is_conflict() => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            if stored.has_annotation {
                self.requests.annotate(None).await?;
            }
            let (definition, version) = (self.report.name, stored.version);
            info!(
                definition,
                version, "every object is stored in the present version"
            );
            self.report.migrated(0, None);
            self.report.enter(CrdPhase::Installed, None);
            return Ok(true);
        }
        Ok(false)
    }
}

/// Returns the reason why the server does not serve a definition, if any.
fn obstacle(definition: &Value) -> Option<String> {
    ["NamesAccepted", "Established"]
        .into_iter()
        .find_map(|kind| {
            let mut conditions = json_items(&definition["status"]["conditions"]);
            match conditions.find(|condition| condition["type"] == kind) {
                Some(condition) if condition["status"] == "True" => None,
                Some(condition) => {
                    let message = json_text(&condition["message"]);
                    Some(format!("{kind} is false: {message}"))
                }
                None => Some(format!("the definition has no condition {kind}")),
            }
        })
}
