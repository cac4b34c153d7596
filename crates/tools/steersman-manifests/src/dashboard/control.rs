//! Words: the rows about the state as a whole, reconciles and queues.

use super::panel::{DashboardPanel, DashboardRow, Drawing, query};

pub(crate) const OVERVIEW: DashboardRow = DashboardRow {
    title: "Overview",
    needs_webhooks: false,
    panels: &[
        DashboardPanel {
            title: "Replicas",
            description: "Replicas that Prometheus reads. If the Deployment has more, look at the target in Prometheus: it needs the ClusterRole for reading metrics, and a network policy may block it.",
            drawing: Drawing::Presence,
            unit: "none",
            width: 3,
            queries: &[query("count(process_start_time_seconds{%pods})", "")],
            steps: &[(1.0, "green")],
        },
        DashboardPanel {
            title: "Leaders",
            description: "Replicas that lead; no value with shards. With 0 for more than 20 s no controller works: read the log of the replicas and `kubectl describe lease`.",
            drawing: Drawing::Presence,
            unit: "none",
            width: 3,
            queries: &[query("sum(leader_election_master_status{%pods})", "")],
            steps: &[(1.0, "green"), (2.0, "red")],
        },
        DashboardPanel {
            title: "Kinds not followed",
            description: "Informers that show an old state, because requests to the API server fail. The log has the kind, the reason and the remedy; see the row about the cache.",
            drawing: Drawing::Number,
            unit: "none",
            width: 3,
            queries: &[query(
                "sum(steersman_informers{%pods,state=\"degraded\"}) or vector(0)",
                "",
            )],
            steps: &[(1.0, "red")],
        },
        DashboardPanel {
            title: "Controllers that wait",
            description: "Controllers that have not started, because a kind has not synced. Often a definition or a rule is missing: the row about reconciles has the reason.",
            drawing: Drawing::Number,
            unit: "none",
            width: 3,
            queries: &[query(
                "count(count by (controller) (steersman_controller_waiting{%controllers} > 0)) or vector(0)",
                "",
            )],
            steps: &[(1.0, "red")],
        },
        DashboardPanel {
            title: "Reconciles that fail",
            description: "The part of the reconciles that fail. The log lines have controller, namespace and name of the object.",
            drawing: Drawing::Number,
            unit: "percentunit",
            width: 3,
            queries: &[query(
                "sum(rate(controller_runtime_reconcile_errors_total{%controllers}[$__rate_interval])) / (sum(rate(controller_runtime_reconcile_total{%controllers}[$__rate_interval])) > 0) or vector(0)",
                "",
            )],
            steps: &[(0.01, "orange"), (0.5, "red")],
        },
        DashboardPanel {
            title: "Requests that wait",
            description: "Requests that are ready, and that no worker has taken. If the number grows, look at the busy workers and at the duration of reconciles.",
            drawing: Drawing::Number,
            unit: "short",
            width: 3,
            queries: &[query("sum(workqueue_depth{%controllers})", "")],
            steps: &[(100.0, "orange"), (1000.0, "red")],
        },
        DashboardPanel {
            title: "Oldest unfinished",
            description: "The age of the oldest reconcile that runs. After minutes it likely hangs: the warning with `running_for` names its request. Set `reconcile-timeout`.",
            drawing: Drawing::Number,
            unit: "s",
            width: 3,
            queries: &[query(
                "max(workqueue_longest_running_processor_seconds{%controllers})",
                "",
            )],
            steps: &[(60.0, "orange"), (600.0, "red")],
        },
        DashboardPanel {
            title: "First certificate ends in",
            description: "The time until the first certificate of the servers expires. Its issuer renews it; the row about the process shows which server presents it.",
            drawing: Drawing::Presence,
            unit: "s",
            width: 3,
            queries: &[query(
                "min(steersman_certificate_not_after_timestamp_seconds{%pods}) - time()",
                "",
            )],
            steps: &[(172_800.0, "orange"), (1_209_600.0, "green")],
        },
    ],
};

