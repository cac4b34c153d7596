//! Handle: an informer of one type: declare it, run it, read its store, subscribe to its events.

use std::any::type_name;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use steersman_api::{ListWatch, Projection};
use steersman_object::{CONTROLLER_UID, Kind, OWNER_UID, Object};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::entry::RawEntry;
use crate::error::Error;
use crate::fanout::Subscription;
use crate::options::InformerOptions;
use crate::pipeline::Core;
use crate::state::InformerState;
use crate::store::{Index, IndexFn, LABELS, Store, label_values};
use crate::untyped_informer::UntypedInformer;

/// An informer: holds the objects of one kind in memory and delivers their changes to subscribers.
///
/// The objects are decoded as `K`. The informer itself knows no type, so other types may read the same objects: see
/// [`view`](Self::view). An object that does not decode as `K` is malformed for `K` only (VIEW-1).
///
/// Declaring an informer makes no request; [`run`](Self::run) does. Cheap to clone: all clones are the same informer.
///
/// A server that refuses, fails or is away causes no error: the informer repeats its requests, shows the problem in its
/// [`InformerState`], and its objects stay readable (REFL-2).
///
/// The [documentation of the crate](crate) has an example.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Informer {{ kind: {:?}, as: {:?}, state: {:?}, .. }}",
    untyped.kind(), type_name::<K>(), self.core().state(self.needs())
)]
pub struct Informer<K> {
    untyped: UntypedInformer,
    store: Store<K>,
}

impl<K: Object> Informer<K> {
    /// Declares an informer of a kind.
    ///
    /// If `K` is `PartialObjectMeta`, the informer asks for metadata only, until a view needs the whole objects.
    pub fn new(kind: Kind, options: InformerOptions) -> Self {
        UntypedInformer::new(kind, options).view()
    }

    /// Returns the same informer with the objects decoded as `V`.
    ///
    /// The stored objects are decoded before this returns, while readers and the writer go on (VIEW-7). If `V` needs
    /// whole objects and the store has only metadata, everything is listed again, and the returned informer has synced
    /// only after that list. Readers of metadata notice nothing.
    pub fn view<V: Object>(&self) -> Informer<V> {
        self.untyped.view()
    }

    /// Returns a handle of the same informer that names no Rust type.
    pub fn untyped(&self) -> &UntypedInformer {
        &self.untyped
    }

    /// Returns the kind of the objects.
    pub fn kind(&self) -> &Kind {
        self.untyped.kind()
    }

    /// Lists and watches the server until `cancel` fires. A second run of an informer ends at once and logs an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the informer as `cancel` does.
    pub fn run<L: ListWatch>(
        &self,
        list_watch: L,
        cancel: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<K, L> {
        self.untyped.run(list_watch, cancel)
    }

    /// Returns the store, from which the objects are read as `K`.
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Returns the store as [`store`](Self::store) does, by reference.
    pub fn as_store(&self) -> &Store<K> {
        &self.store
    }

    /// Subscribes, at any time. The present objects come first, then changes, without a gap or a duplicate (FAN-1).
    pub fn subscribe(&self) -> Subscription<K> {
        self.core().subscribe(self.store.handle())
    }

    /// Returns the number of subscriptions to this informer, of any Rust type.
    pub fn subscribers(&self) -> usize {
        self.core().subscribers()
    }

    /// Adds an index, at any time. The stored objects are indexed before this returns.
    ///
    /// The function must be pure, and must not call this informer. An object for which it panics is malformed for `K`.
    /// The index belongs to the view of `K`, and exists as long as an informer, store or subscription of `K`.
    ///
    /// # Errors
    ///
    /// If the view has an index of this name, or the name is empty.
    pub fn add_index<F>(&self, name: impl AsRef<str>, function: F) -> Result<(), Error>
    where
        F: Fn(&K) -> Vec<String> + Send + Sync + 'static,
    {
        let name = name.as_ref();
        self.add(Index::new(name, index_function(name, function)))
    }

    /// Indexes all labels, so that a list by labels visits only the objects that have them. Idempotent.
    pub fn index_labels(&self) {
        let index = Index::new(LABELS, Arc::new(|entry| Ok(label_values(entry))));
        // `add` refuses the empty name of this index. The call fails only if the index exists already.
        let _again = self.core().add_index(self.store.handle(), index);
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
            let uid = controller.map(|owner| owner.uid.clone());
            uid.into_iter().collect()
        })
    }

    /// Indexes the values of one label, under the name of the label. Lists by a value of the label use the index, too.
    ///
    /// # Errors
    ///
    /// As [`add_index`](Self::add_index).
    pub fn index_label(&self, label: &str) -> Result<(), Error> {
        self.add(Index::of_label(label))
    }

    fn add_head_index(
        &self,
        name: &str,
        values: fn(&RawEntry) -> Vec<String>,
    ) -> Result<(), Error> {
        self.add(Index::new(name, Arc::new(move |entry| Ok(values(entry)))))
    }

    fn add(&self, index: Index) -> Result<(), Error> {
        if index.name().is_empty() {
            let kind = self.kind().to_string();
            return Err(Error::IndexWithoutName { kind });
        }
        self.core().add_index(self.store.handle(), index)
    }

    /// Returns the state of the informer: `Synced` only if the store holds as much of each object as `K` needs.
    pub fn state(&self) -> InformerState {
        self.core().state(self.needs())
    }

    /// Returns a receiver that holds the present [`state`](Self::state) and wakes at each change.
    pub fn state_changes(&self) -> watch::Receiver<InformerState> {
        self.core().state_changes(self.needs())
    }

    /// Returns whether the store was ever complete with as much of each object as `K` needs.
    pub fn has_synced(&self) -> bool {
        self.core().has_synced(self.needs())
    }

    /// Waits until the store is complete for the first time.
    ///
    /// # Errors
    ///
    /// If the informer stops before its first list is complete.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn wait_for_sync(&self) -> Result<(), Error> {
        self.core().wait_for_sync(self.needs()).await
    }
}

impl UntypedInformer {
    /// Returns the informer with objects decoded as `K`. The decoded objects are dropped with the last handle of `K`.
    ///
    /// The stored objects are decoded before this returns.
    pub fn view<K: Object>(&self) -> Informer<K> {
        Informer {
            untyped: self.clone(),
            store: self.core().store(&self.core().view::<K>()),
        }
    }
}

impl<K> Informer<K> {
    fn needs(&self) -> Projection {
        self.store.handle().needs
    }

    fn core(&self) -> &Core {
        self.untyped.core()
    }
}

/// Wraps an index function over objects of type `K`. A panic of the function becomes an error.
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
