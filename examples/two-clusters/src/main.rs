//! Runs the copier on two embedded API servers, and prints each step.

use std::fmt::Display;
use std::io::{self, Write as _};

use example_program::BoxError;
use steersman_testenv::apiserver::ApiServer;
use two_clusters::demo;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (hub, west) = (ApiServer::new(), ApiServer::new());
    let say = |step: &dyn Display| {
        // The steps go on if standard output is closed.
        let _ = writeln!(io::stdout(), "{step}");
    };
    demo::run(say, &hub, &west).await
}
