//! Handle: actions on Pods and service accounts that Kubernetes offers as subresources.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use serde_json::{Value, json};
use steersman_api::DeleteOptions;
use steersman_object::{Kind, ObjectKey};

use super::Client;
use crate::error::Error;

/// Actions on Pods and service accounts. Each action is one request to a subresource.
///
/// # Cancel safety
///
/// A request that was sent is finished even if its future is dropped; see [`Client`].
impl Client {
    /// Evicts a Pod: deletes it, unless a PodDisruptionBudget forbids it at present.
    ///
    /// # Errors
    ///
    /// A 429 ([`is_throttled`](steersman_api::Error::is_throttled)) if a budget forbids the eviction at present: try
    /// again later. Otherwise the errors of the server.
    pub async fn evict(&self, pod: &ObjectKey, options: &DeleteOptions) -> Result<(), Error> {
        let kind = Kind::of::<Pod>();
        let pod = self.shared.options().key_in_namespace(&kind, pod)?;
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": pod.to_meta(),
            "deleteOptions": options.to_json(),
        });
        let evictions = self.subresource::<Pod>("eviction");
        // CLIENT-10: an eviction is a delete, so the remembered applies to the Pod are forgotten, before the request
        // and after it: another task may apply the Pod in between.
        self.shared.forget_applied(&kind, &pod);
        let evicted = evictions.create::<Value>(&pod, &eviction).await;
        self.shared.forget_applied(&kind, &pod);
        evicted.map(drop)
    }

    /// Binds a Pod to a node, as a scheduler does.
    ///
    /// # Errors
    ///
    /// [`is_conflict`](Error::is_conflict) if the Pod is bound already; otherwise the errors of the server.
    pub async fn bind(&self, pod: &ObjectKey, node: &str) -> Result<(), Error> {
        let options = self.shared.options();
        let pod = options.key_in_namespace(&Kind::of::<Pod>(), pod)?;
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": pod.to_meta(),
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let bindings = self.subresource::<Pod>("binding");
        bindings.create::<Value>(&pod, &binding).await?;
        Ok(())
    }

    /// Requests a token of a service account; the token is in the status of the answer.
    ///
    /// # Errors
    ///
    /// The errors of the server.
    pub async fn token(
        &self,
        account: &ObjectKey,
        request: &TokenRequest,
    ) -> Result<TokenRequest, Error> {
        let tokens = self.subresource::<ServiceAccount>("token");
        tokens.create(account, request).await
    }
}
