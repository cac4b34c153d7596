//! Handle: one informer: declare it, run it, read it, subscribe to it.

use std::fmt;
use std::sync::Arc;

use steersman_api::ListWatch;
use steersman_object::{Kind, Object};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::fanout::Subscription;
use crate::options::InformerOptions;
use crate::pipeline::{self, Core};
use crate::state::State;
use crate::store::Store;

/// Mirrors the objects of one kind in memory and tells its subscribers what happens to them.
///
/// Declaring one does nothing but remember; [`run`](Self::run) does the work. Cheap to clone: all
/// clones are the same informer.
///
/// A server that refuses, fails or is away is not an error here but a [`State`]: the informer goes
/// on trying, and what it has stays readable (`REFL-2`).
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use steersman_api::{ApiListWatch, Connection};
/// use steersman_apiserver::ApiServer;
/// use steersman_informer::{Delivery, Informer, InformerOptions};
/// use steersman_object::{Kind, ObjectKey};
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ApiServer::builder().build();
/// let connection = Connection::in_process(server.service(), "default");
/// let kind = Kind::of::<Namespace>();
///
/// let namespaces = Informer::<Namespace>::new(kind.clone(), InformerOptions::new());
/// let list_watch = ApiListWatch::new(connection.client()?, kind, None);
/// tokio::spawn(namespaces.run(list_watch, CancellationToken::new()));
///
/// let mut subscription = namespaces.subscribe();
/// while let Some(Delivery::Event(event)) = subscription.next().await {
///     println!("{}", event.key());
/// }
/// assert!(namespaces.store().get(&ObjectKey::cluster("default")).is_some());
/// # Ok(())
/// # }
/// ```
pub struct Informer<K> {
    core: Arc<Core<K>>,
}

impl<K: Object> Informer<K> {
    /// Declares an informer of a kind.
    #[must_use]
    pub fn new(kind: Kind, options: InformerOptions) -> Self {
        Self {
            core: Arc::new(Core::new(kind, options)),
        }
    }

    /// The kind of the objects.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        self.core.kind()
    }

    /// Mirrors the server until `cancel` fires. An informer runs once: a second run ends at once,
    /// with an error in the log.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the informer as `cancel` does.
    pub fn run<L>(
        &self,
        list_watch: L,
        cancel: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<K, L>
    where
        L: ListWatch<K>,
    {
        let core = Arc::clone(&self.core);
        pipeline::run(core, list_watch, cancel)
    }

    /// Reads what is held.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        self.core.store()
    }

    /// Subscribes, at any time: what is there comes first, then what happens, without a gap and
    /// without anything twice (`FAN-1`).
    pub fn subscribe(&self) -> Subscription<K> {
        self.core.subscribe()
    }

    /// How many subscribers there are.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.core.subscribers()
    }

    /// Adds an index, at any time: what is there is indexed before this returns.
    ///
    /// The function must be pure: the same object gives the same values, and nothing of this
    /// informer may be called from it. One that panics gives no value for that object.
    ///
    /// # Errors
    ///
    /// Where there is an index of this name.
    pub fn add_index<F>(&self, name: impl AsRef<str>, function: F) -> Result<(), Error>
    where
        F: Fn(&K) -> Vec<String> + Send + Sync + 'static,
    {
        self.core.add_index(name.as_ref(), Arc::new(function))
    }

    /// How it is doing.
    #[must_use]
    pub fn state(&self) -> State {
        self.core.state()
    }

    /// How it is doing, and a way to wait for that to change.
    #[must_use]
    pub fn state_changes(&self) -> watch::Receiver<State> {
        self.core.state_changes()
    }

    /// Whether the store has been complete at least once.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.core.has_synced()
    }

    /// Waits until the store is complete for the first time.
    ///
    /// # Errors
    ///
    /// Where the informer stops before that.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn wait_for_sync(&self) -> Result<(), Error> {
        self.core.wait_for_sync().await
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
        }
    }
}

impl<K: Object> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("kind", self.core.kind())
            .field("state", &self.core.state())
            .finish_non_exhaustive()
    }
}
