//! Driver: reconciles Databases: the database at the service, the Secret, the status and the finalizer.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use steersman::client::finalizer::{self, FinalizerStage};
use steersman::controller::source::PollResults;
use steersman::k8s_openapi;
use steersman::object::Object as _;
use steersman::{
    Action, ByObject, CacheOptions, Context, Controller, Error, Manager, Reconciler, Request,
    Watch, client, owner, predicate, source,
};

use crate::credentials::{self, Credentials, LABEL, secret_key};
use crate::database::{Database, FINALIZER};
use crate::plan::{external_name, plan, wanted};
use crate::service::{DatabaseClient, ServiceError, Settings};
use crate::status::{self, Progress};

/// The pause before a database with an occupied Secret is tried again: no watch covers that Secret.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The interval at which credentials are checked: the settings that a poll reads do not show a changed password.
const CHECK_CREDENTIALS: Duration = Duration::from_secs(3600);

/// Reconciles each `Database` into a database at the service.
#[derive(Clone, Debug)]
pub struct DatabaseReconciler {
    service: DatabaseClient,
    polled: PollResults<Polled>,
}

/// The state of a database at the service, as the last call of the poll or the last reconcile left it.
#[derive(Debug, PartialEq, Eq)]
enum Polled {
    /// The settings; `None` if there is no such database.
    Found(Option<Settings>),
    /// The service did not answer, which the status shows until it does.
    NoAnswer,
}

/// What a reconcile has provided.
enum Provided {
    Database,
    /// The object is gone, or is being deleted.
    Nothing,
}

enum FoundSecret {
    /// The credentials, if the Secret exists and is complete.
    Ours(Option<Credentials>),
    /// A Secret of another owner has the name.
    Occupied,
}

/// Returns the options of the cache: the Secrets of this operator, and no others.
pub fn cache(options: CacheOptions) -> CacheOptions {
    options.by_object::<Secret>(ByObject::new().labels(LABEL))
}

/// Declares the controller and its sources. The service sends no events: a poll reads each database at the interval
/// `poll_every`, and requests the `Database` when the settings have changed.
///
/// # Errors
///
/// An error if the manager's cache excludes one of the kinds, or the manager already has a controller of this name.
pub fn declare(
    manager: &Manager,
    service: DatabaseClient,
    poll_every: Duration,
) -> Result<(), steersman::manager::Error> {
    let polled = service.clone();
    // ANCHOR: poll
    let poll = source::poll(poll_every, move |database: Arc<Database>| {
        let service = polled.clone();
        async move {
            let found = service.find(&external_name(&database)).await;
            Ok(found.map_or(Polled::NoAnswer, Polled::Found))
        }
    });
    // ANCHOR_END: poll
    let polled = poll.results();
    // ANCHOR: watches
    let controller = Controller::builder::<Database>()
        .with_predicates(predicate::or(
            predicate::generation_changed(),
            // A finalizer that was removed by hand is restored.
            predicate::finalizers_changed(),
        ))
        .owns::<Secret>()
        .watch(Watch::poll(poll))
        .at_least_every(CHECK_CREDENTIALS)
        .max_concurrent_reconciles(4)
        .build(DatabaseReconciler { service, polled })?;
    // ANCHOR_END: watches
    manager.add_controller(controller)
}

// ===== impl DatabaseReconciler =====

impl Reconciler for DatabaseReconciler {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(database) = client.get_opt::<Database>(&request.key).await? else {
            return Ok(Action::done());
        };
        let database = match finalizer::stage(&database, FINALIZER) {
            FinalizerStage::Missing => {
                // Before anything exists that it cleans up. An object that is being deleted gets none.
                let added = client.add_finalizer(&database, FINALIZER).await?;
                if added.object().is_being_deleted() {
                    return Ok(Action::done());
                }
                added.into_object()
            }
            FinalizerStage::Held => database,
            FinalizerStage::CleanUp => return self.clean_up(ctx, &database).await,
            FinalizerStage::Released => return Ok(Action::done()),
        };
        let found = match find_secret(ctx, &database).await? {
            FoundSecret::Occupied => {
                // The service shows a password only once, so the operator asks for none that it cannot store.
                report(ctx, &database, &Progress::Occupied).await?;
                return Ok(Action::requeue_after(LOOK_AGAIN));
            }
            FoundSecret::Ours(found) => found,
        };
        match self.provide(ctx, &database, found).await {
            Ok(Provided::Nothing) => Ok(Action::done()),
            Ok(Provided::Database) => {
                report(ctx, &database, &Progress::Available).await?;
                Ok(Action::done())
            }
            Err(error) => self.fail(ctx, &database, error).await,
        }
    }
}

