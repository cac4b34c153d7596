//! Handle: waits and watches, for code outside reconcilers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use steersman_crds::{Crd, CrdDifference, Error as DefinitionError};
use steersman_object::{AsObject, Gvk, ListOptions, Object, ObjectKey};
use tokio::time::{Instant, sleep};

use super::Client;
use crate::condition::Condition;
use crate::conditions::{is_crd_established, is_deleted};
use crate::error::Error;
use crate::kinds::KindSource;
use crate::wait;
use crate::watch::{ObjectWatch, PrivateCache};

/// The pause between two requests that ask whether the server already serves the installed kind.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Waits and watches for programs, tests and hooks. A reconciler does not wait: it watches kinds, and runs again when
/// an object changes.
///
/// A wait or watch sends its own list and watch of exactly the selected objects, whether the kind is cached or not. The
/// client's cache need not run, its selectors and transforms do not apply, and no informer stays in it.
impl<S: Clone> Client<S> {
    /// Waits until the object meets a condition, and returns the object in that state; `None` if its absence met the
    /// condition.
    ///
    /// The object need not exist yet. The condition is checked against the newest state first, and then whenever the
    /// object changes (CLIENT-9), without polling. A broken connection, a 410 and an unreachable server only prolong
    /// the wait. A state that lasts shorter than a reconnect may be missed. Zero and `Duration::MAX` mean no limit.
    ///
    /// # Errors
    ///
    /// [`Error::ConditionNotMet`] after the timeout, with the condition, the last state of the object, and the problem
    /// of the watch if there is one. Fails at once if the server forbids the watch
    /// ([`is_unavailable`](Error::is_unavailable), with the missing RBAC rule), or if the object does not decode
    /// ([`is_malformed`](Error::is_malformed)).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future ends the watch and changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use steersman_object::ObjectKey;
    /// # async fn f(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// use steersman_client::{Condition as _, conditions};
    ///
    /// let key = ObjectKey::namespaced("default", "shell");
    /// let has_address = |pod: Option<&Pod>| {
    ///     let status = pod.and_then(|pod| pod.status.as_ref());
    ///     status.is_some_and(|status| status.pod_ip.is_some())
    /// };
    /// let ready = conditions::is_pod_running().and(has_address.named("has an address"));
    /// let pod = client.await_condition::<Pod>(&key, ready, Duration::from_secs(60)).await?;
    /// # let _ = pod; Ok(()) }
    /// ```
    pub async fn await_condition<K: Object>(
        &self,
        key: &ObjectKey,
        condition: impl Condition<K>,
        timeout: Duration,
    ) -> Result<Option<Arc<K>>, Error>
    where
        S: KindSource<K>,
    {
        let kind = self.kinds.kind_of();
        wait::await_condition(&self.shared, &kind, key, &condition, timeout).await
    }

    /// Waits until the object is gone: its name belongs to no object, or to an object with another uid. Nothing is
    /// deleted: call [`delete`](Self::delete) before.
    ///
    /// An object that was not read from the server has no uid; it stands for every object of its name.
    ///
    /// # Errors
    ///
    /// [`Error::ConditionNotMet`] after the timeout, with the last state of the object, and the other errors of
    /// [`await_condition`](Self::await_condition). Finalizers can delay a deletion for any time.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future ends the watch and changes nothing.
    pub async fn wait_deleted<K: Object>(
        &self,
        object: &impl AsObject<K>,
        timeout: Duration,
    ) -> Result<(), Error>
    where
        S: KindSource<K>,
    {
        let object = object.as_object();
        let condition = is_deleted::<K>(object.uid_str());
        self.await_condition(&object.key(), condition, timeout)
            .await?;
        Ok(())
    }

