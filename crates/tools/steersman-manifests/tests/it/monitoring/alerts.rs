//! Tests the alerts: their parts, their page, and when they fire.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use steersman_manifests::{Manifests, Options, RuleList};

use super::names::{exposed, unknown_names};
use super::promtool::{Evaluation, FIRST, Inputs, evaluate, inputs, slope};
use super::recording::{HEALTHY, SHARDED, TROUBLED, program};
use crate::examples::{manifests, options, simple};

/// The alerts of the operator without the permission to read Secrets.
const OF_TROUBLE: &[&str] = &[
    "ControllerNotStarted", "EventsLost", "KindNotFollowed", "MostReconcilesFail",
    "ReconcilePanics", "ReconcilesFail", "RequestsRefused", "WebhookFails",
];

/// For each alert a change of the series of the healthy operator, after which it fires: the metric, the labels that only
/// some of its series have, and the values.
const CAUSES: &[(&str, &str, &str, f64, f64)] = &[
    (
        "KindNotFollowed", "steersman_informers", "state=degraded", 1.0, 0.0,
    ),
    (
        "ControllerNotStarted", "steersman_controller_waiting", "name=Secret.v1", 1.0, 0.0,
    ),
    (
        "ObjectsMalformed",
        "steersman_informer_malformed_objects",
        "",
        1.0,
        0.0,
    ),
    (
        "MostReconcilesFail",
        "controller_runtime_reconcile_errors_total",
        "",
        0.0,
        60.0,
    ),
    (
        "ReconcilesFail",
        "controller_runtime_reconcile_errors_total",
        "controller=configmap",
        0.0,
        0.001,
    ),
    (
        "RequestsGivenUp",
        "steersman_controller_gave_up_total",
        "",
        0.0,
        1.0,
    ),
    (
        "ControllerTriggersItself",
        "steersman_controller_self_triggered_total",
        "",
        0.0,
        1.0,
    ),
    (
        "ReconcilePanics",
        "controller_runtime_reconcile_panics_total",
        "",
        0.0,
        1.0,
    ),
    (
        "EventsLost",
        "steersman_controller_handler_panics_total",
        "name=Service.v1",
        0.0,
        1.0,
    ),
    (
        "ReconcilesTimeOut",
        "controller_runtime_reconcile_timeouts_total",
        "",
        0.0,
        1.0,
    ),
    (
        "ReconcileHangs",
        "steersman_controller_overdue_reconciles",
        "",
        1.0,
        0.0,
    ),
    ("QueueGrows", "workqueue_depth", "", 101.0, 0.0),
    (
        "WorkersBusy",
        "controller_runtime_active_workers",
        "",
        1.0,
        0.0,
    ),
    (
        "PermitsShort",
        "steersman_controller_permit_wait_seconds_bucket",
        "le=+Inf",
        0.0,
        1.0,
    ),
    ("NoLeader", "leader_election_master_status", "", 0.0, 0.0),
    (
        "ShardsUnowned", "steersman_shard_slots", "name=sites-shards", 255.0, 0.0,
    ),
    (
        "RequestsRefused", "rest_client_requests_total", "code=403", 0.0, 1.0,
    ),
    (
        "DefinitionNotInstalled", "steersman_definition_refused", "definition=sites.example.com",
        1.0, 0.0,
    ),
    (
        "WebhookFails",
        "controller_runtime_webhook_requests_total",
        "code=500",
        0.0,
        1.0,
    ),
    (
        "WebhookSlow",
        "controller_runtime_webhook_latency_seconds_bucket",
        "le=+Inf",
        0.0,
        1.0,
    ),
    (
        "CertificateUnusable",
        "certwatcher_read_certificate_errors_total",
        "",
        0.0,
        1.0,
    ),
    (
        "CertificateExpires",
        "steersman_certificate_not_after_timestamp_seconds",
        "",
        86_400.0,
        0.0,
    ),
    (
        "ClientCertificateExpires",
        "steersman_client_certificate_not_after_timestamp_seconds",
        "",
        86_400.0,
        0.0,
    ),
    ("FilesRunOut", "process_open_fds", "", 1e9, 0.0),
    (
        "OperatorRestarts", "process_start_time_seconds", "", 0.0, 60.0,
    ),
];

/// Alerts that fire with another one by their nature.
const TOGETHER: &[(&str, &str)] = &[("MostReconcilesFail", "ReconcilesFail")];

/// Returns the groups of rules of the alerts.
fn groups(manifests: &Manifests) -> Value {
    let files = manifests.kustomize();
    let rule: Value = serde_saphyr::from_str(&files["config/prometheus/alerts.yaml"]).unwrap();
    rule["spec"].clone()
}

fn rules(manifests: &Manifests) -> Vec<Value> {
    let groups = groups(manifests);
    groups["groups"][0]["rules"].as_array().unwrap().clone()
}

fn sites() -> Manifests {
    let description = program().describe().unwrap();
    Manifests::new(&description, &RuleList::default(), &Options::default()).unwrap()
}

/// The page of the guide about the alerts.
fn page() -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("../../framework/steersman/guide/alerts.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_alert_has_a_time_a_severity_and_a_link_to_its_section() {
    for rule in rules(&manifests(&options())) {
        let name = rule["alert"].as_str().unwrap();
        let held = rule["for"].as_str().unwrap();
        assert!(held.ends_with(['m', 'h']), "{name}: {held}");
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(
            ["critical", "warning"].contains(&severity),
            "{name}: {severity}"
        );
        let annotations = &rule["annotations"];
        assert!(annotations["summary"].is_string(), "{name}");
        let step = annotations["description"].as_str().unwrap();
        assert!(step.starts_with("First step: "), "{name}: {step}");
        let link = annotations["runbook_url"].as_str().unwrap();
        let section = format!(
            "/0.1.0/steersman/guide/alerts/index.html#{}",
            name.to_lowercase()
        );
        assert!(link.ends_with(&section), "{name}: {link}");
    }
}

