//! Handle: subresources of Kubernetes' own kinds that are verbs more than parts.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use serde_json::{Value, json};
use steersman_api::DeleteOptions;
use steersman_object::{Kind, ObjectKey};

use super::Client;
use crate::error::Error;

/// What is done to Pods and service accounts through a subresource.
///
/// # Cancel safety
///
/// What was sent is finished, whoever waits for it; see [`Client`].
impl Client {
    /// Evicts a Pod: deletes it, unless a disruption budget forbids it at present.
    ///
    /// # Errors
    ///
    /// A 429 ([`is_throttled`](steersman_api::Error::is_throttled)) where a budget forbids it: try again later. Else
    /// what the server says.
    pub async fn evict(&self, pod: &ObjectKey, options: &DeleteOptions) -> Result<(), Error> {
        let pod = self.shared.key_in_namespace(&Kind::of::<Pod>(), pod)?;
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": pod.to_meta(),
            "deleteOptions": options.to_json(),
        });
        let evictions = self.subresource::<Pod>("eviction");
        evictions.create::<Value>(&pod, &eviction).await?;
        Ok(())
    }

    /// Binds a Pod to a node, as a scheduler does.
    ///
    /// # Errors
    ///
    /// [`is_conflict`](Error::is_conflict) where it is bound already; else what the server says.
    pub async fn bind(&self, pod: &ObjectKey, node: &str) -> Result<(), Error> {
        let pod = self.shared.key_in_namespace(&Kind::of::<Pod>(), pod)?;
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

    /// LiveReads for a token of a service account; the answer's status has it.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn token(
        &self,
        account: &ObjectKey,
        request: &TokenRequest,
    ) -> Result<TokenRequest, Error> {
        let tokens = self.subresource::<ServiceAccount>("token");
        tokens.create(account, request).await
    }
}
