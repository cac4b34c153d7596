//! How fast the player brings Pods to life: Deployments of 100,000 replicas in all, until every Pod
//! is ready.
//!
//! `cargo bench -p steersman-apiserver --bench player` and, for other numbers,
//! `-- --pods 10000 --deployments 10 --no-managed-fields`.

use std::time::Duration;

use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::Played;
use tokio::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok())
            .unwrap_or(default)
    };
    let pods = number("--pods", 100_000);
    let deployments = number("--deployments", 1);
    let tracked = !arguments
        .iter()
        .any(|argument| argument == "--no-managed-fields");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime can be made");
    let taken = runtime.block_on(bring_up(pods, deployments, tracked));
    let rate = f64::from(u32::try_from(pods).unwrap_or(u32::MAX)) / taken.as_secs_f64();
    let seconds = taken.as_secs_f64();
    let report = format!(
        "{pods} Pods of {deployments} Deployments ready in {seconds:.2} s: {rate:.0} Pods/s (managed fields: {tracked})\n"
    );
    let _ = std::io::Write::write_all(&mut std::io::stdout(), report.as_bytes());
}

async fn bring_up(pods: u64, deployments: u64, tracked: bool) -> Duration {
    let server = ApiServer::builder()
        .play(Played::everything().nodes(10))
        .track_managed_fields(tracked)
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
        server.create(deployment).expect("a Deployment is accepted");
    }
    for number in 0..deployments {
        let name = format!("web-{number}");
        loop {
            let deployment = server.get("deployments.apps", "default", &name);
            let deployment = deployment.expect("it was created");
            let wanted = &deployment["spec"]["replicas"];
            if deployment["status"]["readyReplicas"] == *wanted {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    began.elapsed()
}
