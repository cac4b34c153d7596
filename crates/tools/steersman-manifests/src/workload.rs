//! Machine: makes the files of the Deployment and the objects around it.

use crate::files::{FROM_PROGRAM, Files};
use crate::folder::Folder;
use crate::operator::Operator;
use crate::template::fill;

struct TemplateFile {
    folder: &'static str,
    name: &'static str,
    templates: &'static [&'static str],
    is_needed: fn(&Operator) -> bool,
}

const NAMESPACE: &str = include_str!("../templates/namespace.yaml");
const DEPLOYMENT: &str = include_str!("../templates/deployment.yaml");

/// The template files, in the order of the kustomizations.
const TEMPLATE_FILES: &[TemplateFile] = &[
    TemplateFile {
        folder: "manager",
        name: "manager.yaml",
        templates: &[NAMESPACE, DEPLOYMENT],
        is_needed: |_| true,
    },
    TemplateFile {
        folder: "manager",
        name: "metrics_service.yaml",
        templates: &[include_str!("../templates/metrics_service.yaml")],
        is_needed: |_| true,
    },
    TemplateFile {
        folder: "manager",
        name: "pod_disruption_budget.yaml",
        templates: &[include_str!("../templates/pod_disruption_budget.yaml")],
        is_needed: |operator| operator.options.replicas > 1,
    },
    TemplateFile {
        folder: "network-policy",
        name: "allow-metrics-traffic.yaml",
        templates: &[include_str!("../templates/allow_metrics_traffic.yaml")],
        is_needed: |_| true,
    },
    TemplateFile {
        folder: "network-policy",
        name: "allow-webhook-traffic.yaml",
        templates: &[include_str!("../templates/allow_webhook_traffic.yaml")],
        is_needed: Operator::has_webhook_server,
    },
    TemplateFile {
        folder: "prometheus",
        name: "monitor.yaml",
        templates: &[include_str!("../templates/monitor.yaml")],
        is_needed: |_| true,
    },
    TemplateFile {
        folder: "prometheus",
        name: "alerts.yaml",
        templates: &[include_str!("../templates/alerts.yaml")],
        is_needed: |_| true,
    },
];

/// Returns the files of `config/manager`, `config/network-policy` and `config/prometheus`.
pub(crate) fn files(operator: &Operator) -> Files {
    let mut files = Files::new();
    for name in ["manager", "network-policy", "prometheus"] {
        let mut folder = Folder::new(name);
        let in_folder = |file: &&TemplateFile| file.folder == name && (file.is_needed)(operator);
        for file in TEMPLATE_FILES.iter().filter(in_folder) {
            let is_needed = |text: &&&str| **text != NAMESPACE || operator.owns_namespace();
            let templates = file.templates.iter().filter(is_needed);
            let documents: Vec<String> = templates.map(|text| fill(text, operator)).collect();
            folder.add(file.name, FROM_PROGRAM, &documents.join("---\n"));
        }
        files.extend(folder.finish());
    }
    files
}

/// Returns the manifest of the namespace; `None` unless the manifests create it.
pub(crate) fn namespace(operator: &Operator) -> Option<String> {
    operator.owns_namespace().then(|| fill(NAMESPACE, operator))
}

pub(crate) fn deployment(operator: &Operator) -> String {
    fill(DEPLOYMENT, operator)
}
