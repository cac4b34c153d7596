//! Words: the options of a server.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_auth::{Authorization, User};
use steersman_registry::{Recovery, RegistryOptions, Snapshot};
#[cfg(feature = "simulator")]
use steersman_simulator::Played;

use crate::http::{Clock, Tuning};
use crate::tls::Pem;
use crate::wal::WriteAheadLog;

/// Builds an [`ApiServer`](crate::ApiServer). Nothing happens before `build`.
#[derive(Clone, derive_more::Debug)]
#[debug("ApiServerBuilder {{ registry: {registry:?}, watch_list: {}, .. }}", tuning.watch_list)]
#[must_use = "a builder does nothing until it is built"]
pub struct ApiServerBuilder {
    pub(super) registry: RegistryOptions,
    pub(super) clock: Option<Clock>,
    pub(super) starts_at: Option<Timestamp>,
    pub(super) tuning: Tuning,
    #[cfg(feature = "simulator")]
    pub(super) played: Played,
    pub(super) log_capacity: usize,
    pub(super) recovery: Option<Arc<Recovery>>,
    pub(super) wal: Option<WriteAheadLog>,
    pub(super) pem: Pem,
    pub(super) static_tokens: Vec<(String, User)>,
    pub(super) admin_token: Option<String>,
    pub(super) http2_streams: u32,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        Self {
            registry: RegistryOptions::default(),
            clock: None,
            starts_at: None,
            tuning: Tuning::default(),
            #[cfg(feature = "simulator")]
            played: Played::default(),
            log_capacity: 100_000,
            recovery: None,
            wal: None,
            pem: Pem::default(),
            static_tokens: Vec::new(),
            admin_token: None,
            http2_streams: 1000,
        }
    }
}

