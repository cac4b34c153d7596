//! Driver: reconciles websites: children, directory, status and finalizer.

use std::time::Duration;

use steersman::client::ReadConsistency;
use steersman::client::finalizer::{self, FinalizerStage};
use steersman::controller::Primary;
use steersman::controller::handler::{EventHandler, Requests};
use steersman::desired::{ChildState, SetOutcome};
use steersman::events::NewEvent;
use steersman::informer::Event;
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::object::Object as _;
use steersman::status_conditions::{self, HasConditions as _, READY};
use steersman::{
    Action, Client, Context, Controller, Error, Manager, ObjectKey, Reconciler, Request, Watch,
    client, indexed, predicate, report,
};

use crate::children::{self, NEED_USER, PAGES_MISSING, Progress, REFUSED, SERVED};
use crate::website::{FINALIZER, Website};

/// The ConfigMap with the addresses of all sites of a namespace.
///
/// No site owns it, because all sites share it. So the finalizer removes a site from it instead of
/// the garbage collector.
pub const DIRECTORY: &str = "website-directory";

/// The index of websites by the name of the ConfigMap with their pages.
const BY_PAGES: &str = "spec.pages";

/// Reconciles each website into a copy of its pages, web servers and a Service.
struct WebsiteReconciler;

/// Requests each site that had an entry of the directory added, changed or removed.
struct ChangedEntries;

/// Declares the controller: its watches, and the requests that their events cause.
///
/// # Errors
///
/// An error if the manager's cache excludes one of the kinds, or the manager already has a controller of this name.
pub fn declare(manager: &Manager) -> Result<(), steersman::manager::Error> {
    // ANCHOR: watches
    let cache = manager.cache();
    cache.index_field::<Website>(BY_PAGES, |site| Some(site.spec.pages.clone()))?;
    let controller = children::kinds(Controller::builder::<Website>())
        .name("website")
        // The operator's own status writes do not cause a reconcile; events of children do.
        .with_predicates(predicate::or(
            predicate::generation_changed(),
            // A finalizer that was removed by hand is restored.
            predicate::finalizers_changed(),
        ))
        // A change of the pages concerns each site that names them.
        .watch(Watch::of::<ConfigMap>(indexed(BY_PAGES)))
        // A user may change the directory: a site that lost its entry is entered again, and the entry of a site that is
        // gone is removed.
        .watch(Watch::of::<ConfigMap>(ChangedEntries))
        .max_concurrent_reconciles(4)
        .build(WebsiteReconciler)?;
    // ANCHOR_END: watches
    manager.add_controller(controller)
}

// ===== impl ChangedEntries =====

impl EventHandler<ConfigMap, Primary<Website>> for ChangedEntries {
    fn handle(&self, event: &Event<ConfigMap>, requests: &mut Requests<Request>) {
        let states = [event.old(), event.current()];
        let [old, current] = states.map(|entry| entry.map(|entry| entry.object()));
        for (state, other) in [(&old, &current), (&current, &old)] {
            let Some(directory) = state
                .as_ref()
                .filter(|state| state.key().name() == DIRECTORY)
            else {
                continue;
            };
            let others = other.as_ref().and_then(|other| other.data.as_ref());
            for (name, address) in directory.data.iter().flatten() {
                if others.and_then(|others| others.get(name)) != Some(address) {
                    requests.add(directory.key().sibling(name).into());
                }
            }
        }
    }
}

// ===== impl WebsiteReconciler =====

impl Reconciler for WebsiteReconciler {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(site) = client.get_opt::<Website>(&request.key).await? else {
            let directory = request.key.sibling(DIRECTORY);
            if let Some(directory) = client.get_opt::<ConfigMap>(&directory).await? {
                leave(client, &directory, &request.key).await?;
            }
            return Ok(Action::done());
        };
        match finalizer::stage(&site, FINALIZER) {
            FinalizerStage::Held => {}
            FinalizerStage::Missing => {
                // Before anything exists that it cleans up. The event of the change requests the site again.
                client.add_finalizer(&site, FINALIZER).await?;
                return Ok(Action::done());
            }
            FinalizerStage::CleanUp => return clean_up(client, &site).await,
            FinalizerStage::Released => return Ok(Action::done()),
        }
        let progress = serve(ctx, &site).await?;
        if progress.reason == SERVED {
            enter_directory(client, &site).await?;
        }
        announce(ctx, &site, &progress);
        let now = ctx.now();
        let update = |site: &mut Website| site.status = Some(progress.status(site, now));
        client.status().modify(&site, update).await?;
        Ok(match progress.reason {
            // No watch of this controller covers the obstacle, so the site is reconciled again after a pause.
            REFUSED => Action::requeue_after(Duration::from_secs(30)),
            _ => Action::done(),
        })
    }
}

