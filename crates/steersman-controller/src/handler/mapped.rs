//! Machine: an event asks for what a function names.

use std::fmt;
use std::marker::PhantomData;

use steersman_informer::Event;
use steersman_object::Object;

use crate::handler::{EventHandler, Requests};
use crate::request::RequestKey;

/// Requests what a function names; see [`mapped`].
pub struct Mapped<K, F> {
    function: F,
    kind: PhantomData<fn(&K)>,
}

/// Requests what `function` names for an object, before an update as well as after it.
///
/// What it returns is converted into requests: object keys for the ordinary kind of request. It is
/// called while events are handled, so it looks things up in a store of the cache and does not wait.
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

impl<K, R, F, I> EventHandler<K, R> for Mapped<K, F>
where
    K: Object,
    R: RequestKey,
    F: Fn(&K) -> I + Send + Sync + 'static,
    I: IntoIterator<Item: Into<R>>,
{
    fn handle(&self, event: &Event<K>, requests: &mut Requests<R>) {
        // Both, so that what an object no longer refers to is told too.
        for entry in [event.old(), event.current()].into_iter().flatten() {
            for request in (self.function)(&entry.object()) {
                requests.add(request.into());
            }
        }
    }
}

impl<K, F> fmt::Debug for Mapped<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped").finish_non_exhaustive()
    }
}
