//! Driver: what every handle of one client stands on: its cache, its connection, its options.

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::{Api, Connection, kube_client};
use steersman_cache::Cache;
use steersman_object::{Kind, TypedObject};

use crate::change::Part;
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
    transport: Mutex<Option<kube_client::Client>>,
}

impl Shared {
    pub(crate) fn new(cache: Cache, connection: Connection, options: ClientOptions) -> Self {
        let inner = Inner {
            cache,
            connection,
            transport: Mutex::new(None),
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
    pub(crate) fn api<K: TypedObject>(&self) -> Result<Api<K>, Error> {
        Ok(Api::new(self.transport()?, Kind::of::<K>()))
    }

    /// Changes an object that is there by the difference that `mutate` makes.
    pub(crate) async fn change<K: TypedObject>(
        &self,
        object: &K,
        lock: Lock,
        part: Part,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error> {
        let (api, kind) = (self.api::<K>()?, Kind::of::<K>());
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
        let (api, kind) = (self.api::<K>()?, Kind::of::<K>());
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

    fn transport(&self) -> Result<kube_client::Client, Error> {
        let mut transport = self.inner.transport.lock();
        if let Some(client) = &*transport {
            return Ok(client.clone());
        }
        let client = self.inner.connection.client()?;
        *transport = Some(client.clone());
        Ok(client)
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
