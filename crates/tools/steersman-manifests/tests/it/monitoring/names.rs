//! The names of metrics and labels: those of expressions, and those of controller-runtime.

use std::collections::{BTreeMap, BTreeSet};

use promql_parser::parser::{self, Expr, LabelModifier};
use promql_parser::util::{ExprVisitor, walk_expr};

use super::exposition::Exposition;
use super::recording::{HEALTHY, SHARDED, TROUBLED};

/// The labels that Prometheus adds to the series of a target of a `ServiceMonitor`, as far as expressions use them.
const OF_TARGET: [&str; 3] = ["job", "namespace", "pod"];

/// The metrics of controller-runtime 0.24 and of client-go behind it, with their labels. Not in this list:
///
/// - `go_…`: the metrics of Go's runtime; there is none,
/// - `rest_client_rate_limiter_duration_seconds`: no limit delays requests on the client's side,
/// - `rest_client_dns_resolution_duration_seconds`: registered only on request, and connections are few and long,
/// - `controller_runtime_conversion_webhook_panics_total`: registered by a package that only conversions of Go import; a
///   panic of a conversion counts in `controller_runtime_webhook_panics_total`.
const CONTROLLER_RUNTIME: &[(&str, &[&str])] = &[
    ("certwatcher_read_certificate_errors_total", &[]),
    ("certwatcher_read_certificate_total", &[]),
    ("controller_runtime_active_workers", &["controller"]),
    (
        "controller_runtime_max_concurrent_reconciles",
        &["controller"],
    ),
    ("controller_runtime_reconcile_errors_total", &["controller"]),
    ("controller_runtime_reconcile_panics_total", &["controller"]),
    (
        "controller_runtime_reconcile_time_seconds_bucket",
        &["controller", "le"],
    ),
    (
        "controller_runtime_reconcile_time_seconds_count",
        &["controller"],
    ),
    (
        "controller_runtime_reconcile_time_seconds_sum",
        &["controller"],
    ),
    (
        "controller_runtime_reconcile_timeouts_total",
        &["controller"],
    ),
    (
        "controller_runtime_reconcile_total",
        &["controller", "result"],
    ),
    (
        "controller_runtime_terminal_reconcile_errors_total",
        &["controller"],
    ),
    (
        "controller_runtime_webhook_latency_seconds_bucket",
        &["le", "webhook"],
    ),
    ("controller_runtime_webhook_panics_total", &[]),
    (
        "controller_runtime_webhook_requests_in_flight",
        &["webhook"],
    ),
    (
        "controller_runtime_webhook_requests_total",
        &["code", "webhook"],
    ),
    ("leader_election_master_status", &["name"]),
    ("leader_election_slowpath_total", &["name"]),
    ("process_cpu_seconds_total", &[]),
    ("process_max_fds", &[]),
    ("process_open_fds", &[]),
    ("process_resident_memory_bytes", &[]),
    ("process_start_time_seconds", &[]),
    ("process_virtual_memory_bytes", &[]),
    (
        "rest_client_request_duration_seconds_bucket",
        &["host", "le", "verb"],
    ),
    (
        "rest_client_request_retries_total",
        &["code", "host", "verb"],
    ),
    (
        "rest_client_request_size_bytes_bucket",
        &["host", "le", "verb"],
    ),
    ("rest_client_requests_total", &["code", "host", "method"]),
    (
        "rest_client_response_size_bytes_bucket",
        &["host", "le", "verb"],
    ),
    ("workqueue_adds_total", &["controller", "name"]),
    ("workqueue_depth", &["controller", "name", "priority"]),
    (
        "workqueue_longest_running_processor_seconds",
        &["controller", "name"],
    ),
    (
        "workqueue_queue_duration_seconds_bucket",
        &["controller", "le", "name"],
    ),
    ("workqueue_retries_total", &["controller", "name"]),
    ("workqueue_unfinished_work_seconds", &["controller", "name"]),
    (
        "workqueue_work_duration_seconds_bucket",
        &["controller", "le", "name"],
    ),
];

/// The expressions of kubebuilder's dashboards for controllers and their resources, without the functions around them.
/// Their variables come from `label_values(controller_runtime_reconcile_total, …)`.
const KUBEBUILDER: &[&str] = &[
    "controller_runtime_active_workers",
    "sum(rate(controller_runtime_reconcile_total[5m])) by (instance, pod)",
    "sum(rate(controller_runtime_reconcile_errors_total[5m])) by (instance, pod)",
    "workqueue_depth",
    "histogram_quantile(0.50, sum(rate(workqueue_queue_duration_seconds_bucket[5m])) by (instance, name, le))",
    "sum(rate(workqueue_adds_total[5m])) by (instance, name)",
    "rate(workqueue_unfinished_work_seconds[5m])",
    "histogram_quantile(0.99, sum(rate(workqueue_work_duration_seconds_bucket[5m])) by (instance, name, le))",
    "sum(rate(workqueue_retries_total[5m])) by (instance, name)",
    "rate(process_cpu_seconds_total[5m]) * 100",
    "process_resident_memory_bytes",
];

