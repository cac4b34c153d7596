//! Driver: runs one informer whose type is erased, and waits for it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use steersman_api::{ApiListWatch, kube_client};
use steersman_informer::{Informer, State};
use steersman_object::{Kind, Object};
use tokio_util::sync::CancellationToken;

use crate::advice::Advice;
use crate::erased::{Erased, OtherType};
use crate::error::Unsynced;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An informer of a kind in a namespace, as the registry holds it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Declared {
    inner: Arc<Inner>,
}

struct Inner {
    advice: Advice,
    informer: Erased,
    watched: Box<dyn Watched>,
    /// Whether somebody meant this informer to be: options, a controller, an index.
    meant: AtomicBool,
}

/// What one needs of an informer without knowing its type.
trait Watched: Send + Sync {
    fn has_synced(&self) -> bool;
    fn state(&self) -> State;
    fn changes(&self) -> tokio::sync::watch::Receiver<State>;
    fn run(&self, client: kube_client::Client, place: Place, cancel: CancellationToken) -> Task;
}

/// Where an informer looks.
struct Place {
    kind: Kind,
    namespace: Option<String>,
}

impl<K: Object> Watched for Informer<K> {
    fn has_synced(&self) -> bool {
        Self::has_synced(self)
    }

    fn state(&self) -> State {
        Self::state(self)
    }

    fn changes(&self) -> tokio::sync::watch::Receiver<State> {
        self.state_changes()
    }

    fn run(&self, client: kube_client::Client, place: Place, cancel: CancellationToken) -> Task {
        let informer = self.clone();
        let list_watch = ApiListWatch::<K>::new(client, place.kind, place.namespace);
        Box::pin(async move { informer.run(list_watch, cancel).await })
    }
}

impl Declared {
    pub(crate) fn new<K: Object>(advice: Advice, informer: Informer<K>, meant: bool) -> Self {
        let inner = Inner {
            advice,
            watched: Box::new(informer.clone()),
            informer: Erased::new::<K, _>(informer),
            meant: AtomicBool::new(meant),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        self.inner.advice.coverage.kind()
    }

    pub(crate) fn informer<K: Object>(&self) -> Result<&Informer<K>, OtherType> {
        self.inner.informer.get()
    }

    /// Notes that it was declared on purpose; answers whether it was before.
    pub(crate) fn mean(&self) -> bool {
        self.inner.meant.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_meant(&self) -> bool {
        self.inner.meant.load(Ordering::Relaxed)
    }

    /// The informer's whole life.
    pub(crate) fn run(&self, client: kube_client::Client, cancel: CancellationToken) -> Task {
        let place = Place {
            kind: self.kind().clone(),
            namespace: self.inner.advice.namespace.as_deref().map(Into::into),
        };
        self.inner.watched.run(client, place, cancel)
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.inner.watched.has_synced()
    }

    /// What is known about it while it has not synced.
    pub(crate) fn unsynced(&self) -> Unsynced {
        self.inner.advice.unsynced(&self.inner.watched.state())
    }

    /// Waits until it has synced, or has something to say about why not. True once it synced.
    ///
    /// Cancel safe.
    pub(crate) async fn settled(&self) -> bool {
        let ends = |state: &State| {
            matches!(
                state,
                State::Synced | State::Degraded { .. } | State::Stopped
            )
        };
        self.until(ends).await
    }

    /// Waits until it has synced; false when it stopped before.
    ///
    /// Cancel safe.
    pub(crate) async fn synced(&self) -> bool {
        self.until(|state| matches!(state, State::Synced | State::Stopped))
            .await
    }

    async fn until(&self, ends: impl Fn(&State) -> bool) -> bool {
        let mut changes = self.inner.watched.changes();
        loop {
            if self.has_synced() {
                return true;
            }
            let ended = ends(&changes.borrow_and_update());
            if ended || changes.changed().await.is_err() {
                return self.has_synced();
            }
        }
    }
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Declared")
            .field("kind", self.kind())
            .field("namespace", &self.inner.advice.namespace)
            .field("informer", &self.inner.informer)
            .finish_non_exhaustive()
    }
}
