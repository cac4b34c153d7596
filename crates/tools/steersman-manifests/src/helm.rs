//! Machine: makes the Helm chart of an operator.

use serde_json::json;

use crate::files::{FROM_PROGRAM, FROM_RULES, Files, header, source};
use crate::install::without_header;
use crate::operator::Operator;
use crate::rbac::is_for_users;
use crate::rule_set::RuleSet;
use crate::template::fill;
use crate::yaml::{quoted, scalar};
use crate::{crds, dashboard, rbac, webhooks, workload};

#[cfg(test)]
mod tests;

/// The namespace in the files from which templates are made. The templates replace it by the namespace of the release.
const PLACEHOLDER: &str = "namespace-of-the-helm-release";

/// The replacement of the placeholder inside a text.
const RELEASE_NAMESPACE: &str = "{{ .Release.Namespace }}";

/// The replacement of the placeholder as a whole value, quoted because of namespaces such as `123`.
const QUOTED_NAMESPACE: &str = "{{ .Release.Namespace | quote }}";

/// The line of a definition that the chart includes only if the value `crd.keep` is set.
const KEEP: &str = "    helm.sh/resource-policy: keep\n";

const CHART: &str = include_str!("../templates/chart/Chart.yaml");
const VALUES: &str = include_str!("../templates/chart/values.yaml");
const HELPERS: &str = include_str!("../templates/chart/_helpers.tpl");
const NOTES: &str = include_str!("../templates/chart/NOTES.txt");
const DEPLOYMENT: &str = include_str!("../templates/chart/deployment.yaml");
const DASHBOARD: &str = include_str!("../templates/chart/dashboard.yaml");
const READER_BINDING: &str = include_str!("../templates/chart/metrics_reader_binding.yaml");
const SERVICE_ACCOUNT: &str = include_str!("../templates/chart/service_account.yaml");

/// The files of `config` that the chart replaces or omits.
const REPLACED: &[&str] = &[
    "kustomization.yaml", "manager.yaml", "service_account.yaml", "metrics_reader_binding.yaml",
];

/// The labels that the chart adds to the objects of the Prometheus operator. Their metadata ends with their labels.
const MONITOR_LABELS: &str = "
    {{- with .Values.prometheus.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
";

/// Returns the files of `dist/chart`.
pub(crate) fn files(operator: &Operator, rules: &RuleSet) -> Files {
    let mut files = Files::new();
    let mut add = |path: &str, text: String| files.insert(format!("dist/chart/{path}"), text);
    add("Chart.yaml", header(FROM_PROGRAM) + &fill(CHART, operator));
    add("values.yaml", header(FROM_PROGRAM) + &values(operator));
    add("dashboard.json", dashboard::text(operator));
    for (path, text) in [
        ("_helpers.tpl", HELPERS),
        ("NOTES.txt", NOTES),
        ("manager/manager.yaml", DEPLOYMENT),
        ("rbac/service_account.yaml", SERVICE_ACCOUNT),
        ("prometheus/metrics_reader_binding.yaml", READER_BINDING),
        ("grafana/dashboard.yaml", DASHBOARD),
    ] {
        let text = template(FROM_PROGRAM, &fill(text, operator));
        add(&format!("templates/{path}"), text);
    }
    for (path, text) in config(operator, rules) {
        let path = path.trim_start_matches("config/");
        if REPLACED.iter().any(|replaced| path.ends_with(replaced)) {
            continue;
        }
        add(&format!("templates/{path}"), of_config(path, &text));
    }
    files
}

/// Returns the files of `config`, with the placeholder as the namespace.
fn config(operator: &Operator, rules: &RuleSet) -> Files {
    let mut operator = operator.in_namespace(PLACEHOLDER);
    // With two replicas there is a budget, which the value `replicaCount` then switches on and off.
    operator.options.replicas = operator.options.replicas.max(2);
    for own in &mut operator.own {
        own.definition["metadata"]["annotations"]["helm.sh/resource-policy"] = json!("keep");
    }
    let mut files = crds::files(&operator);
    files.extend(rbac::files(&operator, rules));
    files.extend(workload::files(&operator));
    files.extend(webhooks::files(&operator));
    files
}

fn of_config(path: &str, text: &str) -> String {
    let from = match text.starts_with(&header(FROM_RULES)) {
        true => FROM_RULES,
        false => FROM_PROGRAM,
    };
    // Texts of the program, such as descriptions, may contain template braces, which are escaped.
    let body = without_header(text).replace("{{", r#"{{ "{{" }}"#);
    let value = format!(": {PLACEHOLDER}\n");
    let body = body.replace(&value, &format!(": {QUOTED_NAMESPACE}\n"));
    let mut body = body.replace(PLACEHOLDER, RELEASE_NAMESPACE);
    if path.starts_with("crd/") {
        let kept = format!("    {{{{- if .Values.crd.keep }}}}\n{KEEP}    {{{{- end }}}}\n");
        body = body.replacen(KEEP, &kept, 1);
    }
    if path.starts_with("prometheus/") {
        body = body.replacen("\nspec:\n", MONITOR_LABELS, 1);
    }
    if let Some(condition) = condition(path) {
        body = format!("{{{{- if {condition} }}}}\n{body}{{{{- end }}}}\n");
    }
    template(from, &body)
}

/// Returns the condition under which a release includes a file of `config`.
fn condition(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or_default();
    if is_for_users(path) {
        return Some(".Values.rbac.helpers");
    }
    match name {
        "allow-metrics-traffic.yaml" => {
            Some("and .Values.networkPolicy.enable .Values.metrics.enable")
        }
        "allow-webhook-traffic.yaml" => Some(".Values.networkPolicy.enable"),
        "monitor.yaml" => Some("and .Values.prometheus.enable .Values.metrics.enable"),
        "alerts.yaml" => Some(".Values.prometheus.enable"),
        "pod_disruption_budget.yaml" => {
            Some("and .Values.podDisruptionBudget.enable (gt (int .Values.replicaCount) 1)")
        }
        name if name.starts_with("metrics_") => Some(".Values.metrics.enable"),
        _ if path.starts_with("crd/") => Some(".Values.crd.enable"),
        _ => None,
    }
}

/// Returns a template with its source in a template comment. A YAML comment would leave an empty object in a release in
/// which the condition of the file is false.
fn template(from: &str, body: &str) -> String {
    format!("{{{{- /* {} */ -}}}}\n{body}", source(from))
}

fn values(operator: &Operator) -> String {
    let (repository, tag) = parts(&operator.image);
    // If the tag is the program's version, the chart leaves it out: an image without a tag has that version.
    let is_version = tag == operator.description.version.replace('+', "_");
    let tag = if is_version { "" } else { tag };
    let options = &operator.options;
    let dashboards = options.grafana_namespace.as_deref();
    fill(VALUES, operator)
        .replace("${repository}", &scalar(repository))
        .replace("${tag}", &quoted(tag))
        .replace("${prometheus}", &options.prometheus.to_string())
        .replace(
            "${grafana}",
            &options.grafana_namespace.is_some().to_string(),
        )
        .replace("${dashboards}", &quoted(dashboards.unwrap_or_default()))
        .replace("${network_policy}", &options.network_policy.to_string())
}

/// Splits an image into its repository and its tag or digest.
fn parts(image: &str) -> (&str, &str) {
    if let Some((repository, digest)) = image.split_once('@') {
        let repository = parts(repository).0;
        return (repository, digest);
    }
    match image.rsplit_once(':') {
        // A colon before a slash belongs to a port, not to a tag.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (image, ""),
    }
}
