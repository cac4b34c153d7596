//! Words: the types that say whether a controller's requests name objects of a primary kind or are of the program's own
//! type.

use std::marker::PhantomData;
use std::sync::Arc;

use steersman_object::{ObjectKey, TypedObject};

use crate::predicate::{Everything, Predicate};
use crate::reconcile::pause::PauseRule;
use crate::request::{Request, RequestKey};

/// The type parameter of a [`ControllerBuilder`](crate::ControllerBuilder): [`Primary`] for requests about objects of
/// one kind, or [`Keyed`] for requests of the program's own type.
///
/// The trait is sealed: other crates cannot implement it.
pub trait ControllerTarget: sealed::Sealed + 'static {
    /// The type of the controller's requests.
    type Key: RequestKey;
}

/// A [`ControllerTarget`] with requests for objects of kind `K`.
///
/// The trait is sealed: other crates cannot implement it.
#[diagnostic::on_unimplemented(
    message = "a controller of `{Self}` takes no requests for objects of `{K}`",
    note = "`owner()` and `indexed(…)` request objects of the primary kind of `Controller::builder`; for another \
            kind use `Controller::keyed`"
)]
pub trait TargetOf<K>: ControllerTarget<Key: From<ObjectKey>> {}

/// The type parameter of a [`ControllerBuilder`](crate::ControllerBuilder) for requests about objects of the primary
/// kind `K`.
#[derive(derive_more::Debug)]
#[debug("Primary {{ .. }}")]
pub struct Primary<K: TypedObject> {
    pub(crate) predicate: Arc<dyn Predicate<K>>,
    pub(crate) sole_status_writer: bool,
    pub(crate) pause: PauseRule<K>,
}

/// The type parameter of a [`ControllerBuilder`](crate::ControllerBuilder) for requests of type `R`, without a primary
/// kind.
#[derive(derive_more::Debug)]
#[debug("Keyed {{ .. }}")]
pub struct Keyed<R> {
    pub(crate) requests: PhantomData<fn(R)>,
}

mod sealed {
    #[expect(
        unnameable_types,
        reason = "so that no other crate can implement `ControllerTarget`"
    )]
    pub trait Sealed {}
}

impl<K: TypedObject> Primary<K> {
    pub(crate) fn new() -> Self {
        Self {
            predicate: Arc::new(Everything),
            sole_status_writer: false,
            pause: PauseRule::never(),
        }
    }
}

impl<K: TypedObject> ControllerTarget for Primary<K> {
    type Key = Request;
}

impl<R: RequestKey> ControllerTarget for Keyed<R> {
    type Key = R;
}

impl<K: TypedObject> TargetOf<K> for Primary<K> {}

impl<K, R: RequestKey + From<ObjectKey>> TargetOf<K> for Keyed<R> {}

impl<K: TypedObject> sealed::Sealed for Primary<K> {}

impl<R: RequestKey> sealed::Sealed for Keyed<R> {}
