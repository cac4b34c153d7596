//! Driver: finds the cluster of the kubeconfig.

use steersman_api::{ClientConfig, ConfigChoice, Error};

/// The name under which this program asks API servers, and the field manager of what it applies.
pub(crate) const AGENT: &str = "cargo-steersman";

/// Returns the `ClientConfig` of a context, or else that of the present context. No request is sent.
pub(crate) async fn find(context: Option<&str>) -> Result<ClientConfig, Error> {
    let mut choice = ConfigChoice::new();
    if let Some(context) = context {
        choice = choice.context(context);
    }
    let client_config = ClientConfig::infer_with(&choice).await?;
    Ok(client_config.user_agent(AGENT, env!("CARGO_PKG_VERSION")))
}
