//! Driver: `cargo steersman doctor`.

mod finding;
mod report;
mod served_kinds;
mod own_definitions;
mod permissions;
mod webhook_setup;
mod election;
mod shards;
mod objects;
mod workload;
mod own_certificates;
mod target;
mod gather;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::jiff::Timestamp;
use steersman_manifests::Manifests;
use steersman_object::{Kind, LabelSelector, ListOptions, ObjectKey, json_text};

use crate::command_line::{DoctorArgs, ManifestArgs};
use crate::doctor::finding::FindingLevel;
use crate::doctor::gather::Examination;
use crate::doctor::report::{count, lines};
use crate::doctor::target::TargetCluster;
use crate::error::Error;
use crate::generate::described;
use crate::project::Project;
use crate::screen::say;

/// Checks the operator of the current folder in a cluster, and prints the problems.
pub(crate) async fn doctor(args: &DoctorArgs) -> Result<(), Error> {
    let project = Project::find()?;
    let cluster = TargetCluster::find(args.context.as_deref()).await?;
    let manifest_args = ManifestArgs {
        image: None,
        namespace: args.namespace.clone(),
        operator: args.operator.clone(),
    };
    let (description, manifests) = described(&project, &manifest_args)?;
    let manifests = match args.namespace {
        Some(_) => manifests,
        None => where_deployed(&cluster, &description.name, manifests).await,
    };
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
    match count(&sections, FindingLevel::Problem) {
        0 => Ok(()),
        problems => Err(Error::Unhealthy {
            program: description.name.clone(),
            problems,
        }),
    }
}

/// Returns manifests for the namespace in which the operator's Deployment runs, if that is exactly one namespace other
/// than that of `manifests`; otherwise returns `manifests`.
async fn where_deployed(cluster: &TargetCluster, name: &str, manifests: Manifests) -> Manifests {
    let kind = Kind::of::<Deployment>();
    let key = ObjectKey::namespaced(manifests.namespace(), name);
    if !matches!(cluster.get(kind.clone(), &key).await, Ok(None)) {
        return manifests;
    }
    let labels = LabelSelector::label("app.kubernetes.io/name", name);
    let labelled = ListOptions::new().labels(labels);
    let found = cluster.selected(kind, &labelled).await;
    let mut found = found.unwrap_or_default();
    found.retain(|deployment| deployment["metadata"]["name"] == name);
    match &*found {
        [deployment] => manifests.in_namespace(json_text(&deployment["metadata"]["namespace"])),
        _ => manifests,
    }
}
