//! Driver: `cargo steersman doctor`.

mod finding;
mod report;
mod served_kinds;
mod own_definitions;
mod permissions;
mod webhook_setup;
mod election;
mod objects;
mod workload;
mod own_certificates;
mod target;
mod gather;

use std::path::Path;

use k8s_openapi::jiff::Timestamp;

use crate::command_line::{DoctorArgs, ManifestArgs};
use crate::doctor::finding::Level;
use crate::doctor::gather::Examination;
use crate::doctor::report::{count, lines};
use crate::doctor::target::TargetCluster;
use crate::error::Error;
use crate::generate::described;
use crate::project::Project;
use crate::screen::say;

/// Says what the operator in the present folder lacks in a cluster.
pub(crate) async fn doctor(args: &DoctorArgs) -> Result<(), Error> {
    let project = Project::find(Path::new("."))?;
    let cluster = TargetCluster::find(args.context.as_deref()).await?;
    let (description, manifests) = described(
        &project,
        &ManifestArgs {
            image: None,
            namespace: args.namespace.clone(),
            offline: args.offline,
            program: args.program.clone(),
        },
    )?;
    let examination = Examination {
        cluster: &cluster,
        description: &description,
        manifests: &manifests,
        now: Timestamp::now(),
    };
    let sections = examination.run().await;
    for line in lines(&sections) {
        say(line);
    }
    match count(&sections, Level::Problem) {
        0 => Ok(()),
        problems => Err(Error::Unhealthy {
            program: description.name.clone(),
            problems,
        }),
    }
}
