//! Handle: the set of clusters that controllers watch besides the cluster of their manager.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::{self, Stream};
use parking_lot::Mutex;
use steersman_cache::{Cache, Error};
use steersman_client::Client;
use steersman_object::Kind;
use tokio::sync::watch::{Receiver, Sender};
use tokio_util::sync::CancellationToken;

use crate::error::ControllerError;
use crate::request::ClusterName;

/// The clusters of a manager besides its own. Clusters can be added and removed while controllers run.
///
/// Cheap to clone; all clones are one set. A manager owns one set, and changes it with `add_cluster` and
/// `remove_cluster`.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("{:?}", shared.members.borrow().keys().collect::<BTreeSet<_>>())]
pub struct Clusters {
    shared: Arc<ClustersShared>,
}

/// A cluster of a manager besides its own: its name, cache and client. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClusterMember {
    /// The id of the cluster, never reused: it distinguishes the cluster from a removed cluster of the same name.
    pub(crate) id: u64,
    name: ClusterName,
    cache: Cache,
    client: Client,
    pub(crate) removed: CancellationToken,
}

#[derive(Default)]
struct ClustersShared {
    /// The kinds that controllers watch in each cluster: [`Clusters::add`] declares them in the cache of a new cluster.
    declarations: Mutex<Vec<Declaration>>,
    members: Sender<ClusterMembers>,
    /// The id of the newest cluster. Ids grow in the order of the adds, so a higher id marks a cluster added later.
    last_id: AtomicU64,
}

/// The state of the stream of [`Clusters::added`]. The stream returns the clusters with ids greater than `last_id`, in
/// the order of their ids.
struct Added {
    members: Receiver<ClusterMembers>,
    last_id: u64,
    /// Keeps the sender of `members` alive, so that the stream never ends.
    _clusters: Clusters,
}

type ClusterMembers = Arc<BTreeMap<ClusterName, ClusterMember>>;

type Declare = dyn Fn(&Cache) -> Result<(), Error> + Send + Sync;

#[derive(Clone)]
pub(crate) struct Declaration {
    pub(crate) kind: Kind,
    pub(crate) declare: Arc<Declare>,
}

impl Clusters {
    /// Makes an empty set of clusters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a cluster: declares in its cache the kinds that controllers watch in each cluster, and makes running
    /// controllers watch the cluster. The caller runs the cache.
    ///
    /// # Errors
    ///
    /// [`ControllerError::DuplicateCluster`] if a cluster has the name, or if the name is
    /// [`local`](ClusterName::local); [`ControllerError::EmptyClusterName`]; [`ControllerError::WatchInCluster`] if the
    /// cache refuses a kind.
    pub fn add(
        &self,
        name: impl Into<ClusterName>,
        cache: Cache,
        client: Client,
    ) -> Result<ClusterMember, ControllerError> {
        let name = name.into();
        if name.as_str().trim().is_empty() {
            return Err(ControllerError::EmptyClusterName);
        }
        // The lock is held until the cluster is in the set. A controller that declares its kinds meanwhile waits for
        // the lock and then finds the new cluster, so the cluster misses no declaration.
        let declarations = self.shared.declarations.lock();
        let present = self.shared.members.borrow().contains_key(&name);
        if present || name == ClusterName::local() {
            return Err(ControllerError::DuplicateCluster { cluster: name });
        }
        for declaration in &*declarations {
            let declared = (declaration.declare)(&cache);
            declared.map_err(|source| declaration.refused(&name, source))?;
        }
        let id = self.shared.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let member = ClusterMember {
            id,
            name: name.clone(),
            cache,
            client,
            removed: CancellationToken::new(),
        };
        self.shared.members.send_modify(|members| {
            Arc::make_mut(members).insert(name, member.clone());
        });
        drop(declarations);
        Ok(member)
    }

    /// Removes a cluster: controllers stop watching it, and its [token](ClusterMember::removed) is cancelled. Requests
    /// for its objects that are in the queue still run, but [`Context::client_in`](crate::Context::client_in) returns
    /// no client for them. Returns `None` if no cluster has this name.
    pub fn remove(&self, name: &ClusterName) -> Option<ClusterMember> {
        let mut removed = None;
        self.shared.members.send_if_modified(|members| {
            if members.contains_key(name) {
                removed = Arc::make_mut(members).remove(name);
            }
            removed.is_some()
        });
        if let Some(member) = &removed {
            member.removed.cancel();
        }
        removed
    }

    /// Returns the cluster with this name; `None` if no cluster of the set has the name.
    pub fn get(&self, name: &ClusterName) -> Option<ClusterMember> {
        self.shared.members.borrow().get(name).cloned()
    }

    /// Returns all clusters of the set, ordered by name.
    pub fn list(&self) -> Vec<ClusterMember> {
        let members = self.shared.members.borrow();
        members.values().cloned().collect()
    }

    /// Returns a stream of the present clusters and then of each cluster that is added, in the order of the adds. A
    /// cluster that is removed before it is taken from the stream is left out. The stream never ends.
    ///
    /// A controller that copies objects to every cluster passes this stream to
    /// [`Watch::requests`](crate::Watch::requests), because an empty cluster causes no event.
    pub fn added(&self) -> impl Stream<Item = ClusterMember> + Send + use<> {
        let added = Added {
            members: self.shared.members.subscribe(),
            last_id: 0,
            _clusters: self.clone(),
        };
        stream::unfold(added, |mut added| async move {
            let member = added.next().await?;
            Some((member, added))
        })
    }

    /// Declares kinds in the cache of every present cluster and, unless one of these caches refuses a kind, of every
    /// cluster that is added later.
    pub(crate) fn declare(&self, kinds: Vec<Declaration>) -> Result<(), ControllerError> {
        let mut declarations = self.shared.declarations.lock();
        for member in self.list() {
            for declaration in &kinds {
                let declared = (declaration.declare)(member.cache());
                declared.map_err(|source| declaration.refused(member.name(), source))?;
            }
        }
        declarations.extend(kinds);
        Ok(())
    }
}

impl Added {
    /// Waits for the next cluster that the stream has not returned yet. Cancel safe.
    async fn next(&mut self) -> Option<ClusterMember> {
        loop {
            let next = {
                let members = self.members.borrow_and_update();
                let later = members.values().filter(|member| member.id > self.last_id);
                later.min_by_key(|member| member.id).cloned()
            };
            if let Some(member) = next {
                self.last_id = member.id;
                return Some(member);
            }
            self.members.changed().await.ok()?;
        }
    }
}

impl Declaration {
    fn refused(&self, cluster: &ClusterName, source: Error) -> ControllerError {
        ControllerError::WatchInCluster {
            cluster: cluster.clone(),
            kind: self.kind.clone(),
            source,
        }
    }
}

// === impl ClusterMember ===

impl ClusterMember {
    /// Returns the name of the cluster, unique among the clusters of a manager.
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// Returns the cache of the cluster's objects.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the client of the cluster. A reconciler should use [`Context::client_in`](crate::Context::client_in)
    /// instead: that client sees the earlier writes of the request that is reconciled.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a token that is cancelled when the cluster is removed. Cancelling the token does not remove the cluster.
    pub fn removed(&self) -> CancellationToken {
        self.removed.child_token()
    }

    /// Returns whether both handles are of one cluster. A cluster that was removed and added again counts as another
    /// cluster.
    pub fn is_same(&self, other: &Self) -> bool {
        self.id == other.id && self.cache.is_same(&other.cache)
    }
}
