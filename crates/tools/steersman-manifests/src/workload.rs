//! Machine: makes the files of the Deployment and the objects around it.

use crate::files::{FROM_PROGRAM, Files};
use crate::folder::Folder;
use crate::operator::Operator;
use crate::template::fill;

const NAMESPACE: &str = include_str!("../templates/namespace.yaml");
const DEPLOYMENT: &str = include_str!("../templates/deployment.yaml");
const METRICS_SERVICE: &str = include_str!("../templates/metrics_service.yaml");
const BUDGET: &str = include_str!("../templates/pod_disruption_budget.yaml");
const METRICS_TRAFFIC: &str = include_str!("../templates/allow_metrics_traffic.yaml");
const WEBHOOK_TRAFFIC: &str = include_str!("../templates/allow_webhook_traffic.yaml");
const MONITOR: &str = include_str!("../templates/monitor.yaml");
const ALERTS: &str = include_str!("../templates/alerts.yaml");
const READER_BINDING: &str = include_str!("../templates/metrics_reader_binding.yaml");

/// Returns the files of `config/manager`, `config/network-policy` and `config/prometheus`.
pub(crate) fn files(operator: &Operator) -> Files {
    let add = |folder: &mut Folder, name: &str, template: &str| {
        folder.add(name, FROM_PROGRAM, &fill(template, operator));
    };
    let mut manager = Folder::new("manager");
    let documents: Vec<String> = namespace(operator)
        .into_iter()
        .chain([deployment(operator)])
        .collect();
    manager.add("manager.yaml", FROM_PROGRAM, &documents.join("---\n"));
    add(&mut manager, "metrics_service.yaml", METRICS_SERVICE);
    if operator.options.replicas > 1 {
        add(&mut manager, "pod_disruption_budget.yaml", BUDGET);
    }
    let mut traffic = Folder::new("network-policy");
    add(&mut traffic, "allow-metrics-traffic.yaml", METRICS_TRAFFIC);
    if operator.has_webhook_server() {
        add(&mut traffic, "allow-webhook-traffic.yaml", WEBHOOK_TRAFFIC);
    }
    let mut prometheus = Folder::new("prometheus");
    add(&mut prometheus, "monitor.yaml", MONITOR);
    add(&mut prometheus, "alerts.yaml", ALERTS);
    if operator.prometheus_account().is_some() {
        add(
            &mut prometheus, "metrics_reader_binding.yaml", READER_BINDING,
        );
    }
    [manager, traffic, prometheus]
        .into_iter()
        .flat_map(Folder::finish)
        .collect()
}

/// Returns the manifest of the namespace; `None` unless the manifests create it.
pub(crate) fn namespace(operator: &Operator) -> Option<String> {
    operator.owns_namespace().then(|| fill(NAMESPACE, operator))
}

pub(crate) fn deployment(operator: &Operator) -> String {
    fill(DEPLOYMENT, operator)
}
