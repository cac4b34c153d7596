//! Driver: finds the cluster of the kubeconfig.

use steersman_api::{ConfigChoice, ClientConfig, Error};

/// The name under which this program asks API servers, and the field manager of what it applies.
pub(crate) const AGENT: &str = "cargo-steersman";

/// Returns the connection of a context, or else that of the present one. No request is sent.
pub(crate) async fn find(context: Option<&str>) -> Result<ClientConfig, Error> {
    let choice = ConfigChoice::new();
    let choice = match context {
        Some(context) => choice.context(context),
        None => choice,
    };
    let connection = ClientConfig::infer_with(&choice).await?;
    Ok(connection.user_agent(AGENT, env!("CARGO_PKG_VERSION")))
}