    /// Watches the selected objects: a stream of the present objects, then of their changes, that restarts its watch
    /// after an error. See [`ObjectWatch`].
    ///
    /// The server filters by namespace, labels and fields. The limit of the list options has no effect. No request is
    /// sent before the stream is polled.
    ///
    /// # Errors
    ///
    /// [`Error::IndexNeedsCache`] if the list options name an index; [`Error::OtherNamespace`];
    /// [`Error::Cache`] if a selector is not valid.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use steersman_object::ListOptions;
    /// # async fn f(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// use steersman_cache::Delivery;
    ///
    /// let mut pods = client.watch::<Pod>(&ListOptions::new().namespace("default"))?;
    /// while let Some(delivery) = pods.next().await {
    ///     if let Delivery::Event(event) = delivery? {
    ///         println!("{} {}", event.key(), event.current().is_some());
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn watch<K: Object>(&self, list_options: &ListOptions) -> Result<ObjectWatch<K>, Error>
    where
        S: KindSource<K>,
    {
        let kind = self.kinds.kind_of();
        let list_options = self.shared.live_options(&kind, list_options)?;
        let client_config = self.shared.client_config();
        ObjectWatch::new(PrivateCache::new(client_config, &kind, &list_options)?)
    }
}

impl Client {
    /// Installs the definition of a kind: applies it, and waits until the server serves the kind in each version that
    /// the definition serves. An older definition is updated.
    ///
    /// This method is for tests and demonstrations, because it migrates no stored objects; an operator declares
    /// `steersman_crds::Crds` instead. A definition of a later release on the server is kept. A controller needs no
    /// such call before it starts: it waits for a missing kind. Zero and `Duration::MAX` mean no limit.
    ///
    /// # Errors
    ///
    /// [`Error::Definition`] if objects would lose fields: the versions of the definition differ and no webhook
    /// converts them, or it accepts less than the definition on the server. Otherwise the errors of
    /// [`apply`](Self::apply) and [`await_condition`](Self::await_condition). After the timeout the error says that the
    /// kind is not served ([`is_kind_not_served`](Error::is_kind_not_served)).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may apply the definition nevertheless. The method may be called again.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    /// # async fn f(client: steersman_client::Client, crd: CustomResourceDefinition) -> Result<(), steersman_client::Error> {
    /// // `crd` is `Website::crd()` of a type with `#[derive(CustomResource)]`.
    /// client.install(&crd, Duration::from_secs(30)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn install(
        &self,
        definition: &CustomResourceDefinition,
        timeout: Duration,
    ) -> Result<(), Error> {
        let start = Instant::now();
        let key = definition.key();
        // These futures are boxed, because they are large and would enlarge the future of every caller.
        if Box::pin(self.has_to_be_installed(definition)).await? {
            self.apply(definition).await?;
        }
        let established = self.await_condition(&key, is_crd_established(), timeout);
        Box::pin(established).await?;
        let spec = &definition.spec;
        // The server may have served the kind before, with other versions that the mapper still knows.
        self.mapper().forget(&spec.group);
        for version in spec.versions.iter().filter(|version| version.served) {
            let gvk = Gvk::new(&*spec.group, &*version.name, &*spec.names.kind);
            while let Err(error) = Box::pin(self.mapper().kind(&gvk)).await {
                let is_late = !timeout.is_zero() && start.elapsed() >= timeout;
                if is_late || !error.is_kind_not_served() {
                    return Err(error.into());
                }
                sleep(BETWEEN_LOOKS).await;
            }
        }
        Ok(())
    }

    /// Returns whether the definition has to be written; an error if stored objects would lose fields.
    async fn has_to_be_installed(
        &self,
        definition: &CustomResourceDefinition,
    ) -> Result<bool, Error> {
        let wanted = Crd::new(definition);
        // DEF-7: a definition with which stored objects would lose fields is refused before any request is sent.
        wanted.check()?;
        let present = self.live().get_opt(&definition.key()).await?;
        // The type has only maps with text keys, so `json!`, which panics if a value does not encode, cannot panic.
        let present: Option<Value> = present.map(|found: CustomResourceDefinition| json!(found));
        match CrdDifference::between(present.as_ref(), wanted.content()) {
            CrdDifference::Equal | CrdDifference::Later(_) => Ok(false),
            // DEF-1: `install` migrates no objects, so a definition that needs a migration is an error.
            CrdDifference::ToMigrate(problems) | CrdDifference::Refused(problems) => {
                let definition = wanted.name().to_owned();
                Err(DefinitionError::Narrowed {
                    definition,
                    problems,
                }
                .into())
            }
            _ => Ok(true),
        }
    }
}
