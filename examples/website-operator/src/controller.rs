//! Driver: reconciles websites: children, directory, status and finalizer.

use std::fmt::Debug;
use std::time::Duration;

use steersman::client::Ensured;
use steersman::client::finalizer::{self, FinalizerStage};
use steersman::events::NewEvent;
use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::k8s_openapi::api::core::v1::{ConfigMap, Service};
use steersman::object::{Object as _, TypedObject};
use steersman::{
    Action, Client, Context, Controller, Error, Manager, ObjectKey, Reconciler, Request, indexed,
    owner, predicate, report,
};

use crate::children::{self, Pages};
use crate::status::{self, Progress};
use crate::website::{FINALIZER, Website};

/// The ConfigMap with the addresses of all sites of a namespace.
///
/// No site owns it, because all sites share it. So the finalizer removes a site from it instead of
/// the garbage collector.
pub const DIRECTORY: &str = "website-directory";

/// The index of websites by the name of the ConfigMap with their pages.
const BY_PAGES: &str = "spec.pages";

/// The pause before a site with a refused child is reconciled again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Reconciles each website into a copy of its pages, web servers and a Service.
#[derive(Debug)]
pub struct WebsiteReconciler;

/// Declares the controller: its watches, and the requests that their events cause.
///
/// # Errors
///
/// An error if the manager's cache excludes one of the kinds, or the manager already has a
/// controller of this name.
pub fn declare(manager: &Manager) -> Result<(), steersman::manager::Error> {
    // ANCHOR: watches
    let cache = manager.cache();
    cache.index_field::<Website>(BY_PAGES, |site| Some(site.spec.pages.clone()))?;
    let controller = Controller::builder::<Website>()
        .name("website")
        // The operator's own status writes do not cause a reconcile; events of children do.
        .with_predicates(predicate::or(
            predicate::generation_changed(),
            // A finalizer that was removed by hand is restored.
            predicate::finalizers_changed(),
        ))
        .owns::<ConfigMap>()
        .owns::<Deployment>()
        .owns::<Service>()
        // A change of the pages concerns each site that names them.
        .watches::<ConfigMap>(indexed(BY_PAGES))
        .max_concurrent_reconciles(4)
        .build(WebsiteReconciler)?;
    // ANCHOR_END: watches
    manager.add_controller(controller)
}

// ===== impl WebsiteReconciler =====

impl Reconciler for WebsiteReconciler {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(site) = client.get_opt::<Website>(&request.key).await? else {
            return Ok(Action::done());
        };
        let site = match finalizer::stage(&site, FINALIZER) {
            FinalizerStage::Missing => {
                // Before anything exists that it cleans up. An object that is being deleted gets none.
                let added = client.add_finalizer(&site, FINALIZER).await?;
                if added.object().is_being_deleted() {
                    return Ok(Action::done());
                }
                added.into_object()
            }
            FinalizerStage::Held => site,
            FinalizerStage::CleanUp => return clean_up(client, &site).await,
            FinalizerStage::Released => return Ok(Action::done()),
        };
        let progress = match serve(ctx, &site).await {
            Err(error) => Progress::Refused {
                why: refusal(error)?,
            },
            Ok(progress) => progress,
        };
        if matches!(progress, Progress::Served { .. }) {
            enter_directory(client, &site).await?;
        }
        announce(ctx, &site, &progress);
        let now = ctx.now();
        client
            .status()
            .modify(&site, |site| {
                site.status = Some(status::status(site, &progress, now))
            })
            .await?;
        Ok(match progress {
            // No watch of this controller covers the obstacle, so the site is reconciled again
            // after a pause.
            Progress::Refused { .. } => Action::requeue_after(LOOK_AGAIN),
            _ => Action::done(),
        })
    }
}

