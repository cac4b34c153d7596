//! Driver: what every handle of one client stands on: its cache, its connection, its options.

use std::sync::Arc;

use steersman_api::{Api, Connection, kube_client};
use steersman_cache::Cache;
use steersman_object::{Kind, TypedObject};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use crate::change::{Part, check_version, is_of_another};
use crate::ensure::{Ensured, Plan};
use crate::error::Error;
use crate::options::{ClientOptions, Lock};

/// Cheap to clone; clones share one transport.
#[derive(Clone)]
pub(crate) struct Shared {
    inner: Arc<Inner>,
    options: Arc<ClientOptions>,
}

struct Inner {
    cache: Cache,
    connection: Connection,
    transport: OnceCell<kube_client::Client>,
}

impl Shared {
    pub(crate) fn new(cache: Cache, connection: Connection, options: ClientOptions) -> Self {
        let inner = Inner {
            cache,
            connection,
            transport: OnceCell::new(),
        };
        Self {
            inner: Arc::new(inner),
            options: Arc::new(options),
        }
    }

    pub(crate) fn with_options(&self, options: ClientOptions) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            options: Arc::new(options),
        }
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.inner.connection
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// The verbs of one kind. The transport is made by the first request, in its runtime.
    pub(crate) async fn api<K: TypedObject>(&self) -> Result<Api<K>, Error> {
        Ok(Api::new(self.transport().await?, Kind::of::<K>()))
    }

    /// Replaces an object, or its status, by `object`, under the version it was read at.
    pub(crate) async fn replace<K: TypedObject>(&self, object: &K, part: Part) -> Result<K, Error> {
        let kind = Kind::of::<K>();
        check_version(&kind, object)?;
        let (api, options) = (self.api::<K>().await?, self.options.write());
        let answer = match part {
            Part::Object => api.update(object, &options).await,
            Part::Status => api.update_status(object, &options).await,
        };
        answer.map_err(|refused| match is_of_another(&refused) {
            true => Error::Replaced {
                kind,
                key: object.key(),
            },
            false => Error::Api(refused),
        })
    }

    /// Changes an object that is there by the difference that `mutate` makes.
    pub(crate) async fn change<K: TypedObject>(
        &self,
        object: &K,
        lock: Lock,
        part: Part,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error> {
        let (api, kind) = (self.api::<K>().await?, Kind::of::<K>());
        let plan = Plan {
            api: &api,
            kind: &kind,
            options: &self.options,
            lock,
            part,
        };
        Box::pin(plan.modify(object, mutate)).await
    }

    /// Creates an object, or changes the one that is there; `present` is what was read of it.
    pub(crate) async fn ensure<K: TypedObject>(
        &self,
        initial: &K,
        present: Option<Arc<K>>,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error> {
        let (api, kind) = (self.api::<K>().await?, Kind::of::<K>());
        let (lock, part) = (self.options.lock, Part::Object);
        let plan = Plan {
            api: &api,
            kind: &kind,
            options: &self.options,
            lock,
            part,
        };
        Box::pin(plan.ensure(initial, present, mutate)).await
    }

    async fn transport(&self) -> Result<kube_client::Client, Error> {
        let made = self.inner.transport.get_or_try_init(|| self.connect());
        Ok(made.await?.clone())
    }

    /// Making a client may run a credential plugin and wait for it, which is no work for a thread that other
    /// tasks need.
    async fn connect(&self) -> Result<kube_client::Client, Error> {
        let connection = self.inner.connection.clone();
        if Handle::try_current().is_err() {
            // It says what is missing.
            return Ok(connection.client()?);
        }
        let made = spawn_blocking(move || connection.client()).await;
        let failed = |error: tokio::task::JoinError| steersman_api::Error::Config {
            place: format!("the client for {}", self.inner.connection.endpoint()),
            problem: format!("it was not made to the end: {error}"),
        };
        Ok(made.map_err(failed)??)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("endpoint", &self.inner.connection.endpoint())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
