//! Machine: the handler that requests what a function names.

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
/// The items that it returns are converted into requests: for the ordinary requests they are object
/// keys. The function is called while events are handled, so it looks other objects up in a store of
/// the cache and does not wait.
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
        // The old object too, so that an object it refers to no longer is requested as well.
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
