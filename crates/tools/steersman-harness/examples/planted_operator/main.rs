//! An operator with a planted bug, as a program of its own: `steersman-apiserver explore` must find what
//! `OperatorTest::explore` finds in a test.
//!
//! It uses the server that the environment variable KUBECONFIG names:
//!
//! ```console
//! $ cargo build -p steersman-harness --example planted_operator
//! $ steersman-apiserver explore --scenario FILE -- target/debug/examples/planted_operator
//! ```

mod reconciler;

use steersman_api::ClientConfig;
use steersman_manager::Manager;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let manager = Manager::builder(ClientConfig::infer().await?).build()?;
    reconciler::declare(&manager)?;
    Ok(manager.start(CancellationToken::new()).await?)
}
