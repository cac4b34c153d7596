//! Words: the trait of handlers, which turn an event into requests, and the list of these requests.

pub(crate) mod target;
mod itself;
mod owner;
mod mapped;
mod mapped_async;
mod indexed;
mod in_cluster;

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use steersman_cache::Cache;
use steersman_client::Client;
use steersman_informer::Event;
use steersman_object::Object;
use steersman_workqueue::AddOptions;

use crate::error::Error;
use crate::handler::target::ControllerTarget;
use crate::request::RequestKey;

pub use in_cluster::{InCluster, in_cluster};
pub use indexed::{Indexed, indexed};
pub use itself::{Itself, itself};
pub use mapped::{Mapped, mapped};
pub use mapped_async::{MappedAsync, mapped_async};
pub use owner::{Owner, owner};

/// Turns the events of one watch into requests: events of objects of kind `K` into requests of a controller of `P`. `P`
/// is [`Primary<Website>`](crate::Primary) for `Controller::builder::<Website>()`, and [`Keyed<R>`](crate::Keyed) for
/// `Controller::keyed::<R>`.
///
/// Handlers are called in the order of events. [`handle`](Self::handle) should be quick and must not wait; a handler
/// that has to wait does so in [`handle_async`](Self::handle_async). A panic loses the event: requests that the handler
/// wrote before the panic are kept, and the panic is logged, counted and shown by
/// [`ControllerStatus`](crate::ControllerStatus) (CTRL-6).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not turn events of `{K}` into requests of a controller of `{P}`",
    note = "use one of `steersman_controller::handler`: `owner()`, `itself()`, `indexed(index)`, \
            `mapped(|object: &K| …)`, or `mapped_async(…)` with an asynchronous function"
)]
pub trait EventHandler<K: Object, P: ControllerTarget>: Send + Sync + 'static {
    /// Declares what the handler reads from the manager's cache, before the watch starts; nothing by default. Not
    /// called for optional watches, for watches of a set, and for watches of other clusters.
    ///
    /// # Errors
    ///
    /// An error refuses the controller.
    fn declare(&self, cache: &Cache) -> Result<(), steersman_cache::Error> {
        let _ = cache;
        Ok(())
    }

    /// Writes the requests that `event` causes into `requests`.
    ///
    /// For an update, the objects that the old object referred to should be requested as well as those that the new
    /// object refers to. Otherwise an object that lost its reference is not reconciled.
    fn handle(&self, event: &Event<K>, requests: &mut Requests<P::Key>);

    /// Returns a future that adds requests after a wait, such as for a read. By default there is no future.
    ///
    /// The controller calls this method after [`handle`](Self::handle), and awaits the future before it takes the next
    /// event of the watch. The future adds requests to `requests`, which is empty, and returns `requests`. `client` is
    /// the client of the controller or, for a watch of another cluster, of that cluster.
    ///
    /// If a read failed because a kind has not synced, this method is called again after the first sync of the kind
    /// (CTRL-43). Any other error loses the event as a panic does, and no request of the future is kept (CTRL-6). The
    /// future is dropped when the controller stops.
    fn handle_async<'a>(
        &'a self,
        event: &Event<K>,
        client: &Client,
        requests: Requests<P::Key>,
    ) -> Option<HandlerFuture<'a, P::Key>> {
        let _ = (event, client, requests);
        None
    }
}

/// The future that [`EventHandler::handle_async`] returns: it waits, and then returns the requests of the event.
pub type HandlerFuture<'a, R> = BoxFuture<'a, Result<Requests<R>, Error>>;

/// The largest number of requests of one event that a scan searches. With more requests, a hash map is cheaper.
const SCANNED: usize = 16;

/// The requests of one event, each at most once.
///
/// By default the requests of events of the initial list and of resyncs have low priority, and the requests of deletes
/// never have.
#[derive(derive_more::Debug)]
#[debug("{:?}", added.iter().map(|(request, _)| request).collect::<Vec<_>>())]
#[debug(bound(R: std::fmt::Debug))]
pub struct Requests<R> {
    added: Vec<(R, AddOptions)>,
    /// The position of each request in `added`. Empty up to [`SCANNED`] requests, because a scan is cheaper then.
    positions: HashMap<R, usize>,
    defaults: AddOptions,
}

// === impl Requests ===

impl<R: RequestKey> Requests<R> {
    /// Makes an empty list of requests, for calling a handler in a test.
    #[must_use]
    pub fn new() -> Self {
        Self::with_defaults(AddOptions::new())
    }

    /// Makes an empty list with these [`defaults`](Self::defaults), for a handler that calls another handler.
    #[must_use]
    pub fn with_defaults(defaults: AddOptions) -> Self {
        Self {
            added: Vec::new(),
            positions: HashMap::new(),
            defaults,
        }
    }

    /// Adds a request with the [`defaults`](Self::defaults) of its event. A request that was added before keeps its
    /// position and takes the defaults.
    pub fn add(&mut self, request: R) {
        let options = self.defaults;
        self.add_with(request, options);
    }

    /// Adds a request with its own options. A request that was added before keeps its position and takes the new
    /// options.
    pub fn add_with(&mut self, request: R, options: AddOptions) {
        if let Some(position) = self.position(&request) {
            if let Some((_, present)) = self.added.get_mut(position) {
                *present = options;
            }
            return;
        }
        if self.added.len() == SCANNED {
            let present = self.added.iter().map(|(request, _)| request.clone());
            self.positions = present.zip(0..).collect();
        }
        if self.added.len() >= SCANNED {
            self.positions.insert(request.clone(), self.added.len());
        }
        self.added.push((request, options));
    }

    fn position(&self, request: &R) -> Option<usize> {
        if self.added.len() > SCANNED {
            return self.positions.get(request).copied();
        }
        self.added
            .iter()
            .position(|(present, _)| present == request)
    }

    /// Returns the options that [`add`](Self::add) uses for this event: low priority for initial lists and resyncs.
    pub fn defaults(&self) -> AddOptions {
        self.defaults
    }

    /// Returns the requests in the order of their first adds.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &R> {
        self.added.iter().map(|(request, _)| request)
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (R, AddOptions)> + '_ {
        self.positions = HashMap::new();
        self.added.drain(..)
    }
}

impl<R: RequestKey> Default for Requests<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Object, P: ControllerTarget, H: EventHandler<K, P> + ?Sized> EventHandler<K, P> for Arc<H> {
    fn declare(&self, cache: &Cache) -> Result<(), steersman_cache::Error> {
        H::declare(self, cache)
    }

    fn handle(&self, event: &Event<K>, requests: &mut Requests<P::Key>) {
        H::handle(self, event, requests);
    }

    fn handle_async<'a>(
        &'a self,
        event: &Event<K>,
        client: &Client,
        requests: Requests<P::Key>,
    ) -> Option<HandlerFuture<'a, P::Key>> {
        H::handle_async(self, event, client, requests)
    }
}

#[cfg(test)]
mod tests;
