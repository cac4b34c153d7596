//! Handle: the methods of a builder that watch kinds that are known only at run time.

use kube_core::{DynamicObject, PartialObjectMeta};
use steersman_object::{Kind, Object, TypedObject};

use super::{ControllerBuilder, Primary, Subject};
use crate::handler::{EventHandler, owner};
use crate::predicate::{Everything, Predicate};
use crate::watch::Watch;
use crate::watch::optional::OptionalWatch;

impl<K: TypedObject> ControllerBuilder<Primary<K>> {
    /// Watches the objects of a kind that is known only at run time and that objects of the primary kind
    /// control, like [`owns`](Self::owns).
    ///
    /// The watch needs the metadata of the objects alone; as long as no other reader needs whole objects, the
    /// server sends only metadata. [`watches_kind_with`](Self::watches_kind_with) and
    /// [`handler::owner`](crate::handler::owner()) give a predicate whole objects.
    pub fn owns_kind(mut self, kind: Kind) -> Self {
        self.owned.push(kind.clone());
        let handler = owner::<K>().controller_only();
        self.watches_kind::<PartialObjectMeta<DynamicObject>>(kind, handler)
    }
}

impl<P: Subject> ControllerBuilder<P> {
    /// Watches a kind that is known only at run time; `handler` names the requests that an event causes.
    ///
    /// Objects are read as `W`s: `DynamicObject` for whole objects, `PartialObjectMeta<DynamicObject>` for
    /// metadata, or a type that several kinds decode to. A [`Kind`] comes from its parts, or from
    /// [`Client::mapper`](steersman_client::Client::mapper), which asks the server for the plural and the
    /// scope. Everything else is as in [`watches`](Self::watches).
    ///
    /// ```
    /// use kube_core::DynamicObject;
    /// use steersman_controller::{Controller, Request, handler};
    /// use steersman_object::{Gvk, Kind, Scope};
    ///
    /// let gvk = Gvk::new("web.example.com", "v1", "Website");
    /// let websites = Kind::new(gvk, "websites", Scope::Namespaced);
    /// let controller = Controller::keyed::<Request>("websites")
    ///     .watches_kind::<DynamicObject>(websites, handler::itself());
    /// # let _ = controller;
    /// ```
    pub fn watches_kind<W: Object>(
        self,
        kind: Kind,
        handler: impl EventHandler<W, P::Key>,
    ) -> Self {
        self.watches_kind_with::<W>(kind, handler, Everything)
    }

    /// Watches like [`watches_kind`](Self::watches_kind), but only events that `predicate` lets pass.
    pub fn watches_kind_with<W: Object>(
        mut self,
        kind: Kind,
        handler: impl EventHandler<W, P::Key>,
        predicate: impl Predicate<W>,
    ) -> Self {
        let watch = Watch::<W, P::Key>::of(kind, Box::new(predicate), handler);
        self.watches.push(Box::new(watch));
        self
    }

    /// Watches like [`watches_kind`](Self::watches_kind), whenever the server serves the kind; see
    /// [`watches_optional`](Self::watches_optional).
    pub fn watches_kind_optional<W: Object>(
        mut self,
        kind: Kind,
        handler: impl EventHandler<W, P::Key>,
    ) -> Self {
        let watch = Watch::<W, P::Key>::of(kind, Box::new(Everything), handler);
        self.sources.push(Box::new(OptionalWatch::new(watch)));
        self
    }
}
