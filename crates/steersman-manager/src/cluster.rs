//! Handle: connection, cache and client of one api-server.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use steersman_api::Connection;
use steersman_cache::{Begun, Cache, CacheOptions};
use steersman_client::{Client, ClientOptions};
use steersman_object::report;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::error::{BoxError, Error};
use crate::order::Group;
use crate::runnable::{RunContext, Runnable};

/// How long the first syncs of a cluster hold up the groups to come: less than until the first reminder of
/// what a group waits for.
const LONGEST_HOLD: Duration = Duration::from_secs(8);

/// One api-server as a manager uses it: a connection, a cache that runs over it, and a client that reads
/// from that cache. Cheap to clone.
///
/// A manager has one of its own; another one, added with [`Manager::add`](crate::Manager::add), serves those
/// that work with two clusters.
#[derive(Debug)]
#[must_use]
pub struct Cluster {
    connection: Connection,
    cache: Cache,
    client: Client,
    preflight: bool,
    /// Of the one that a manager is about to run.
    begun: Option<Begun>,
}

impl Clone for Cluster {
    fn clone(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            cache: self.cache.clone(),
            client: self.client.clone(),
            preflight: self.preflight,
            begun: None,
        }
    }
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
            preflight: false,
            begun: None,
        })
    }

    /// Whether the server is asked, as the cache starts, what the cache may read. What is missing is one
    /// warning with the rules to paste; it is no error, for who is granted a rule later recovers. Off by
    /// default.
    pub fn preflight(mut self, on: bool) -> Self {
        self.preflight = on;
        self
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

/// Names the kinds whose first sync the groups to come do not wait for any longer.
fn tell_of_unsettled(cache: &Cache) {
    let mut unsettled = cache.all_unsynced();
    unsettled.retain(|unsynced| unsynced.is_syncing() || unsynced.is_not_started());
    let kinds: Vec<String> = unsettled
        .iter()
        .map(|u| u.kind.qualified_plural())
        .collect();
    info!(
        kinds = kinds.join(", "),
        "the first sync of these kinds has not ended: their readers and controllers wait, all others start"
    );
}

/// Asks what the cache may read, and says what it may not.
async fn preflight(cache: &Cache, connection: &Connection) {
    match cache.preflight(connection).await {
        Ok(found) if found.is_ready() => info!("{found}"),
        Ok(found) => warn!("the cache may not read all that it is to\n{found}"),
        // The informers meet the same, and go on trying.
        Err(error) => warn!(error = %report(&error), "nobody knows what the cache may read"),
    }
}

impl Runnable for Cluster {
    fn name(&self) -> String {
        format!("cache of {}", self.connection.endpoint())
    }

    fn group(&self) -> Group {
        Group::Caches
    }

    fn says_when_ready(&self) -> bool {
        true
    }

    /// From now on reads wait for the first sync, though other groups start before the cache does.
    fn begin(&mut self) {
        // Where it ran before, `run` says so.
        self.begun = self.cache.begin().ok();
    }

    async fn run(self, context: RunContext) -> Result<(), BoxError> {
        context.shows(&self.connection.endpoint(), &self.cache);
        let begun = self.begun.map_or_else(|| self.cache.begin(), Ok)?;
        let run = begun.run(self.connection.clone(), context.cancellation());
        let asking = async {
            // Beside the start, which it does not hold up.
            if self.preflight {
                preflight(&self.cache, &self.connection).await;
            }
            pending::<Infallible>().await
        };
        let settled = async {
            // A kind that cannot sync holds nothing up: its informer has logged why, and its readers get the error.
            // A first list that hangs is not known to hang before its request times out, hence the limit (MGR-4).
            if timeout(LONGEST_HOLD, self.cache.settled()).await.is_err() {
                tell_of_unsettled(&self.cache);
            }
            context.ready();
            pending::<Infallible>().await
        };
        tokio::select! {
            ended = run => Ok(ended?),
            never = settled => match never {},
            never = asking => match never {},
        }
    }
}
