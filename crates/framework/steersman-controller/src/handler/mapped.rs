//! Machine: the handler that requests the keys that a function returns.

use std::marker::PhantomData;

use steersman_informer::Event;
use steersman_object::Object;

use crate::handler::target::ControllerTarget;
use crate::handler::{EventHandler, Requests};

/// Requests the keys that a function returns; see [`mapped`].
#[derive(derive_more::Debug)]
#[debug("Mapped {{ .. }}")]
pub struct Mapped<K, F> {
    function: F,
    kind: PhantomData<fn(&K)>,
}

/// Requests the keys that `function` returns for an object; for an update, for the old and for the new object.
///
/// The returned items are converted to requests, which by default are object keys. The function runs while events are
/// handled, so it must not wait. A function that reads a store of the cache finds nothing before the first sync of its
/// kind; [`indexed`](super::indexed()) and [`mapped_async`](super::mapped_async()) wait for that sync.
pub fn mapped<K, F, I>(function: F) -> Mapped<K, F>
where
    K: Object,
    F: Fn(&K) -> I + Send + Sync + 'static,
    I: IntoIterator,
{
    Mapped {
        function,
        kind: PhantomData,
    }
}

impl<K, P, F, I> EventHandler<K, P> for Mapped<K, F>
where
    K: Object,
    P: ControllerTarget,
    F: Fn(&K) -> I + Send + Sync + 'static,
    I: IntoIterator<Item: Into<P::Key>>,
{
    fn handle(&self, event: &Event<K>, requests: &mut Requests<P::Key>) {
        // The function also gets the old object, so that objects to which only the old object refers are requested.
        for entry in [event.old(), event.current()].into_iter().flatten() {
            for request in (self.function)(&entry.object()) {
                requests.add(request.into());
            }
        }
    }
}
