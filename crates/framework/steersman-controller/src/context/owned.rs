//! Handle: the methods of [`Context`] that read the objects that the object of a request controls.

use std::sync::Arc;

use steersman_client::owner::controller_of;
use steersman_object::{CONTROLLER_UID, Kind, ListOptions, ObjectKey, TypedObject};

use super::Context;
use super::declared::{DeclaredKinds, PrimaryKind};
use crate::error::{ControllerError, Error};
use crate::request::Request;

impl Context {
    /// Returns the objects of kind `C` that the object of this request controls, from the cache, in any order.
    ///
    /// CTRL-31: the owner is known by its uid, so objects of a deleted predecessor with the same name, which the
    /// garbage collector is about to delete, are not returned. The list is empty if the object of the request does not
    /// exist. The read sees the earlier writes of this request, as reads with [`client`](Self::client) do. The first
    /// call for a kind adds the index of controlling owners, as
    /// [`Cache::index_controller_uid`](steersman_cache::Cache::index_controller_uid) does.
    ///
    /// # Errors
    ///
    /// [`ControllerError::NotOwned`] if the controller does not declare the kind with
    /// [`owns`](crate::ControllerBuilder::owns), so that no event of these objects would ever request their owner.
    /// [`ControllerError::NoOwner`] if the requests of the controller do not stand for objects of a primary kind.
    /// Otherwise the errors of [`Client::list`](steersman_client::Client::list).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use steersman_controller::{Action, Context, Error, Request};
    /// async fn reconcile(ctx: &Context, _: Request) -> Result<Action, Error> {
    ///     let pods = ctx.owned::<Pod>().await?;
    ///     println!("{} Pods", pods.len());
    ///     Ok(Action::done())
    /// }
    /// ```
    pub async fn owned<C: TypedObject>(&self) -> Result<Vec<Arc<C>>, Error> {
        let (primary, key) = self.owner_of::<C>()?;
        let Some(uid) = primary.uid_of(self.client(), key).await? else {
            return Ok(Vec::new());
        };
        for informer in self.client().cache().informers::<C>()? {
            if !informer.as_store().has_index(CONTROLLER_UID) {
                // The index may exist already, because another caller has added it after the check above, so the result
                // is ignored.
                let _exists = informer.index_controller_uid();
            }
        }
        let list_options = ListOptions::new().controlled_by(uid);
        Ok(self.client().list::<C>(&list_options).await?)
    }

    /// Returns the object of kind `C` with this name from the cache, if the object of this request controls it. A
    /// namespaced object is looked up in the namespace of the request.
    ///
    /// Returns `None` if no object has the name, or if the object of the request does not control the object.
    ///
    /// # Errors
    ///
    /// The errors of [`owned`](Self::owned).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn owned_named<C: TypedObject>(&self, name: &str) -> Result<Option<Arc<C>>, Error> {
        let (primary, key) = self.owner_of::<C>()?;
        let child = match key.namespace() {
            Some(namespace) if Kind::of::<C>().is_namespaced() => {
                ObjectKey::namespaced(namespace, name)
            }
            _ => ObjectKey::cluster_scoped(name),
        };
        let Some(object) = self.client().get_opt::<C>(&child).await? else {
            return Ok(None);
        };
        let uid = primary.uid_of(self.client(), key).await?;
        // CTRL-31: the uid identifies the owner, because a predecessor of the owner has the same name.
        let controller = controller_of(object.meta()).map(|controller| &controller.uid);
        let is_controlled = uid.is_some() && uid.as_ref() == controller;
        Ok(is_controlled.then_some(object))
    }

    /// Makes this the context of a request for an object of kind `K`, for calling a reconciler in a test:
    /// [`owned`](Self::owned) then reads every kind, declared or not.
    #[must_use]
    pub fn for_request<K: TypedObject>(mut self, request: &Request) -> Self {
        self.begin(request, self.run.clone());
        self.declare(DeclaredKinds {
            primary: Some(PrimaryKind::of::<K>()),
            owned: None,
        });
        self
    }

    fn owner_of<C: TypedObject>(&self) -> Result<(&PrimaryKind, &ObjectKey), ControllerError> {
        let request = self.request.as_ref();
        let request = request.and_then(|request| request.key::<Request>());
        let (Some(primary), Some(request)) = (&self.declared.primary, request) else {
            return Err(ControllerError::NoOwner {
                controller: self.controller().to_owned(),
            });
        };
        let kind = Kind::of::<C>();
        match self.declared.owns(&kind) {
            true => Ok((primary, &request.key)),
            false => Err(ControllerError::NotOwned {
                controller: self.controller().to_owned(),
                kind,
            }),
        }
    }
}
