//! Handle: connection, cache and client of one api-server.

use std::convert::Infallible;
use std::future::pending;

use steersman_api::Connection;
use steersman_cache::{Cache, CacheOptions};
use steersman_client::{Client, ClientOptions};
use tracing::warn;

use crate::error::{BoxError, Error};
use crate::order::Group;
use crate::runnable::{RunContext, Runnable};

/// One api-server as a manager uses it: a connection, a cache that runs over it, and a client that reads
/// from that cache. Cheap to clone.
///
/// A manager has one of its own; another one, added with [`Manager::add`](crate::Manager::add), serves those
/// that work with two clusters.
#[derive(Clone, Debug)]
#[must_use]
pub struct Cluster {
    connection: Connection,
    cache: Cache,
    client: Client,
}

impl Cluster {
    /// Declares; no I/O happens before it runs.
    ///
    /// # Errors
    ///
    /// [`Error::CacheOptions`] where the options contradict themselves.
    pub fn new(connection: Connection, options: CacheOptions) -> Result<Self, Error> {
        Self::with_client_options(connection, options, ClientOptions::new())
    }

    /// As [`new`](Self::new), with options for the client.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_client_options(
        connection: Connection,
        cache: CacheOptions,
        client: ClientOptions,
    ) -> Result<Self, Error> {
        let cache = Cache::new(cache).map_err(Error::CacheOptions)?;
        let client = Client::with_options(cache.clone(), connection.clone(), client);
        Ok(Self {
            connection,
            cache,
            client,
        })
    }

    /// The recipe that makes connections.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads from memory.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Reads from memory, writes to the server.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl Runnable for Cluster {
    fn name(&self) -> String {
        format!("cache of {}", self.connection.endpoint())
    }

    fn group(&self) -> Group {
        Group::Caches
    }

    async fn run(self, context: RunContext) -> Result<(), BoxError> {
        let run = self.cache.run(self.connection, context.cancellation());
        let readiness = async {
            self.cache.settled().await;
            for unsynced in self.cache.all_unsynced() {
                // The others need not wait for it: who reads it is told, who watches it has a limit.
                warn!("{unsynced}");
            }
            context.ready();
            pending::<Infallible>().await
        };
        tokio::select! {
            ended = run => Ok(ended?),
            never = readiness => match never {},
        }
    }
}