impl DatabaseReconciler {
    /// Brings the database at the service to the wanted state, and its credentials into the Secret. Provides nothing for an
    /// object that is gone.
    async fn provide(
        &self,
        ctx: &Context,
        database: &Database,
        found: Option<Credentials>,
    ) -> Result<Provided, Error> {
        let (name, wanted) = (external_name(database), wanted(database));
        let settings = self.service.find(&name).await?;
        let has_credentials = match &found {
            Some(found) if found.user == wanted.owner => {
                let (user, password) = (&found.user, &found.password);
                self.service.accepts(&name, user, password).await?
            }
            _ => false,
        };
        // The cache may lag after a start, and nothing would delete a database that is made for an object that is gone.
        if settings.is_none() && !is_current(ctx, database).await? {
            return Ok(Provided::Nothing);
        }
        let plan = plan(&wanted, settings.as_ref(), has_credentials);
        let mut password = None;
        if plan.put {
            password = self.service.put(&name, &wanted).await?;
        }
        if plan.renew_password {
            password = self.service.new_password(&name).await?;
        }
        // A crash before this write loses the password; the next reconcile asks for a new one.
        if let Some(password) = password {
            let credentials = Credentials {
                user: wanted.owner.clone(),
                password,
            };
            let fill = |secret: &mut Secret| credentials::fill(secret, &name, &credentials);
            let secret = ctx.client().ensure(secret_key(database), fill);
            secret.owned_by(database).await?;
        }
        // ANCHOR: known
        // The next call of the poll is compared with this, so the same change is noticed when it is made again.
        self.polled
            .set(&database.key(), Polled::Found(Some(wanted)));
        // ANCHOR_END: known
        Ok(Provided::Database)
    }

    /// Deletes the database at the service, and then removes the finalizer. The garbage collector deletes the Secret.
    async fn clean_up(&self, ctx: &Context, database: &Database) -> Result<Action, Error> {
        if let Err(error) = self.service.delete(&external_name(database)).await {
            return self.fail(ctx, database, error.into()).await;
        }
        match ctx.client().remove_finalizer(database, FINALIZER).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Action::done()),
        }
    }

    /// Writes an error of the service into the status, and returns it, so that the reconcile is retried with backoff.
    async fn fail(
        &self,
        ctx: &Context,
        database: &Database,
        error: Error,
    ) -> Result<Action, Error> {
        if error.downcast_ref::<ServiceError>().is_some() {
            let why = error.chain();
            report(ctx, database, &Progress::Unavailable { why }).await?;
        }
        Err(error)
    }
}

/// Reads the Secret from the cache. If it is not there, the server tells whether one without the label has its name.
async fn find_secret(ctx: &Context, database: &Database) -> Result<FoundSecret, client::Error> {
    let key = secret_key(database);
    let mut found = ctx.client().get_opt::<Secret>(&key).await?;
    if found.is_none() {
        let live = ctx.client().live().get_opt::<Secret>(&key).await?;
        found = live.map(Arc::new);
    }
    let is_ours = |secret: &Secret| owner::is_controlled_by(secret, database);
    Ok(match found {
        Some(secret) if is_ours(&secret) => FoundSecret::Ours(credentials::read(&secret)),
        Some(_) => FoundSecret::Occupied,
        None => FoundSecret::Ours(None),
    })
}

/// Writes the status, and records an Event if the state has changed.
async fn report(
    ctx: &Context,
    database: &Database,
    progress: &Progress,
) -> Result<(), client::Error> {
    if !status::is_reported(database, progress) {
        let (reason, note) = (progress.reason(), progress.message(database));
        match progress {
            Progress::Available => ctx.events().normal(database, reason, "Provide", note),
            Progress::Unavailable { .. } | Progress::Occupied => {
                ctx.events().warning(database, reason, "Provide", note);
            }
        }
    }
    let now = ctx.now();
    let set_status = |database: &mut Database| {
        database.status = Some(status::status(database, progress, now));
    };
    ctx.client().status().modify(database, set_status).await?;
    Ok(())
}

/// Returns whether the server still has an object, and does not delete it.
async fn is_current(ctx: &Context, database: &Database) -> Result<bool, Error> {
    let live = ctx.client().live();
    let found = live.get_opt::<Database>(&database.key()).await?;
    Ok(found.is_some_and(|found| {
        found.metadata.uid == database.metadata.uid && !found.is_being_deleted()
    }))
}
