//! Driver: reconciles sources: creates, corrects and deletes their copies.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use parking_lot::Mutex;
use steersman::cache::Cache;
use steersman::informer::Store;
use steersman::k8s_openapi;
use steersman::object::Object as _;
use steersman::{
    Action, ByObject, CacheOptions, Context, Controller, Error, LabelSelector, ListOptions,
    Manager, ObjectKey, Reconciler, Request, Watch, client, mapped, predicate,
};

use crate::checked::CheckedCopies;
use crate::copy::{fill, new_copy};
use crate::names::{NamespaceMeta, ROLE, SOURCE, SecretMeta, is_source, source_of};
use crate::plan::{Plan, is_target, plan};

/// The index of copies by the namespace and name of their source.
const BY_SOURCE: &str = "source";

/// The pause before a namespace with a Secret in the way is tried again. That Secret has no label, so the cache does
/// not hold it, and no event says that it is gone.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Reconciles each source into copies. A request names a source, which may be gone.
#[derive(Debug, Default)]
pub struct Replicator {
    checked: Mutex<CheckedCopies>,
}

/// What became of the copy for one namespace.
enum Written {
    /// The copy has the data of the source.
    Done,
    /// A Secret of another owner has the name.
    Occupied,
}

// ANCHOR: cache
/// Returns the options of the cache: the metadata of sources and copies, and no other Secret.
pub fn cache(options: CacheOptions) -> CacheOptions {
    options.by_object::<SecretMeta>(ByObject::new().labels(ROLE))
}
// ANCHOR_END: cache

/// Declares the controller: its index and its watches.
///
/// # Errors
///
/// An error if the manager's cache excludes one of the kinds, or the manager already has a controller of this name.
pub fn declare(manager: &Manager) -> Result<(), steersman::manager::Error> {
    let cache = manager.cache();
    cache.index_field::<SecretMeta>(BY_SOURCE, |secret| source_of(secret).map(str::to_owned))?;
    let informers = cache.informers::<SecretMeta>()?;
    let stores: Vec<_> = informers.iter().map(|informer| informer.store()).collect();
    // A namespace that is created, or begins to accept copies, concerns the sources that name it.
    let sources_for = move |namespace: &NamespaceMeta| -> Vec<ObjectKey> {
        let secrets = stores.iter().flat_map(Store::list);
        let sources =
            secrets.filter(|secret| is_source(secret.as_ref()) && is_target(secret, namespace));
        sources.map(|source| source.key()).collect()
    };
    // ANCHOR: watches
    // A change of a copy concerns its source.
    let source_key = |secret: &SecretMeta| -> Option<ObjectKey> { source_of(secret)?.parse().ok() };
    let controller = Controller::builder::<SecretMeta>()
        .name("secret-replicator")
        .with_predicates(predicate::labelled(LabelSelector::label(ROLE, SOURCE)))
        .watches::<SecretMeta>(mapped(source_key))
        .watch(Watch::of::<NamespaceMeta>(mapped(sources_for)).filter(predicate::labels_changed()))
        .build(Replicator::default())?;
    // ANCHOR_END: watches
    manager.add_controller(controller)
}

// ===== impl Replicator =====

impl Reconciler for Replicator {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let source = client.get_opt::<SecretMeta>(&request.key).await?;
        let source = source.filter(|secret| is_source(secret.as_ref()));
        let namespaces = client.list::<NamespaceMeta>(&ListOptions::new()).await?;
        let of_source = ListOptions::new().index(BY_SOURCE, request.key.to_string());
        let copies = client.list::<SecretMeta>(&of_source).await?;
        let Plan {
            missing,
            wanted,
            surplus,
        } = plan(source.as_deref(), &namespaces, copies);

        for copy in &surplus {
            self.delete(ctx, copy).await?;
        }
        let Some(meta) = source else {
            return Ok(Action::done());
        };
        let unchecked = wanted.iter().filter(|copy| {
            let checked = self.checked.lock();
            !checked.has(Arc::as_ref(copy), Arc::as_ref(&meta))
        });
        let unchecked = unchecked.filter_map(|copy| copy.metadata.namespace.clone());
        let targets: Vec<String> = missing.into_iter().chain(unchecked).collect();
        if targets.is_empty() {
            return Ok(Action::done());
        }
        // The cache has no data: one read of the source, and one of each copy that may be wrong.
        let Some(source) = client.live().get_opt::<Secret>(&request.key).await? else {
            // Its deletion is on its way to the cache, and requests the source again.
            return Ok(Action::done());
        };
        let mut is_occupied = false;
        for namespace in targets {
            match self.write(ctx, &source, &namespace).await? {
                Written::Done => {}
                Written::Occupied => is_occupied = true,
            }
        }
        self.sweep(client.cache());
        Ok(match is_occupied {
            true => Action::requeue_after(LOOK_AGAIN),
            false => Action::done(),
        })
    }
}

impl Replicator {
    /// Creates the copy for one namespace, or corrects it.
    async fn write(
        &self,
        ctx: &Context,
        source: &Secret,
        namespace: &str,
    ) -> Result<Written, client::Error> {
        let client = ctx.client();
        let source_key = source.key();
        let key = ObjectKey::namespaced(namespace, source_key.name());
        let own = source_key.to_string();
        let present = match client.live().get_opt::<Secret>(&key).await? {
            Some(other) if source_of(&other) != Some(own.as_str()) => {
                return Ok(Written::Occupied);
            }
            // A Secret keeps its type until it is deleted.
            Some(copy) if copy.type_ != source.type_ => {
                client.delete(&copy).await?;
                None
            }
            present => present,
        };
        let written = match present {
            Some(before) => {
                let mut after = before.clone();
                fill(&mut after, source);
                let merged = client.merge(&before, &after).await?;
                self.checked.lock().insert(merged.object(), source);
                merged.is_changed().then_some("corrected")
            }
            None => match client.create(&new_copy(source, namespace)).await {
                // The namespace does not accept it any more.
                Err(error) if error.is_namespace_terminating() => None,
                created => {
                    self.checked.lock().insert(&created?, source);
                    Some("created")
                }
            },
        };
        if let Some(written) = written {
            let note = format_args!("{written} the copy in {namespace}");
            ctx.events().normal(source, "Replicated", "Copy", note);
        }
        Ok(Written::Done)
    }

    /// Forgets the checked copies that the cache does not hold, now and then. A copy that the cache has not seen yet is
    /// read once more.
    fn sweep(&self, cache: &Cache) {
        let Ok(informers) = cache.informers::<SecretMeta>() else {
            return;
        };
        let exists = |copy: &ObjectKey| {
            let mut stores = informers.iter().map(|informer| informer.as_store());
            stores.any(|store| store.entry(copy).is_some())
        };
        self.checked.lock().sweep(exists);
    }

    /// Deletes a copy, at most the one that was seen.
    async fn delete(&self, ctx: &Context, copy: &SecretMeta) -> Result<(), client::Error> {
        self.checked.lock().remove(&copy.key());
        match ctx.client().delete(copy).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