/// The page has the expressions without the job, which depends on the operator.
#[test]
fn the_page_has_a_section_with_the_expression_of_each_alert() {
    let page = page();
    let mut sections = page.split("\n## ").skip(1);
    for rule in rules(&manifests(&options())) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let expression = text(&rule["expr"]);
        let expression = expression.replace("{job=\"website-operator-metrics\"}", "");
        let expression = expression.replace("job=\"website-operator-metrics\",", "");
        let held = text(&rule["for"]);
        let unit = if held.ends_with('h') { "h" } else { "min" };
        let head = format!(
            "{}\n\n{}, after {} {unit}:\n\n```promql\n{expression}\n```\n",
            text(&rule["alert"]),
            text(&rule["labels"]["severity"]),
            held.trim_end_matches(['m', 'h']),
        );
        let section = sections.next().unwrap_or_default();
        assert!(
            section.starts_with(&head),
            "write this section:\n## {head}\nnot:\n## {section}"
        );
        assert!(section.len() > head.len() + 40, "explain {head}");
    }
    assert_eq!(sections.next(), None);
}

#[test]
fn only_an_operator_with_webhooks_and_definitions_has_their_alerts() {
    let names = |manifests: &Manifests| -> BTreeSet<String> {
        let rules = rules(manifests).into_iter();
        rules
            .map(|rule| rule["alert"].as_str().unwrap().to_owned())
            .collect()
    };
    let simple = Manifests::new(&simple(), &RuleList::default(), &Options::default()).unwrap();
    let (all, some) = (names(&manifests(&options())), names(&simple));
    let missing: Vec<&String> = all.difference(&some).collect();
    assert_eq!(
        missing,
        ["DefinitionNotInstalled", "WebhookFails", "WebhookSlow"]
    );
}

#[test]
fn every_expression_parses_and_names_metrics_and_labels_that_exist() {
    let exposed = exposed();
    let mut problems = Vec::new();
    for rule in rules(&sites()) {
        let unknown = unknown_names(rule["expr"].as_str().unwrap(), &exposed, &[]);
        problems.extend(
            unknown
                .into_iter()
                .map(|one| format!("{}: {one}", rule["alert"])),
        );
    }
    assert_eq!(problems, Vec::<String>::new());
}

/// Expects exactly these alerts.
fn fire(name: &str, inputs: Inputs, alerts: &[&str]) -> Evaluation {
    let samples = alerts
        .iter()
        .map(|alert| json!({"labels": format!("{{alertname=\"{alert}\"}}"), "value": 1}));
    let firing = "group by (alertname) (ALERTS{alertstate=\"firing\"})".to_owned();
    Evaluation {
        name: name.to_owned(),
        inputs,
        expected: vec![(firing, samples.collect())],
    }
}

#[test]
fn alerts_fire_for_the_troubled_operator_and_not_for_healthy_ones() {
    let evaluations = [
        fire("healthy", inputs(&HEALTHY, FIRST), &[]),
        fire("sharded", inputs(&SHARDED, FIRST), &[]),
        fire("not scraped", Inputs::new(), &["NoLeader"]),
        fire("troubled", inputs(&TROUBLED, FIRST), OF_TROUBLE),
    ];
    if let Some(complaints) = evaluate(&groups(&sites()), &evaluations) {
        assert_eq!(complaints, "");
    }
}

#[test]
fn each_alert_fires_for_its_cause_alone() {
    let named: BTreeSet<&str> = CAUSES.iter().map(|cause| cause.0).collect();
    let rules = rules(&sites());
    let all: BTreeSet<&str> = rules
        .iter()
        .map(|rule| rule["alert"].as_str().unwrap())
        .collect();
    assert_eq!(named, all);
    let evaluations: Vec<Evaluation> = CAUSES.iter().map(caused).collect();
    if let Some(complaints) = evaluate(&groups(&sites()), &evaluations) {
        assert_eq!(complaints, "");
    }
}

/// Changes the series of a metric, or adds one with a label.
fn caused(cause: &(&'static str, &str, &str, f64, f64)) -> Evaluation {
    let (alert, metric, label, from, by) = *cause;
    let mut inputs = inputs(
        if metric.contains("shard") {
            &SHARDED
        } else {
            &HEALTHY
        },
        FIRST,
    );
    let (label, value) = label.split_once('=').unwrap_or(("", ""));
    let matches = |series: &super::exposition::Series| {
        series.metric == metric
            && (label.is_empty() || series.labels.get(label).is_some_and(|one| one == value))
    };
    let values = slope(from, by);
    let mut changed = 0;
    for (series, present) in &mut inputs {
        if matches(series) {
            present.clone_from(&values);
            changed += 1;
        }
    }
    if changed == 0 {
        // The healthy operator has no series of this label: those of the troubled one are used.
        for (series, _) in super::promtool::inputs(&TROUBLED, FIRST) {
            if matches(&series) {
                inputs.insert(series, values.clone());
                changed += 1;
            }
        }
    }
    assert!(
        changed > 0,
        "{alert}: there is no {metric} with {label}={value}"
    );
    let mut expected = vec![alert];
    expected.extend(
        TOGETHER
            .iter()
            .filter(|(first, _)| *first == alert)
            .map(|(_, other)| *other),
    );
    expected.sort_unstable();
    fire(alert, inputs, &expected)
}
