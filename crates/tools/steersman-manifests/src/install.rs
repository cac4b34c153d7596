//! Machine: makes the single file for `kubectl apply`, and the kustomization of the whole.

use crate::files::{FROM_RULES, Files, header};
use crate::folder::kustomization;
use crate::operator::Operator;
use crate::workload::{deployment, namespace};

/// The folders of the installer, in the order in which objects depend on each other. Webhook configurations are last,
/// because then the API server needs the running operator to accept objects.
const FOLDERS: &[&str] = &["crd", "rbac", "manager", "network-policy", "webhook"];

/// The file with the namespace and the Deployment, which are the first and the last object.
const MANAGER: &str = "config/manager/manager.yaml";

/// Returns `dist/install.yaml`, made of the files in `config`.
pub(crate) fn files(operator: &Operator, config: &Files) -> Files {
    let mut documents: Vec<String> = namespace(operator).into_iter().collect();
    for folder in FOLDERS {
        if *folder == "network-policy" && !operator.options.network_policy {
            continue;
        }
        if *folder == "manager" {
            documents.push(deployment(operator));
        }
        let start = format!("config/{folder}/");
        let files = config.iter().filter(|(path, _)| {
            path.starts_with(&start) && *path != MANAGER && !path.ends_with("kustomization.yaml")
        });
        documents.extend(files.map(|(_, text)| without_header(text).to_owned()));
    }
    let note = match operator.owns_namespace() {
        true => String::new(),
        false => format!("# The namespace {} must exist.\n", operator.namespace),
    };
    let text = header(FROM_RULES) + &note + &documents.join("---\n");
    Files::from([("dist/install.yaml".to_owned(), text)])
}

/// Returns `config/default/kustomization.yaml`, which includes the folders that every installation needs.
pub(crate) fn default_kustomization(operator: &Operator, config: &Files) -> Files {
    let options = &operator.options;
    // Each folder with the option that includes it.
    let folders = [
        ("crd", true, ""),
        ("rbac", true, ""),
        ("manager", true, ""),
        ("webhook", true, ""),
        ("network-policy", options.network_policy, "network-policy"),
        ("prometheus", options.prometheus, "prometheus"),
        (
            "grafana",
            options.grafana_namespace.is_some(),
            "grafana-namespace",
        ),
    ];
    let has = |folder: &str| config.contains_key(&format!("config/{folder}/kustomization.yaml"));
    let chosen = folders.iter().filter(|(folder, on, _)| *on && has(folder));
    let chosen: Vec<String> = chosen.map(|(folder, ..)| format!("../{folder}")).collect();
    let mut text = kustomization(&chosen);
    for (folder, on, option) in folders {
        if !on && has(folder) {
            text.push_str(&format!("# Optional: `cargo steersman generate` adds ../{folder} if the option {option} is set.\n"));
        }
    }
    Files::from([("config/default/kustomization.yaml".to_owned(), text)])
}

/// Returns the text of a generated file without its first line.
pub(crate) fn without_header(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, rest)| rest)
}
