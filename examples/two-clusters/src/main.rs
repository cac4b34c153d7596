//! Runs the copier on two embedded API servers, and prints each step.

use example_program::BoxError;
use steersman_testenv::apiserver::ApiServer;
use two_clusters::demo;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (hub, west) = (ApiServer::new(), ApiServer::new());
    demo::run(&mut std::io::stdout(), &hub, &west).await
}
