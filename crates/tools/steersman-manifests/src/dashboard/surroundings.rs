//! Words: the rows about the cache, the API server, the replicas, webhooks and the process.

use super::panel::{DashboardPanel, DashboardRow, Drawing, query};

pub(crate) const CACHE: DashboardRow = DashboardRow {
    title: "Cache and watches",
    needs_webhooks: false,
    panels: &[
        DashboardPanel {
            title: "Informers by state",
            description: "A degraded informer shows an old state; one that syncs for long lists a large kind, or waits for its definition or rule. The log has the remedy.",
            drawing: Drawing::Stack,
            unit: "none",
            width: 8,
            queries: &[query(
                "sum by (state) (steersman_informers{%pods})",
                "{{state}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Objects",
            description: "Objects of each kind in the cache of the replica with the most. Selectors, namespaces and metadata-only watches make it hold fewer.",
            drawing: Drawing::Lines,
            unit: "short",
            width: 8,
            queries: &[query(
                "max by (name) (steersman_informer_objects{%pods})",
                "{{name}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Memory of the cache",
            description: "Packed and decoded bytes of each kind in the replica with the most. If it is most of the memory of the process, see the guide's page about memory.",
            drawing: Drawing::Stack,
            unit: "bytes",
            width: 8,
            queries: &[query(
                "max by (name) (steersman_informer_packed_bytes{%pods} + steersman_informer_decoded_bytes{%pods})",
                "{{name}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Events of watches",
            description: "Created, updated and deleted objects per second. A kind with many events and few changes, such as Leases, is a reason for a predicate or a selector.",
            drawing: Drawing::Stack,
            unit: "ops",
            width: 8,
            queries: &[query(
                "sum by (name) (rate(steersman_informer_events_total{%pods}[$__rate_interval]))",
                "{{name}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Lists and watches",
            description: "Lists and watches that began. A watch lasts for minutes, and needs no new list; many lists of one kind mean that its versions expire, or that requests fail.",
            drawing: Drawing::Lines,
            unit: "short",
            width: 8,
            queries: &[
                query(
                    "sum by (name) (increase(reflector_lists_total{%pods}[$__rate_interval]))",
                    "{{name}} list",
                ),
                query(
                    "sum by (name) (increase(reflector_watches_total{%pods}[$__rate_interval]))",
                    "{{name}} watch",
                ),
            ],
            steps: &[],
        },
        DashboardPanel {
            title: "Failed lists and watches",
            description: "By reason: `forbidden` needs a rule, `not_served` a definition; `network`, `server` and `silent` are the API server or the way to it.",
            drawing: Drawing::Lines,
            unit: "ops",
            width: 8,
            queries: &[query(
                "sum by (name, reason) (rate(steersman_reflector_failures_total{%pods}[$__rate_interval]))",
                "{{name}} {{reason}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Age of the last bookmark",
            description: "An API server sends a bookmark each minute or so. After 75 s without one the watch is given up and opened again, so a line that rises further is a server that cannot be reached.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 8,
            queries: &[query(
                "max by (name) (steersman_informer_last_bookmark_age_seconds{%pods})",
                "{{name}}",
            )],
            steps: &[(90.0, "red")],
        },
        DashboardPanel {
            title: "Delivery of events",
            description: "The time from the arrival of an event to the mailboxes of all subscribers, at p99. It grows if the process lacks CPU.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 8,
            queries: &[query(
                "histogram_quantile(0.99, sum by (name, le) (rate(steersman_informer_event_latency_seconds_bucket{%pods}[$__rate_interval])))",
                "{{name}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Decoded objects",
            description: "Objects per second that were unpacked, and decoded ones that the budget has evicted. Many of both for one kind mean that the budget of decoded bodies is too small.",
            drawing: Drawing::Lines,
            unit: "ops",
            width: 8,
            queries: &[
                query(
                    "sum by (name) (rate(steersman_informer_unpacks_total{%pods}[$__rate_interval]))",
                    "{{name}} unpacked",
                ),
                query(
                    "sum by (name) (rate(steersman_informer_evictions_total{%pods}[$__rate_interval]))",
                    "{{name}} evicted",
                ),
            ],
            steps: &[],
        },
    ],
};

pub(crate) const API_SERVER: DashboardRow = DashboardRow {
    title: "Requests to the API server",
    needs_webhooks: false,
    panels: &[
        DashboardPanel {
            title: "Requests by code",
            description: "401 and 403: credentials and rules. 409: others write the same objects. 429: the server limits the operator. `<error>`: no answer.",
            drawing: Drawing::Stack,
            unit: "reqps",
            width: 6,
            queries: &[query(
                "sum by (method, code) (rate(rest_client_requests_total{%pods}[$__rate_interval]))",
                "{{method}} {{code}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Latency",
            description: "Until the end of the answer, without watches. If all verbs are slow, the server or the network is; if only POST and PUT are, look at its webhooks.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 6,
            queries: &[
                query(
                    "histogram_quantile(0.5, sum by (verb, le) (rate(rest_client_request_duration_seconds_bucket{%pods}[$__rate_interval])))",
                    "{{verb}} p50",
                ),
                query(
                    "histogram_quantile(0.99, sum by (verb, le) (rate(rest_client_request_duration_seconds_bucket{%pods}[$__rate_interval])))",
                    "{{verb}} p99",
                ),
            ],
            steps: &[],
        },
        DashboardPanel {
            title: "Requests sent again",
            description: "Requests that the server has put off with Retry-After. A steady rate of 429 means that the operator sends more than its share: see priority and fairness of the server.",
            drawing: Drawing::Lines,
            unit: "reqps",
            width: 6,
            queries: &[query(
                "sum by (verb, code) (rate(rest_client_request_retries_total{%pods}[$__rate_interval]))",
                "{{verb}} {{code}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Waits for own writes",
            description: "How long reads waited until the cache showed the reconciler's own write, at p99. Long waits are slow watches of the server.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 6,
            queries: &[query(
                "histogram_quantile(0.99, sum by (name, le) (rate(steersman_own_write_wait_seconds_bucket{%pods}[$__rate_interval])))",
                "{{name}}",
            )],
            steps: &[],
        },
    ],
};

pub(crate) const REPLICAS: DashboardRow = DashboardRow {
    title: "Leader and shards",
    needs_webhooks: false,
    panels: &[
        DashboardPanel {
            title: "Leader",
            description: "The replica that leads; no value with shards. Frequent changes mean that renewals of the Lease fail: look at the latency of the API server, and at the CPU of the Pod.",
            drawing: Drawing::Timeline,
            unit: "none",
            width: 6,
            queries: &[query("leader_election_master_status{%pods}", "{{pod}}")],
            steps: &[(1.0, "green")],
        },
        DashboardPanel {
            title: "Renewals that had to read the Lease",
            description: "Another client wrote the Lease, or an answer was lost. A steady rate means that two programs use one Lease.",
            drawing: Drawing::Lines,
            unit: "ops",
            width: 6,
            queries: &[query(
                "sum by (pod, name) (rate(leader_election_slowpath_total{%pods}[$__rate_interval]))",
                "{{pod}} {{name}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Slots of each replica",
            description: "With `--shards` the sum is 256. Less for long means that a slot waits for its former owner: `cargo steersman doctor` lists them.",
            drawing: Drawing::Stack,
            unit: "none",
            width: 6,
            queries: &[query(
                "sum by (pod) (steersman_shard_slots{%pods})",
                "{{pod}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Hand-over of slots",
            description: "From the assignment of slots until their former owners had stopped, at p99. More than a few seconds without crashes are reconciles that hold slots back.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 6,
            queries: &[query(
                "histogram_quantile(0.99, sum by (name, le) (rate(steersman_shard_handover_seconds_bucket{%pods}[$__rate_interval])))",
                "{{name}}",
            )],
            steps: &[],
        },
    ],
};

pub(crate) const WEBHOOKS: DashboardRow = DashboardRow {
    title: "Webhooks",
    needs_webhooks: true,
    panels: &[
        DashboardPanel {
            title: "Admission requests",
            description: "Requests per second of the API server. Its webhook configuration can leave out namespaces and operations that need no decision.",
            drawing: Drawing::Stack,
            unit: "reqps",
            width: 6,
            queries: &[query(
                "sum by (webhook) (rate(controller_runtime_webhook_requests_total{%pods}[$__rate_interval]))",
                "{{webhook}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Rejections",
            description: "403 and 422 are decisions about objects of users. 400 means that the configuration sends other objects than the webhook decides; 500 is a panic, with its text in the log.",
            drawing: Drawing::Lines,
            unit: "reqps",
            width: 6,
            queries: &[query(
                "sum by (webhook, code) (rate(controller_runtime_webhook_requests_total{%pods,code!=\"200\"}[$__rate_interval]))",
                "{{webhook}} {{code}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Latency of webhooks",
            description: "Each write of a user waits for this time. The API server gives up after 10 s: let a webhook read from the cache alone.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 6,
            queries: &[
                query(
                    "histogram_quantile(0.5, sum by (webhook, le) (rate(controller_runtime_webhook_latency_seconds_bucket{%pods}[$__rate_interval])))",
                    "{{webhook}} p50",
                ),
                query(
                    "histogram_quantile(0.99, sum by (webhook, le) (rate(controller_runtime_webhook_latency_seconds_bucket{%pods}[$__rate_interval])))",
                    "{{webhook}} p99",
                ),
            ],
            steps: &[(5.0, "red")],
        },
        DashboardPanel {
            title: "Requests in progress, and panics",
            description: "Many requests in progress are a slow webhook. A panic is a mistake of the handler: its text is in the log.",
            drawing: Drawing::Lines,
            unit: "short",
            width: 6,
            queries: &[
                query(
                    "sum by (webhook) (controller_runtime_webhook_requests_in_flight{%pods})",
                    "{{webhook}} in progress",
                ),
                query(
                    "sum(increase(controller_runtime_webhook_panics_total{%pods}[$__rate_interval]))",
                    "panics",
                ),
            ],
            steps: &[],
        },
    ],
};

pub(crate) const PROCESS: DashboardRow = DashboardRow {
    title: "Process and certificates",
    needs_webhooks: false,
    panels: &[
        DashboardPanel {
            title: "CPU",
            description: "Cores that the process uses. Without changes of objects a high value is a loop: see the reconciles.",
            drawing: Drawing::Lines,
            unit: "short",
            width: 8,
            queries: &[query(
                "sum by (pod) (rate(process_cpu_seconds_total{%pods}[$__rate_interval]))",
                "{{pod}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Memory",
            description: "Resident memory. If it nears the limit of the container, see the memory of the cache, and the guide's page about memory.",
            drawing: Drawing::Lines,
            unit: "bytes",
            width: 8,
            queries: &[query(
                "sum by (pod) (process_resident_memory_bytes{%pods})",
                "{{pod}}",
            )],
            steps: &[],
        },
        DashboardPanel {
            title: "Open files",
            description: "The part of the allowed files that are open; connections count. At 100 % requests fail.",
            drawing: Drawing::Lines,
            unit: "percentunit",
            width: 8,
            queries: &[query(
                "max by (pod) (process_open_fds{%pods} / process_max_fds{%pods})",
                "{{pod}}",
            )],
            steps: &[(0.8, "red")],
        },
        DashboardPanel {
            title: "Time until certificates expire",
            description: "Certificates of the servers for metrics and webhooks, and the client certificates for API servers. Their issuers renew them; a file that was renewed is read without a restart.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 8,
            queries: &[
                query(
                    "min by (server) (steersman_certificate_not_after_timestamp_seconds{%pods}) - time()",
                    "server {{server}}",
                ),
                query(
                    "min by (host) (steersman_client_certificate_not_after_timestamp_seconds{%pods}) - time()",
                    "client for {{host}}",
                ),
            ],
            steps: &[],
        },
        DashboardPanel {
            title: "Reads of certificate files",
            description: "Files that cannot be used leave the former certificate in use: the log names them and the problem.",
            drawing: Drawing::Lines,
            unit: "short",
            width: 8,
            queries: &[
                query(
                    "sum by (pod) (increase(certwatcher_read_certificate_total{%pods}[$__rate_interval]))",
                    "{{pod}} read",
                ),
                query(
                    "sum by (pod) (increase(certwatcher_read_certificate_errors_total{%pods}[$__rate_interval]))",
                    "{{pod}} unusable",
                ),
            ],
            steps: &[],
        },
        DashboardPanel {
            title: "Uptime",
            description: "The time since the start of each process. A leader that loses its Lease ends and starts again; `kubectl logs --previous` has the reason of the last end.",
            drawing: Drawing::Lines,
            unit: "s",
            width: 8,
            queries: &[query(
                "time() - max by (pod) (process_start_time_seconds{%pods})",
                "{{pod}}",
            )],
            steps: &[],
        },
    ],
};
