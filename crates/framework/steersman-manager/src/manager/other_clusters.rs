//! Handle: adds clusters to a manager and removes them.

use steersman_api::ClientConfig;
use steersman_cache::CacheOptions;
use steersman_client::ClientMetrics;
use steersman_controller::{ClusterMember, ClusterName, Clusters};

use super::Manager;
use crate::cluster::{Cluster, with_metrics};
use crate::clusters::ClusterMetrics;
use crate::error::Error;

impl Manager {
    /// Returns the clusters that were added with [`add_cluster`](Self::add_cluster).
    pub fn clusters(&self) -> &Clusters {
        &self.shared.clusters.set
    }

    /// Adds a cluster besides the manager's own, also while the manager runs. Its cache starts with the other caches
    /// or, if these have started, at once; controllers that [watch each
    /// cluster](steersman_controller::Watch::in_clusters) begin to watch it. Its client has the options of the
    /// manager's client, and the metrics of its cache, client and requests have the label `cluster`.
    ///
    /// An unreachable cluster delays no other cluster (CTRL-12); [`health`](Self::health) names it.
    ///
    /// # Errors
    ///
    /// [`Error::Cluster`] if the name is taken or the cache refuses a kind that a controller watches;
    /// [`Error::CacheOptions`]; [`Error::Metrics`] if the name cannot be a label; [`Error::Stopping`].
    pub fn add_cluster(
        &self,
        name: impl Into<ClusterName>,
        client_config: ClientConfig,
        options: CacheOptions,
    ) -> Result<ClusterMember, Error> {
        let (name, added) = (name.into(), &self.shared.clusters);
        let registry = ClusterMetrics::registry_of(&name).map_err(Error::Metrics)?;
        let client_metrics = ClientMetrics::register(&registry).map_err(Error::Metrics)?;
        let client = self.shared.options.client.clone().metrics(client_metrics);
        let measured = with_metrics(&registry, client_config, options, client);
        let (client_config, options, client) = measured.map_err(Error::Metrics)?;
        let cluster = Cluster::with_client_options(client_config, options, client)?
            .measured(&registry)?
            .preflight(self.shared.cluster.preflight)
            .counting_within(self.shared.cluster.client())
            .named(name.clone());
        let added_cluster = added.add(name, cluster, registry);
        let (member, run) = added_cluster.map_err(|error| Error::Cluster(Box::new(error)))?;
        if let Err(error) = self.add(run) {
            added.remove_member(&member);
            return Err(error);
        }
        Ok(member)
    }

    /// Removes an added cluster, and waits until its cache has ended. Controllers stop watching the cluster, and
    /// waiting requests for its objects find no client. Returns false if no cluster has this name.
    ///
    /// # Cancel safety
    ///
    /// The call itself removes the cluster. Dropping the future only ends the wait for its cache.
    pub fn remove_cluster(
        &self,
        name: impl Into<ClusterName>,
    ) -> impl Future<Output = bool> + Send + 'static {
        let name = name.into();
        let removed = self.shared.clusters.remove(&name);
        async move {
            match removed {
                Some(removed) => {
                    removed.ended().await;
                    true
                }
                None => false,
            }
        }
    }
}