/// Records an Event if the site has come to another stage: `kubectl describe website` shows it.
fn announce(ctx: &Context, site: &Website, progress: &Progress) {
    let reason = progress.reason();
    if site.ready_condition().is_some_and(|c| c.reason == reason) {
        return;
    }
    let note = progress.message();
    match progress {
        Progress::PagesMissing { .. } | Progress::Refused { .. } => {
            ctx.events().warning(site, reason, "Serve", note);
        }
        Progress::RollingOut { .. } | Progress::Served { .. } => {
            ctx.events().normal(site, reason, "Serve", note);
        }
    }
}

// ANCHOR: refusal
/// Returns the message of an error that only a user can resolve. All other errors are returned as
/// errors.
fn refusal(error: steersman::client::Error) -> Result<String, steersman::client::Error> {
    let permanent = matches!(error, steersman::client::Error::Owner(_)) || error.is_invalid();
    if permanent {
        Ok(report(&error).to_string())
    } else {
        Err(error)
    }
}
// ANCHOR_END: refusal

/// Creates or updates the children, and returns their progress.
async fn serve(ctx: &Context, site: &Website) -> Result<Progress, steersman::client::Error> {
    let client = ctx.client();
    let key = site.key();
    let source = pages_key(site);
    let Some(source) = client.get_opt::<ConfigMap>(&source).await? else {
        // An event for the missing ConfigMap requests the site again. The served pages stay until
        // then.
        return Ok(Progress::PagesMissing {
            config_map: site.spec.pages.clone(),
        });
    };
    let pages: Pages = source.data.clone().unwrap_or_default();

    let fill = |copy: &mut ConfigMap| children::fill_config_map(&key, &pages, copy);
    let copy = client.ensure(children::served_pages_key(&key), fill);
    copy.owned_by(site).await?;

    let fill = |service: &mut Service| children::fill_service(&key, service);
    client.ensure(&key, fill).owned_by(site).await?;

    let fill = |child: &mut Deployment| children::fill_deployment(&key, site, &pages, child);
    let deployment = client.ensure(&key, fill).owned_by(site).await?;
    if let Ensured::Created(created) = &deployment {
        let event = NewEvent::normal("Created", "CreateDeployment").related(created);
        ctx.events()
            .publish(site, event.note("created the web servers"));
    }
    Ok(Progress::of(deployment.object(), site.spec.replicas))
}

async fn enter_directory(client: &Client, site: &Website) -> Result<(), Error> {
    let key = site.key();
    client
        .ensure(key.sibling(DIRECTORY), |directory: &mut ConfigMap| {
            let entries = directory.data.get_or_insert_default();
            entries.insert(key.name().to_owned(), children::address(&key, site));
        })
        .await?;
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
        let left = client
            .modify(&directory, |directory| {
                if let Some(entries) = &mut directory.data {
                    entries.remove(key.name());
                }
            })
            .await;
        ignore_gone(left.map(drop))?;
    }
    // The garbage collector would do this later, but a bare API server has none.
    delete_child::<Service>(client, site, &key).await?;
    delete_child::<Deployment>(client, site, &key).await?;
    delete_child::<ConfigMap>(client, site, &children::served_pages_key(&key)).await?;
    ignore_gone(client.remove_finalizer(site, FINALIZER).await.map(drop))?;
    Ok(Action::done())
}

async fn delete_child<K: TypedObject>(
    client: &Client,
    site: &Website,
    key: &ObjectKey,
) -> Result<(), Error> {
    match client.live().get_opt::<K>(key).await? {
        Some(child) if is_ours(site, &child) => Ok(ignore_gone(client.delete(&child).await)?),
        Some(_) | None => Ok(()),
    }
}

fn is_ours<K: TypedObject>(site: &Website, child: &K) -> bool {
    owner::controller_of(child.meta()).is_some_and(|o| o.uid == site.uid_str())
}

/// Ignores the error of a deletion if the object is gone already.
fn ignore_gone(
    result: Result<(), steersman::client::Error>,
) -> Result<(), steersman::client::Error> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

fn pages_key(site: &Website) -> ObjectKey {
    site.key().sibling(&site.spec.pages)
}
