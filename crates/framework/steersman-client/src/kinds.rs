//! Words: how a client learns the kind of the objects that it reads and writes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{Cache, Reads};
use steersman_object::{Kind, Object, ObjectKey, TypedObject};

/// How a [`Client`](crate::Client) learns the kind of objects of type `K`: from the type ([`TypedKinds`]), or from a
/// [`Kind`] value ([`OneKind`]). The trait is sealed: other crates cannot implement it.
#[diagnostic::on_unimplemented(
    message = "this client does not know the kind of `{K}`",
    label = "the kind of `{K}` is unknown",
    note = "a client reads and writes any type that names its kind (`TypedObject`); for `DynamicObject` and other types \
            without a kind, name one: `client.of::<DynamicObject>(&kind)`"
)]
pub trait KindSource<K: Object>: sealed::Sealed + Clone + fmt::Debug + Send + Sync {
    /// Returns the kind that objects of type `K` are read and written as.
    fn kind_of(&self) -> Cow<'_, Kind>;

    /// Returns a handle for reads of the kind from the cache.
    #[doc(hidden)]
    fn reads(&self, cache: &Cache) -> Reads<K>;

    /// Returns the object, without waiting, if the cache holds it decoded as `K`; otherwise `None`. A [`OneKind`]
    /// always returns `None`.
    #[doc(hidden)]
    fn decoded(&self, cache: &Cache, key: &ObjectKey) -> Option<Arc<K>>;
}

/// The [`KindSource`] of a [`Client`](crate::Client) for all types that name their kind: takes the kind from the Rust
/// type.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TypedKinds;

/// The [`KindSource`] of a client for one kind that is known at runtime; all objects have the type `K`.
#[derive(Clone, derive_more::Debug)]
#[debug("OneKind({kind:?})")]
pub struct OneKind<K> {
    pub(crate) kind: Kind,
    of: PhantomData<fn() -> K>,
}

impl<K> OneKind<K> {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            of: PhantomData,
        }
    }
}

impl<K: TypedObject> KindSource<K> for TypedKinds {
    fn kind_of(&self) -> Cow<'_, Kind> {
        Cow::Owned(Kind::of::<K>())
    }

    fn reads(&self, cache: &Cache) -> Reads<K> {
        cache.typed()
    }

    fn decoded(&self, cache: &Cache, key: &ObjectKey) -> Option<Arc<K>> {
        cache.get_decoded(key)
    }
}

impl<K: Object> KindSource<K> for OneKind<K> {
    fn kind_of(&self) -> Cow<'_, Kind> {
        Cow::Borrowed(&self.kind)
    }

    fn reads(&self, cache: &Cache) -> Reads<K> {
        cache.of(&self.kind)
    }

    fn decoded(&self, _: &Cache, _: &ObjectKey) -> Option<Arc<K>> {
        None
    }
}

mod sealed {
    #[expect(unnameable_types, reason = "no other crate may implement `KindSource`")]
    pub trait Sealed {}
    impl Sealed for super::TypedKinds {}
    impl<K> Sealed for super::OneKind<K> {}
}
