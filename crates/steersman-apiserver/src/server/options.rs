//! Words: how a server is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
#[cfg(feature = "player")]
use steersman_player::Played;
use steersman_registry::auth::Authorization;
use steersman_registry::{RegistryOptions, Snapshot};

use crate::http::Clock;
use crate::tls::Pem;

/// Sets up an [`ApiServer`](crate::ApiServer). Nothing is done before `build`.
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct ApiServerBuilder {
    pub(super) registry: RegistryOptions,
    pub(super) clock: Option<Clock>,
    pub(super) starts_at: Option<Timestamp>,
    pub(super) watch_list: bool,
    pub(super) gzip_watches: bool,
    #[cfg(feature = "player")]
    pub(super) played: Played,
    pub(super) bookmark_every: Duration,
    pub(super) watch_timeout: Duration,
    pub(super) log_capacity: usize,
    pub(super) snapshot: Option<Arc<Snapshot>>,
    pub(super) pem: Pem,
    pub(super) http2_streams: u32,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        Self {
            registry: RegistryOptions::default(),
            clock: None,
            starts_at: None,
            watch_list: true,
            gzip_watches: false,
            #[cfg(feature = "player")]
            played: Played::default(),
            bookmark_every: Duration::from_secs(60),
            watch_timeout: Duration::from_secs(45 * 60),
            log_capacity: 100_000,
            snapshot: None,
            pem: Pem::default(),
            http2_streams: 1000,
        }
    }
}

impl ApiServerBuilder {
    /// Seed of uids and generated names: the same seed gives the same ones. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.registry.seed = seed;
        self
    }

    /// The wall clock: creation times, ages and the like. The default counts on with tokio's clock,
    /// which tests can pause and advance, from the moment of `build` or from
    /// [`starts_at`](Self::starts_at).
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// The time at which the default clock begins. Default: the system's time.
    pub fn starts_at(mut self, time: Timestamp) -> Self {
        self.starts_at = Some(time);
        self
    }

    /// Who decides what a user may do. Default [`Authorization::AlwaysAllow`]: everybody may do
    /// everything, with any credential and with none. With [`Authorization::Rbac`] the Roles and
    /// bindings of the server decide, as in a cluster; the server begins with the ClusterRoles of a
    /// cluster, and clients show the tokens of [`add_user`](crate::ApiServer::add_user) or of
    /// ServiceAccounts.
    pub fn authorization(mut self, authorization: Authorization) -> Self {
        self.registry.authorization = authorization;
        self
    }

    /// The certificate and key of its listeners, in PEM, instead of ones that it makes for itself.
    /// Its kubeconfigs trust what is in `certificates`, so the authority's certificate belongs
    /// behind the server's own.
    pub fn certificate(mut self, certificates: impl Into<String>, key: impl Into<String>) -> Self {
        self.pem.own = Some((certificates.into(), key.into()));
        self
    }

    /// Certificates in PEM of the authorities that vouch for clients. Such a client is the user whom
    /// its certificate's common name says, in the groups that its organizations say, as
    /// `--client-ca-file` of a kube-apiserver has it; a bearer token counts for more. Any other
    /// certificate ends the handshake. Default: no client is asked for one.
    pub fn client_authorities(mut self, certificates: impl Into<String>) -> Self {
        self.pem.clients = Some(certificates.into());
        self
    }

    /// The number of requests that one HTTP/2 connection may carry at once, watches included
    /// (`--http2-max-streams-per-connection`). Default 1,000, as in kube-apiserver.
    pub fn http2_streams(mut self, streams: u32) -> Self {
        self.http2_streams = streams;
        self
    }

    /// How many past revisions watches can resume from before the oldest half is compacted away.
    /// Default 10,000.
    pub fn retained_revisions(mut self, revisions: usize) -> Self {
        self.registry.retained_revisions = revisions;
        self
    }

    /// How many bytes of JSON past revisions may hold before the oldest half is compacted away,
    /// however few they are; in memory, decoded, they take several times that. The objects as they
    /// are now do not count, and the newest change is always kept. Default 128 MiB.
    pub fn retained_bytes(mut self, bytes: usize) -> Self {
        self.registry.retained_bytes = bytes;
        self
    }

    /// Whether watches may ask for the initial objects (`sendInitialEvents`); where not, they are
    /// refused as by a server without the WatchList feature. Default on.
    pub fn watch_list(mut self, on: bool) -> Self {
        self.watch_list = on;
        self
    }

    /// Whether watches are compressed for clients that send `Accept-Encoding: gzip`: each event as a
    /// gzip member of its own, as Kubernetes does from 1.37 on. Other answers longer than 128 KiB
    /// always are. Default off.
    pub fn gzip_watches(mut self, on: bool) -> Self {
        self.gzip_watches = on;
        self
    }

    /// Sets which parts of a cluster are played, and how fast. Default: [`Played::default`], which is the
    /// garbage collector and the controllers of namespaces, aggregated ClusterRoles and ResourceQuotas,
    /// without workloads.
    #[cfg(feature = "player")]
    pub fn play(mut self, played: Played) -> Self {
        played.set_controllers(&mut self.registry);
        self.played = played;
        self
    }

    /// Sets whether the garbage collector and the controllers of namespaces, aggregated ClusterRoles and
    /// ResourceQuotas are played; nothing else is. Default on. Without them, the dependents of a deleted
    /// owner and the content of a deleted namespace stay, as on a kube-apiserver that runs alone.
    pub fn play_controllers(mut self, on: bool) -> Self {
        #[cfg(feature = "player")]
        {
            self.played = Played::nothing();
        }
        let options = &mut self.registry;
        options.collect_garbage = on;
        options.end_namespaces = on;
        options.gather_roles = on;
        options.count_quotas = on;
        options.furnish_namespaces = false;
        self
    }

    /// Whether it is noted in `metadata.managedFields` who owns which field. Where not, writes are
    /// cheaper, and server-side apply finds no conflicts and removes nothing. Default on.
    pub fn track_managed_fields(mut self, on: bool) -> Self {
        self.registry.track_managed_fields = on;
        self
    }

    /// Time between the bookmarks of a watch that allows them. Default one minute, as upstream.
    pub fn bookmark_every(mut self, time: Duration) -> Self {
        self.bookmark_every = time;
        self
    }

    /// How long a watch lasts that sets no `timeoutSeconds`. Default 45 minutes (upstream chooses
    /// between 30 and 60).
    pub fn watch_timeout(mut self, time: Duration) -> Self {
        self.watch_timeout = time;
        self
    }

    /// Begins with what another server held, instead of with Kubernetes' first namespaces: uids,
    /// resource versions and managedFields are as they were. Watches resume from the snapshot's
    /// revision; from before it they are answered 410.
    pub fn restore(mut self, snapshot: Snapshot) -> Self {
        self.snapshot = Some(Arc::new(snapshot));
        self
    }

    /// How many requests the log remembers. Default 100,000.
    pub fn log_capacity(mut self, requests: usize) -> Self {
        self.log_capacity = requests;
        self
    }
}

impl fmt::Debug for ApiServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServerBuilder")
            .field("registry", &self.registry)
            .field("watch_list", &self.watch_list)
            .finish_non_exhaustive()
    }
}
