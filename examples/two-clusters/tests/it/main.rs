//! The demo on a paused clock, in process.

use steersman_testenv::apiserver::ApiServer;
use two_clusters::demo::{self, BoxError};

#[tokio::test(start_paused = true)]
async fn every_step_of_the_demo_has_its_effect() -> Result<(), BoxError> {
    let (hub, west) = (ApiServer::new(), ApiServer::new());
    let mut out = Vec::new();
    demo::run(&mut out, &hub, &west).await?;
    assert_eq!(String::from_utf8(out)?.lines().count(), 6);
    Ok(())
}