/// The names and labels of all recordings.
pub(crate) fn exposed() -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for recording in [&*HEALTHY, &*TROUBLED, &*SHARDED] {
        for series in recording.after.series.keys() {
            let labels = all.entry(series.metric.clone()).or_default();
            labels.extend(series.labels.keys().cloned());
        }
    }
    all
}

/// Returns what an expression names that no recording has. `also` are further labels of targets.
pub(crate) fn unknown_names(
    expression: &str,
    exposed: &BTreeMap<String, BTreeSet<String>>,
    also: &[&str],
) -> Vec<String> {
    let parsed = parser::parse(expression);
    let parsed = parsed.unwrap_or_else(|error| panic!("{expression}: {error}"));
    let mut check = NameCheck {
        exposed,
        also,
        unknown: Vec::new(),
    };
    let Ok(_) = walk_expr(&mut check, &parsed);
    check.unknown
}

struct NameCheck<'a> {
    exposed: &'a BTreeMap<String, BTreeSet<String>>,
    also: &'a [&'a str],
    unknown: Vec<String>,
}

impl NameCheck<'_> {
    fn check_labels<'b>(&mut self, metrics: &[String], labels: impl Iterator<Item = &'b String>) {
        for label in labels {
            let is_of_target = OF_TARGET.iter().chain(self.also).any(|one| one == label);
            let mut sets = metrics.iter().filter_map(|metric| self.exposed.get(metric));
            if !is_of_target && !sets.all(|labels| labels.contains(label)) {
                self.unknown
                    .push(format!("{metrics:?} has no label {label}"));
            }
        }
    }
}

impl ExprVisitor for NameCheck<'_> {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expression: &Expr) -> Result<bool, Self::Error> {
        let selector = match expression {
            Expr::VectorSelector(selector) => selector,
            Expr::MatrixSelector(matrix) => &matrix.vs,
            Expr::Aggregate(aggregate) => {
                if let Some(LabelModifier::Include(labels) | LabelModifier::Exclude(labels)) =
                    &aggregate.modifier
                {
                    let metrics = metrics(&aggregate.expr);
                    self.check_labels(&metrics, labels.labels.iter());
                }
                return Ok(true);
            }
            _ => return Ok(true),
        };
        let name = selector.name.clone().unwrap_or_default();
        if !self.exposed.contains_key(&name) {
            self.unknown.push(format!("there is no metric {name}"));
        }
        let matchers = selector.matchers.matchers.iter();
        self.check_labels(&[name], matchers.map(|matcher| &matcher.name));
        Ok(true)
    }
}

/// Returns the metrics of an expression.
fn metrics(expression: &Expr) -> Vec<String> {
    struct Named(Vec<String>);
    impl ExprVisitor for Named {
        type Error = std::convert::Infallible;

        fn pre_visit(&mut self, expression: &Expr) -> Result<bool, Self::Error> {
            let selector = match expression {
                Expr::VectorSelector(selector) => selector,
                Expr::MatrixSelector(matrix) => &matrix.vs,
                _ => return Ok(true),
            };
            self.0.extend(selector.name.clone());
            Ok(true)
        }
    }
    let mut named = Named(Vec::new());
    let Ok(_) = walk_expr(&mut named, expression);
    named.0
}

#[test]
fn names_that_do_not_exist_are_found() {
    let labels = BTreeSet::from(["controller".to_owned()]);
    let exposed = BTreeMap::from([("a".to_owned(), labels)]);
    let unknown = |expression: &str| unknown_names(expression, &exposed, &[]).len();
    assert_eq!(
        unknown("sum by (controller, pod) (rate(a{job=\"b\"}[5m]))"),
        0
    );
    assert_eq!(unknown("sum by (kind) (a)"), 1);
    assert_eq!(unknown("a{kind=\"b\"} > 0 or b"), 2);
    assert_eq!(unknown("rate(a{kind=\"b\"}[5m])"), 1);
}

#[test]
fn the_metrics_of_controller_runtime_have_their_names_and_labels() {
    let exposed = exposed();
    for (metric, labels) in CONTROLLER_RUNTIME {
        let expected: BTreeSet<String> = labels.iter().map(ToString::to_string).collect();
        assert_eq!(exposed.get(*metric), Some(&expected), "{metric}");
    }
}

#[test]
fn the_dashboards_of_kubebuilder_find_their_metrics_and_labels() {
    let exposed = exposed();
    for expression in KUBEBUILDER {
        let unknown = unknown_names(expression, &exposed, &["instance"]);
        assert_eq!(unknown, Vec::<String>::new(), "{expression}");
    }
}

#[test]
fn the_results_of_reconciles_are_those_of_controller_runtime() {
    let results = |scrape: &Exposition| -> BTreeSet<String> {
        let series = scrape.series.keys();
        let series = series.filter(|one| one.metric == "controller_runtime_reconcile_total");
        series.map(|one| one.labels["result"].clone()).collect()
    };
    let expected = ["error", "requeue", "requeue_after", "success"].map(str::to_owned);
    assert_eq!(results(&HEALTHY.after), BTreeSet::from(expected));
}