pub(crate) const RECONCILES: DashboardRow = DashboardRow {
    title: "Reconciles",
    needs_webhooks: false,
    panels: &[
        DashboardPanel {
            title: "Reconciles by result",
            description: "Reconciles per second. A steady rate without changes of objects is a loop, or a short interval of requeues.",
            drawing: Drawing::Stack,
            unit: "ops",
            width: 8,
            queries: &[query(
                "sum by (controller, result) (rate(controller_runtime_reconcile_total{%controllers}[$__rate_interval]))",
                "{{controller}} {{result}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Failures",
            description: "Failed reconciles per second. Terminal errors are not retried; a reconcile that reaches its deadline is stopped. The log has the object and the error.",
            drawing: Drawing::Lines,
            unit: "ops",
            width: 8,
            queries: &[
                query(
                    "sum by (controller) (rate(controller_runtime_reconcile_errors_total{%controllers}[$__rate_interval]))",
                    "{{controller}} error",
                ),
                query(
                    "sum by (controller) (rate(controller_runtime_terminal_reconcile_errors_total{%controllers}[$__rate_interval]))",
                    "{{controller}} terminal error",
                ),
                query(
                    "sum by (controller) (rate(controller_runtime_reconcile_panics_total{%controllers}[$__rate_interval]))",
                    "{{controller}} panic",
                ),
                query(
                    "sum by (controller) (rate(controller_runtime_reconcile_timeouts_total{%controllers}[$__rate_interval]))",
                    "{{controller}} deadline",
                ),
            ],
            steps: &[],
        },
        DashboardPanel {
            title: "Duration of reconciles",
            description: "If the median is high, reconciles wait for something: see the latency of the API server, and the waits for own writes. A high p99 alone is a few slow objects.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 8,
            queries: &[
                query(
                    "histogram_quantile(0.5, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{%controllers}[$__rate_interval])))",
                    "{{controller}} p50",
                ),
                query(
                    "histogram_quantile(0.99, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{%controllers}[$__rate_interval])))",
                    "{{controller}} p99",
                ),
            ],
            steps: &[],
        },
        DashboardPanel {
            title: "Reconciles that take too long",
            description: "Reconciles that run for more than twice their deadline, or for ten minutes without one. Each occupies a worker: set `reconcile-timeout`.",
            drawing: Drawing::Lines,
            unit: "none",
            width: 8,
            queries: &[query(
                "sum by (controller) (steersman_controller_overdue_reconciles{%controllers})",
                "{{controller}}",
            )],
            steps: &[(1.0, "red")],
        },
        DashboardPanel {
            title: "Loops, and requests given up",
            description: "Reconciles that only their own last write has caused: write only what differs; the warning names the fields. A request is given up after its last retry, until its object changes.",
            drawing: Drawing::Lines,
            unit: "ops",
            width: 8,
            queries: &[
                query(
                    "sum by (controller) (rate(steersman_controller_self_triggered_total{%controllers}[$__rate_interval]))",
                    "{{controller}} loop",
                ),
                query(
                    "sum by (controller) (rate(steersman_controller_gave_up_total{%controllers}[$__rate_interval]))",
                    "{{controller}} given up",
                ),
            ],
            steps: &[],
        },
        DashboardPanel {
            title: "What controllers wait for",
            description: "Kinds that have not synced, with the reason: `not_served` needs a definition, `forbidden` a rule. The controller starts by itself afterwards.",
            drawing: Drawing::Lines,
            unit: "none",
            width: 8,
            queries: &[query(
                "sum by (controller, name, reason) (steersman_controller_waiting{%controllers}) > 0",
                "{{controller}}: {{name}} {{reason}}",
            )],
            steps: &[(1.0, "red")],
        },
    ],
};

pub(crate) const QUEUES: DashboardRow = DashboardRow {
    title: "Queues and workers",
    needs_webhooks: false,
    panels: &[
        DashboardPanel {
            title: "Depth of the queue",
            description: "Requests that are ready. A start lists all objects, and the queue is long for a while; if it stays long, raise `max-concurrent-reconciles` of the controller.",
            drawing: Drawing::Lines,
            unit: "short",
            width: 8,
            queries: &[query(
                "sum by (controller) (workqueue_depth{%controllers})",
                "{{controller}}",
            )],
            steps: &[(100.0, "orange")],
        },
        DashboardPanel {
            title: "Time in the queue",
            description: "How long requests were ready before a worker took them: the delay that users see before anything happens.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 8,
            queries: &[
                query(
                    "histogram_quantile(0.5, sum by (controller, le) (rate(workqueue_queue_duration_seconds_bucket{%controllers}[$__rate_interval])))",
                    "{{controller}} p50",
                ),
                query(
                    "histogram_quantile(0.99, sum by (controller, le) (rate(workqueue_queue_duration_seconds_bucket{%controllers}[$__rate_interval])))",
                    "{{controller}} p99",
                ),
            ],
            steps: &[],
        },
        DashboardPanel {
            title: "Unfinished work",
            description: "The age of the oldest reconcile that runs, and the sum of the ages of all. A line that only rises is a reconcile that hangs.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 8,
            queries: &[
                query(
                    "max by (controller) (workqueue_longest_running_processor_seconds{%controllers})",
                    "{{controller}} oldest",
                ),
                query(
                    "sum by (controller) (workqueue_unfinished_work_seconds{%controllers})",
                    "{{controller}} sum",
                ),
            ],
            steps: &[(600.0, "red")],
        },
        DashboardPanel {
            title: "Busy workers",
            description: "The part of the workers of a controller that reconcile. At 100 % requests wait: raise `max-concurrent-reconciles` of the controller, unless the API server is slow.",
            drawing: Drawing::Lines,
            unit: "percentunit",
            width: 8,
            queries: &[query(
                "sum by (controller) (controller_runtime_active_workers{%controllers}) / sum by (controller) (controller_runtime_max_concurrent_reconciles{%controllers})",
                "{{controller}}",
            )],
            steps: &[(0.8, "orange"), (1.0, "red")],
        },
        DashboardPanel {
            title: "Added and retried requests",
            description: "Requests per second that came into the queue, and those that came back with backoff after a failure.",
            drawing: Drawing::Lines,
            unit: "ops",
            width: 8,
            queries: &[
                query(
                    "sum by (controller) (rate(workqueue_adds_total{%controllers}[$__rate_interval]))",
                    "{{controller}} added",
                ),
                query(
                    "sum by (controller) (rate(workqueue_retries_total{%controllers}[$__rate_interval]))",
                    "{{controller}} retried",
                ),
            ],
            steps: &[],
        },
        DashboardPanel {
            title: "Workers that wait for a permit",
            description: "Workers with a ready request that `max-total-reconciles` holds back, and how long they wait; no values without this setting. Raise it if the Pod and the API server can take more.",
            drawing: Drawing::Lines,
            unit: "short",
            width: 8,
            queries: &[
                query(
                    "sum by (controller) (steersman_controller_permit_waiting{%controllers})",
                    "{{controller}} waiting",
                ),
                query(
                    "histogram_quantile(0.9, sum by (controller, le) (rate(steersman_controller_permit_wait_seconds_bucket{%controllers}[$__rate_interval])))",
                    "{{controller}} p90 in seconds",
                ),
            ],
            steps: &[],
        },
    ],
};
