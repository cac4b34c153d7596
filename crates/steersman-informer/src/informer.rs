//! Handle: one informer: declare it, run it, read it, subscribe to it.

use std::any::type_name;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use steersman_api::ListWatch;
use steersman_object::{CONTROLLER_UID, Kind, OWNER_UID, Object};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::body::Extent;
use crate::entry::RawEntry;
use crate::error::Error;
use crate::fanout::Subscription;
use crate::mirror::Mirror;
use crate::options::InformerOptions;
use crate::pipeline::Core;
use crate::state::State;
use crate::store::{Index, IndexFn, LABELS, Store, label_values};

/// Mirrors the objects of one kind in memory and tells its subscribers what happens to them.
///
/// It looks at the objects as a `K`; how they are had knows no type, so that others may look at
/// the same ones as another: see [`view`](Self::view). An object that does not decode as `K` is
/// kept aside for those who look at it as one (`VIEW-1`), and nobody else.
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
    mirror: Mirror,
    store: Store<K>,
}

impl<K: Object> Informer<K> {
    /// Declares an informer of a kind.
    ///
    /// Where `K` is metadata alone (`PartialObjectMeta`), the server is asked for no more, until
    /// somebody looks at the objects as a type that needs the whole.
    #[must_use]
    pub fn new(kind: Kind, options: InformerOptions) -> Self {
        Mirror::new(kind, options).view()
    }

    /// The same informer, whose objects are looked at as another type.
    ///
    /// What is there is decoded before this returns; others read and change it meanwhile (`VIEW-7`). A type
    /// that needs more than is there (the
    /// whole objects, where there is only metadata) has synced once these were had; those who need
    /// only metadata see nothing of that.
    #[must_use]
    pub fn view<V: Object>(&self) -> Informer<V> {
        self.mirror.view()
    }

    /// The same informer, of no type.
    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// The kind of the objects.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        self.mirror.kind()
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
        L: ListWatch,
    {
        self.mirror.run(list_watch, cancel)
    }

    /// Reads what is held.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// As [`store`](Self::store), for those who read at once.
    #[must_use]
    pub fn as_store(&self) -> &Store<K> {
        &self.store
    }

    /// Subscribes, at any time: what is there comes first, then what happens, without a gap and
    /// without anything twice (`FAN-1`).
    pub fn subscribe(&self) -> Subscription<K> {
        self.core().subscribe(self.store.handle())
    }

    /// How many subscribers there are, whatever they look at the objects as.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.core().subscribers()
    }

    /// Adds an index, at any time: what is there is indexed before this returns.
    ///
    /// The function must be pure: the same object gives the same values, and nothing of this
    /// informer may be called from it. An object for which it panics is kept aside, as one that does
    /// not decode. The index is of those who look at the objects as `K`, and lives as long as
    /// somebody does.
    ///
    /// # Errors
    ///
    /// Where there is an index of this name, or the name is empty.
    pub fn add_index<F>(&self, name: impl AsRef<str>, function: F) -> Result<(), Error>
    where
        F: Fn(&K) -> Vec<String> + Send + Sync + 'static,
    {
        let name = name.as_ref();
        self.check_name(name)?;
        let function = index_function(name, function);
        self.core()
            .add_index(self.store.handle(), Index::new(name, function))
    }

    /// Indexes labels, so that a list under a label selector that requires some costs the size of
    /// what these find, and not that of the store. A second time changes nothing.
    pub fn index_labels(&self) {
        let function: IndexFn = Arc::new(|entry| Ok(label_values(entry)));
        // It is there already.
        let _again = self
            .core()
            .add_index(self.store.handle(), Index::new(LABELS, function));
    }

    /// Indexes the uids of the owners of an object, under [`OWNER_UID`].
    ///
    /// # Errors
    ///
    /// As [`add_index`](Self::add_index).
    pub fn index_owner_uids(&self) -> Result<(), Error> {
        self.add_head_index(OWNER_UID, |entry| {
            let owners = entry.owner_references().iter();
            owners.map(|owner| owner.uid.clone()).collect()
        })
    }

    /// Indexes the uid of the controlling owner of an object, under [`CONTROLLER_UID`].
    ///
    /// # Errors
    ///
    /// As [`add_index`](Self::add_index).
    pub fn index_controller_uid(&self) -> Result<(), Error> {
        self.add_head_index(CONTROLLER_UID, |entry| {
            let mut owners = entry.owner_references().iter();
            let controller = owners.find(|owner| owner.controller == Some(true));
            controller
                .map(|owner| owner.uid.clone())
                .into_iter()
                .collect()
        })
    }

    /// Indexes the value of one label, under the name of the label: lists under a label selector that wants
    /// a value of it look there, too.
    ///
    /// # Errors
    ///
    /// As [`add_index`](Self::add_index).
    pub fn index_label(&self, label: &str) -> Result<(), Error> {
        self.check_name(label)?;
        self.core()
            .add_index(self.store.handle(), Index::of_label(label))
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        match name.is_empty() {
            false => Ok(()),
            true => Err(Error::IndexWithoutName {
                kind: self.kind().to_string(),
            }),
        }
    }

    fn add_head_index(
        &self,
        name: &str,
        function: impl Fn(&RawEntry) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let function: IndexFn = Arc::new(move |entry| Ok(function(entry)));
        self.core()
            .add_index(self.store.handle(), Index::new(name, function))
    }

    /// How it is doing.
    #[must_use]
    pub fn state(&self) -> State {
        self.core().state(self.needs())
    }

    /// How it is doing, and a way to wait for that to change.
    #[must_use]
    pub fn state_changes(&self) -> watch::Receiver<State> {
        self.core().state_changes(self.needs())
    }

    /// Whether the store has been complete at least once.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.core().has_synced(self.needs())
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
        self.core().wait_for_sync(self.needs()).await
    }
}

impl Mirror {
    /// Its objects, looked at as a `K`. All views of one type are one, and one that nobody holds
    /// any more costs nothing.
    ///
    /// What is there is decoded before this returns.
    #[must_use]
    pub fn view<K: Object>(&self) -> Informer<K> {
        Informer {
            mirror: self.clone(),
            store: self.core().store(&self.core().view::<K>()),
        }
    }
}

impl<K> Informer<K> {
    fn needs(&self) -> Extent {
        self.store.handle().needs()
    }

    fn core(&self) -> &Core {
        self.mirror.core()
    }
}

/// An index function that knows no type any more; a panic of it is an answer.
fn index_function<K, F>(name: &str, function: F) -> IndexFn
where
    K: Object,
    F: Fn(&K) -> Vec<String> + Send + Sync + 'static,
{
    let panicked: Arc<str> = format!("the index function {name:?} panicked").into();
    Arc::new(move |entry: &RawEntry| {
        let object = entry.decode_if_room::<K>()?;
        let values = catch_unwind(AssertUnwindSafe(|| function(&object)));
        values.map_err(|_| Arc::clone(&panicked))
    })
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self {
            mirror: self.mirror.clone(),
            store: self.store.clone(),
        }
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("kind", self.mirror.kind())
            .field("as", &type_name::<K>())
            .field("state", &self.core().state(self.needs()))
            .finish_non_exhaustive()
    }
}
