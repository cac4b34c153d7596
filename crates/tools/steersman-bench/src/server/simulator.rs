//! Driver: measures the simulator, from Deployments to ready Pods.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::{Played, Speed};
use tokio::time::Instant;

use crate::process::BenchResult;

/// The interval between checks of the Deployments.
const LOOK: Duration = Duration::from_millis(5);

/// The Pods of the simulator, in equal parts of Deployments.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct SimulatorTask {
    pub(crate) pods: u64,
    pub(crate) deployments: u64,
    /// Whether managed fields are tracked.
    pub(crate) tracked: bool,
    /// Takes the time of a fast cluster for each Pod, instead of none.
    pub(crate) brisk: bool,
}

/// Waits until all Pods of these Deployments are ready, and returns the time in seconds.
pub(crate) async fn bring_up(task: SimulatorTask) -> BenchResult<f64> {
    let (pods, deployments) = (task.pods, task.deployments);
    let speed = if task.brisk {
        Speed::brisk()
    } else {
        Speed::instant()
    };
    let server = ApiServer::builder()
        .play(Played::everything().nodes(10).events(false).speed(speed))
        .track_managed_fields(task.tracked)
        .build();
    let began = Instant::now();
    for number in 0..deployments {
        let replicas = pods / deployments + u64::from(number < pods % deployments);
        let labels = json!({"app": format!("web-{number}")});
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": format!("web-{number}")},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "web", "image": "nginx:1.29"}]},
                },
            },
        });
        server.create(deployment)?;
    }
    for number in 0..deployments {
        let name = format!("web-{number}");
        loop {
            let deployment = server.get("deployments.apps", "default", &name);
            let deployment = deployment.ok_or("a Deployment is gone")?;
            if deployment["status"]["readyReplicas"] == deployment["spec"]["replicas"] {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(began.elapsed().as_secs_f64())
}