/// Records an Event if the site has come to another stage: `kubectl describe website` shows it.
fn announce(ctx: &Context, site: &Website, progress: &Progress) {
    let (reason, note) = (progress.reason, &progress.message);
    let reported = status_conditions::find(site.conditions(), READY);
    if reported.is_some_and(|ready| ready.reason == reason) {
        return;
    }
    match NEED_USER.contains(&reason) {
        true => ctx.events().warning(site, reason, "Serve", note),
        false => ctx.events().normal(site, reason, "Serve", note),
    }
}

/// Applies the children, and returns their progress.
async fn serve(ctx: &Context, site: &Website) -> Result<Progress, Error> {
    let client = ctx.client();
    let source = site.key().sibling(&site.spec.pages);
    let Some(source) = client.get_opt::<ConfigMap>(&source).await? else {
        // An event for the missing ConfigMap requests the site again. The served pages stay until then.
        let remedy = "create it, or name another one in .spec.pages";
        let message = format!("ConfigMap {:?} does not exist: {remedy}", site.spec.pages);
        return Ok(Progress::stuck(site, PAGES_MISSING, message));
    };
    let (set, web_servers) = children::serving(site, &source.data.clone().unwrap_or_default());
    let outcome = set.apply(client).await?;
    let deployment = outcome.object(web_servers).unwrap_or_default();
    let state = outcome.child(web_servers).map(|child| &child.state);
    if let Some(ChildState::Applied { created: true }) = state {
        let event = NewEvent::normal("Created", "CreateDeployment").related(&*deployment);
        ctx.events()
            .publish(site, event.note("created the web servers"));
    }
    if let Some(message) = refusal(&outcome) {
        return Ok(Progress::stuck(site, REFUSED, message));
    }
    outcome.into_result()?;
    Ok(Progress::of(&deployment, site.spec.replicas))
}

// ANCHOR: refusal
/// Returns the message of a child's error that only a user can resolve. All other errors are returned as errors.
fn refusal(outcome: &SetOutcome) -> Option<String> {
    outcome.failures().find_map(|(_, error)| {
        let is_permanent = matches!(error, client::Error::Owner(_)) || error.is_invalid();
        is_permanent.then(|| report(error).to_string())
    })
}
// ANCHOR_END: refusal

async fn enter_directory(client: &Client, site: &Website) -> Result<(), Error> {
    let key = site.key();
    let enter = |directory: &mut ConfigMap| {
        let entries = directory.data.get_or_insert_default();
        entries.insert(key.name().to_owned(), children::address(site));
    };
    client.ensure(key.sibling(DIRECTORY), enter).await?;
    Ok(())
}

/// Removes the entry of a site from the directory, if there is one.
async fn leave(client: &Client, directory: &ConfigMap, site: &ObjectKey) -> Result<(), Error> {
    let mut names = directory.data.iter().flatten().map(|(name, _)| name);
    if names.all(|name| name != site.name()) {
        return Ok(());
    }
    let change = |directory: &mut ConfigMap| {
        if let Some(entries) = &mut directory.data {
            entries.remove(site.name());
        }
    };
    let left = client.modify(directory, change).await;
    ignore_gone(left.map(drop))?;
    Ok(())
}

/// Removes the site from the directory first, so that users are not sent to Pods that are being
/// deleted.
///
/// It reads from the server. The cache has the writes of this process, but it may lack the writes
/// of an earlier process of the operator, and after the finalizer is removed no further reconcile
/// follows.
async fn clean_up(client: &Client, site: &Website) -> Result<Action, Error> {
    let key = site.key();
    let directory = key.sibling(DIRECTORY);
    if let Some(directory) = client.live().get_opt::<ConfigMap>(&directory).await? {
        leave(client, &directory, &key).await?;
    }
    // The garbage collector would do this later, but a bare API server has none.
    let client = &client.read_consistency(ReadConsistency::None);
    children::none(site).apply(client).await?.into_result()?;
    ignore_gone(client.remove_finalizer(site, FINALIZER).await.map(drop))?;
    Ok(Action::done())
}

/// Ignores the error of a write if the object is gone already.
fn ignore_gone(result: Result<(), client::Error>) -> Result<(), client::Error> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}
