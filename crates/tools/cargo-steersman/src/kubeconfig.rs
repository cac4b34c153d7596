//! Driver: makes a client configuration from the kubeconfig.

use steersman_api::{ClientConfig, ConfigChoice, Error};

/// The name of this program in the `User-Agent`, and as field manager.
pub(crate) const AGENT: &str = "cargo-steersman";

/// Returns the `ClientConfig` of a context, by default of the current context. Sends no request.
pub(crate) async fn find(context: Option<&str>) -> Result<ClientConfig, Error> {
    let mut choice = ConfigChoice::new();
    if let Some(context) = context {
        choice = choice.context(context);
    }
    let client_config = ClientConfig::infer_with(&choice).await?;
    Ok(client_config.user_agent(AGENT, env!("CARGO_PKG_VERSION")))
}
