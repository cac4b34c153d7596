//! Machine: predicates made of closures.

use std::marker::PhantomData;

use steersman_informer::{Entry, Event};
use steersman_object::Object;

use crate::predicate::Predicate;

/// A predicate over whole events; see [`func`].
#[derive(derive_more::Debug)]
#[debug("Func {{ .. }}")]
pub struct Func<K, F> {
    function: F,
    kind: PhantomData<fn(&K)>,
}

/// A predicate over objects; see [`object`].
#[derive(derive_more::Debug)]
#[debug("OfObject {{ .. }}")]
pub struct OfObject<K, F> {
    function: F,
    kind: PhantomData<fn(&K)>,
}

/// Makes a predicate that decides about whole events. Unlike most predicates, it can refuse deletes.
pub fn func<K, F>(function: F) -> Func<K, F>
where
    K: Object,
    F: Fn(&Event<K>) -> bool + Send + Sync + 'static,
{
    Func {
        function,
        kind: PhantomData,
    }
}

/// Makes a predicate that decides about the object after a creation or update. Every delete passes.
pub fn object<K, F>(function: F) -> OfObject<K, F>
where
    K: Object,
    F: Fn(&K) -> bool + Send + Sync + 'static,
{
    OfObject {
        function,
        kind: PhantomData,
    }
}

impl<K: Object, F: Fn(&Event<K>) -> bool + Send + Sync + 'static> Predicate<K> for Func<K, F> {
    fn passes(&self, event: &Event<K>) -> bool {
        (self.function)(event)
    }
}

impl<K: Object, F: Fn(&K) -> bool + Send + Sync + 'static> Predicate<K> for OfObject<K, F> {
    fn created(&self, new: &Entry<K>) -> bool {
        (self.function)(&new.object())
    }

    fn updated(&self, _old: &Entry<K>, new: &Entry<K>) -> bool {
        (self.function)(&new.object())
    }
}
