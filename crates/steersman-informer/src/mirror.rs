//! Handle: one informer without a type: declare it, run it, look at it as any type.

use std::fmt;
use std::sync::Arc;

use steersman_api::{Decoded, ListWatch, Malformed, RawObject};
use steersman_object::{Kind, Object, ObjectKey, Selection};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::body::Extent;
use crate::error::Error;
use crate::observed_state::ObservedState;
use crate::options::InformerOptions;
use crate::pipeline::{self, Core};
use crate::state::State;
use crate::uncached::UncachedList;

/// An informer of a kind, whatever its objects are looked at as. Cheap to clone.
///
/// There is one for each kind and scope; typed, dynamic and metadata-only reads and subscriptions
/// are [views](Self::view) of it.
#[derive(Clone)]
#[must_use]
pub struct Mirror {
    core: Arc<Core>,
}

impl Mirror {
    /// Declares an informer of a kind. It asks for metadata until a view needs more.
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
    pub fn run<L: ListWatch>(
        &self,
        list_watch: L,
        cancel: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<L> {
        pipeline::run(Arc::clone(&self.core), list_watch, cancel)
    }

    /// Ends an informer that was never run: its subscribers' streams end, and it never runs. One that
    /// runs goes on until its `cancel` fires.
    pub fn end_unstarted(&self) {
        self.core.end_unstarted();
    }

    /// How it is doing, as regards as much of the objects as somebody needs.
    #[must_use]
    pub fn state(&self) -> State {
        self.core.state(self.core.wanted())
    }

    /// How it is doing as regards whole objects or, until somebody needs these, metadata; and a
    /// way to wait for that to change.
    #[must_use]
    pub fn state_changes(&self) -> watch::Receiver<State> {
        self.core.state_changes(self.core.wanted())
    }

    /// Whether the store has been complete at least once, with what somebody needs.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.core.has_synced(self.core.wanted())
    }

    /// How many subscribers there are, whatever they look at the objects as.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.core.subscribers()
    }

    /// A number that changes each time something was applied (events, a bookmark, a list), and when
    /// the state does: who waits for the informer to see something looks again then.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.core.applied()
    }

    /// How far the informer has come, and what it has of one object, whatever reads it.
    #[must_use]
    pub fn observed_state(&self, key: &ObjectKey) -> ObservedState {
        self.core.observed_state(key)
    }

    /// As much of the objects is asked for from now on as a `K` needs, though nobody looks at them as
    /// one yet. Once it [has synced](Self::has_synced), they can be [passed over](Self::list_uncached) as `K`s.
    pub fn need<K: Object>(&self) {
        self.core.want(Extent::of::<K>());
    }

    /// What a query selects at one version, to go over it once. Unlike a [view](Self::view) it makes
    /// nobody decode anything when objects arrive, and keeps nothing of what is read (VIEW-5).
    ///
    /// # Errors
    ///
    /// Where the query names an index: these belong to views.
    pub fn list_uncached<K: Object>(&self, query: &Selection) -> Result<UncachedList<K>, Error> {
        self.core.list_uncached(query)
    }

    /// An object that came by another way, as this informer would have it had it come by its own:
    /// transformed and decoded. It is not stored.
    ///
    /// # Errors
    ///
    /// What is known of it, where it cannot be read as a `K`.
    pub fn decode_foreign<K: Object>(
        &self,
        arrived: Decoded<RawObject>,
    ) -> Result<Arc<K>, Malformed> {
        self.core.decode_foreign(arrived)
    }

    /// Whether it mirrors the server, or tries to: it was started, and has not stopped.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !matches!(self.state(), State::Declared | State::Stopped)
    }

    /// Whether only metadata is asked for: nobody needs more yet.
    #[must_use]
    pub fn is_metadata_only(&self) -> bool {
        self.core.wanted() == Extent::Metadata
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror")
            .field("kind", self.kind())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
