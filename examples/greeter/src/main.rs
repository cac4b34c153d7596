//! The program of the operator.

use std::process::ExitCode;

use greeter::{api, controllers};
use steersman::cli::Program;

#[tokio::main]
async fn main() -> ExitCode {
    Program::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .crds(api::crds())
        .setup(|manager, _| controllers::add_all(manager))
        .run()
        .await
}