impl ApiServerBuilder {
    /// Sets the seed of uids and generated names: servers with the same seed generate the same ones. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.registry.seed = seed;
        self
    }

    /// Sets the wall clock for creation times, ages and the like. The default clock starts at `build` with the system's
    /// time or with [`starts_at`](Self::starts_at), and advances with tokio's clock, which tests can pause and advance.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Sets the time at which the default clock starts. Default: the system's time.
    pub fn starts_at(mut self, time: Timestamp) -> Self {
        self.starts_at = Some(time);
        self
    }

    /// Sets the authorization mode. Default [`Authorization::AlwaysAllow`]: every user may do everything, with any
    /// credential and without one. With [`Authorization::Rbac`] the server's Roles and bindings decide, as in a
    /// cluster: the server starts with the default ClusterRoles, and clients use the tokens of
    /// [`add_user`](crate::ApiServer::add_user) or of ServiceAccounts.
    pub fn authorization(mut self, authorization: Authorization) -> Self {
        self.registry.authorization = authorization;
        self
    }

    /// Sets the certificate and key of the listeners, in PEM, instead of generated ones. The server's kubeconfigs trust
    /// the certificates in `certificates`, so the authority's certificate belongs after the server's own.
    pub fn certificate(mut self, certificates: impl Into<String>, key: impl Into<String>) -> Self {
        self.pem.own = Some((certificates.into(), key.into()));
        self
    }

    /// Sets the key of the authority that signs the listeners' generated certificates, in PEM (PKCS#8). A kubeconfig
    /// also trusts other servers with this key, such as a restarted one. Default: a new key for each listener.
    pub fn authority_key(mut self, key: impl Into<String>) -> Self {
        self.pem.authority_key = Some(key.into());
        self
    }

    /// Sets the bearer token in the kubeconfigs of the listeners, which authenticates as [`User::admin`]. Default: a
    /// new token for each listener.
    pub fn admin_token(mut self, token: impl Into<String>) -> Self {
        self.admin_token = Some(token.into());
        self
    }

    /// Sets the authorities of client certificates, in PEM. The common name of a client's certificate is the user's
    /// name and its organizations are the groups, as with `--client-ca-file` of a kube-apiserver. A certificate takes
    /// precedence over a bearer token. Requests with a certificate of another authority, or an expired one, are
    /// answered 401, unless they carry a token. Default: clients are not asked for certificates.
    pub fn client_authorities(mut self, certificates: impl Into<String>) -> Self {
        self.pem.clients = Some(certificates.into());
        self
    }

    /// Accepts a bearer token of a user, as a line of `--token-auth-file` of a kube-apiserver does. The user counts as
    /// authenticated. Unlike the tokens of [`add_user`](crate::ApiServer::add_user) the token is not part of snapshots.
    /// An empty token is ignored.
    pub fn static_token(mut self, token: impl Into<String>, user: User) -> Self {
        self.static_tokens.push((token.into(), user));
        self
    }

    /// Adds an issuer of ServiceAccounts' tokens (`--service-account-issuer`). New tokens name the first issuer, and
    /// tokens of every added issuer are accepted. Default `https://kubernetes.default.svc`.
    pub fn service_account_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.registry.tokens.issuers.push(issuer.into());
        self
    }

    /// Sets the private key that signs ServiceAccounts' tokens, in PEM (`--service-account-signing-key-file`): an RSA
    /// key (RS256) or an EC key on P-256 (ES256), in PKCS#8, PKCS#1 or SEC1. Tokens that the key signed are accepted.
    ///
    /// Default: an Ed25519 key (EdDSA) that is derived from the [seed](Self::seed) and saved in
    /// snapshots, so that the same seed signs the same tokens. No kube-apiserver has such a key; its
    /// tokens are JWTs that the [key set](Self::service_account_jwks_uri) verifies.
    ///
    /// With a key that cannot be used the server does not listen ([`Error::Option`]), and in process
    /// requests for tokens fail.
    ///
    /// [`Error::Option`]: crate::Error::Option
    pub fn service_account_signing_key(mut self, pem: impl Into<String>) -> Self {
        self.registry.tokens.signing_key = Some(pem.into());
        self
    }

    /// Adds keys that verify ServiceAccounts' tokens, in PEM (`--service-account-key-file`): public keys, certificates
    /// or private keys, one or several. Tokens of the signing key are accepted in any case.
    pub fn service_account_keys(mut self, pem: impl Into<String>) -> Self {
        self.registry.tokens.keys.push(pem.into());
        self
    }

    /// Sets the URL of the key set in `/.well-known/openid-configuration`
    /// (`--service-account-jwks-uri`). Default: `/openid/v1/jwks` at the listener.
    pub fn service_account_jwks_uri(mut self, url: impl Into<String>) -> Self {
        self.registry.tokens.jwks_uri = Some(url.into());
        self
    }

    /// Sets whether tokens that a kubelet projects into Pods last a year instead of the requested
    /// 3,607 seconds (`--service-account-extend-token-expiration`). Default true.
    pub fn service_account_extend_token_expiration(mut self, extend: bool) -> Self {
        self.registry.tokens.has_exact_expiration = !extend;
        self
    }

    /// Sets the audiences of the server (`--api-audiences`). A token that is requested without audiences gets all of
    /// them, and the token of a request to the server must have one of them. Default: the issuers.
    pub fn api_audiences<A: Into<String>>(
        mut self,
        audiences: impl IntoIterator<Item = A>,
    ) -> Self {
        let audiences = audiences.into_iter().map(Into::into);
        self.registry.tokens.audiences = audiences.collect();
        self
    }

    /// Sets the network of the addresses of Services, as a CIDR (`--service-cluster-ip-range`): IPv4 or IPv6, with
    /// eight addresses or more. The Service `kubernetes` has the first address. Default `10.96.0.0/16`. With a text
    /// that is no such network the server does not listen ([`Error::Option`](crate::Error::Option)).
    pub fn service_cluster_ip_range(mut self, network: impl Into<String>) -> Self {
        self.registry.service_cluster_ip_range = Some(network.into());
        self
    }

    /// Sets the maximum number of concurrent requests of one HTTP/2 connection, watches included
    /// (`--http2-max-streams-per-connection`). Default 1,000, as in kube-apiserver.
    pub fn http2_streams(mut self, streams: u32) -> Self {
        self.http2_streams = streams;
        self
    }

    /// Sets how many past revisions watches can resume from; above it, the older half is compacted. Default 10,000.
    pub fn retained_revisions(mut self, revisions: usize) -> Self {
        self.registry.retained_revisions = revisions;
        self
    }

    /// Sets the number of bytes of JSON that past revisions may hold. Above this size the older half of the revisions
    /// is compacted, however few they are; decoded, revisions take several times this memory. Current objects do not
    /// count, and the newest change is always kept. Default 128 MiB.
    pub fn retained_bytes(mut self, bytes: usize) -> Self {
        self.registry.retained_bytes = bytes;
        self
    }

    /// Sets whether watches may ask for the initial objects (`sendInitialEvents`). If not, such watches are refused, as
    /// by a server without the WatchList feature. Default on.
    pub fn watch_list(mut self, on: bool) -> Self {
        self.tuning.watch_list = on;
        self
    }

    /// Sets whether watches are compressed for clients that send `Accept-Encoding: gzip`: each event as a gzip member
    /// of its own, as in Kubernetes from 1.37 on. Other answers longer than 128 KiB are always compressed. Default off.
    pub fn gzip_watches(mut self, on: bool) -> Self {
        self.tuning.gzip_watches = on;
        self
    }

    /// Sets which parts of a cluster are simulated, and how fast. The default is [`Played::default`]: the garbage
    /// collector and the namespace controller, and no workloads.
    #[cfg(feature = "simulator")]
    pub fn play(mut self, played: Played) -> Self {
        played.set_controllers(&mut self.registry);
        self.played = played;
        self
    }

    /// Sets whether the garbage collector, the storage version migrator, and the controllers of namespaces, aggregated
    /// ClusterRoles and ResourceQuotas are simulated, and nothing else. Default on. Without them, the dependents of a
    /// deleted owner and the content of a deleted namespace stay, as on a kube-apiserver that runs alone.
    pub fn play_controllers(mut self, on: bool) -> Self {
        #[cfg(feature = "simulator")]
        {
            self.played = Played::nothing();
        }
        let options = &mut self.registry;
        options.collect_garbage = on;
        options.end_namespaces = on;
        options.gather_roles = on;
        options.count_quotas = on;
        options.migrate_storage = on;
        options.furnish_namespaces = false;
        self
    }

    /// Sets whether StorageVersionMigrations (`storagemigration.k8s.io/v1beta1`) are served, and carried out unless no
    /// controllers are [played](Self::play_controllers). Default off. Kubernetes 1.36 does the same with
    /// `--feature-gates=StorageVersionMigrator=true` and `--runtime-config=storagemigration.k8s.io/v1beta1=true`.
    pub fn storage_migrations(mut self, on: bool) -> Self {
        self.registry.serve_storage_migrations = on;
        self
    }

    /// Sets whether a deleted CRD or namespace is removed, with its objects, before the delete is answered. Default on.
    /// Otherwise the answer shows the terminating object, and the removal follows a tenth of a second later, so that a
    /// client that deletes and then watches sees the removal, as on a kube-apiserver. The programs of this crate set
    /// this option to off.
    pub fn remove_at_once(mut self, at_once: bool) -> Self {
        self.registry.remove_at_once = at_once;
        self
    }

    /// Sets whether field owners are recorded in `metadata.managedFields`. Without them writes are
    /// cheaper, but server-side apply finds no conflicts and removes no fields. Default on.
    pub fn track_managed_fields(mut self, on: bool) -> Self {
        self.registry.track_managed_fields = on;
        self
    }

    /// Sets the interval of the bookmarks of watches that allow them. Default one minute, as upstream.
    pub fn bookmark_every(mut self, time: Duration) -> Self {
        self.tuning.bookmark_every = time;
        self
    }

    /// Sets the duration of watches without `timeoutSeconds`. Default 45 minutes (upstream chooses between 30 and 60).
    pub fn watch_timeout(mut self, time: Duration) -> Self {
        self.tuning.watch_timeout = time;
        self
    }

    /// Starts with the state of another server instead of Kubernetes' initial namespaces: uids, resource versions and
    /// managedFields are kept. Watches can resume from the snapshot's revision on; watches from earlier revisions are
    /// answered 410.
    pub fn restore(self, snapshot: Snapshot) -> Self {
        self.recover(snapshot.into())
    }

    /// Starts with the state after the last transaction of a recovery: a snapshot and the write-ahead log after it.
    /// Watches can resume from the revision of the snapshot on.
    pub fn recover(mut self, recovery: Recovery) -> Self {
        self.recovery = Some(Arc::new(recovery));
        self
    }

    /// Adds every change to a write-ahead log, which a task of the caller stores: a request is answered, and watches
    /// see its changes, when its changes are in the log. Methods of the server that write directly return before that;
    /// [`WriteAheadLog::settled`] waits for their changes. Default: no log.
    pub fn log_writes(mut self, log: &WriteAheadLog) -> Self {
        self.wal = Some(log.clone());
        self
    }

    /// Sets the maximum number of requests in the log of requests; the oldest are dropped. Default 100,000.
    pub fn log_capacity(mut self, requests: usize) -> Self {
        self.log_capacity = requests;
        self
    }
}
