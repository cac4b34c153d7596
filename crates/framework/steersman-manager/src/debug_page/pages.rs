//! Machine: the content of each page.

use maud::{Markup, html};
use serde_json::Value;

use super::html::{facts, filter, pages, request, request_state, table};
use super::text::{ago, bytes, encoded, seconds};
use super::view::{
    CacheProblem, CacheRow, CachesView, ControllerRow, ControllerView, ErrorRow, ObjectView,
    Overview, ReconcileRow, ReplicasView, RequestRow, ServerView, Severity,
};

pub(super) fn overview(view: &Overview) -> Markup {
    let rows: Vec<Markup> = view.controllers.items.iter().map(controller_row).collect();
    let role = match view.is_leader {
        Some(true) => "leads",
        Some(false) => "stands by",
        None => "works",
    };
    let caches = &view.caches;
    html! {
        h1 { "Overview" }
        (facts(&[
            (role.to_owned(), "this replica"),
            (view.stage.to_owned(), "manager"),
            (format!("{} of {}", caches.synced, caches.informers), "kinds in sync"),
            (caches.objects.to_string(), "cached objects"),
            (bytes(caches.packed_bytes + caches.decoded_bytes), "cache"),
            (view.server.clone(), "API server"),
        ]))
        h2 { "What needs attention" }
        @if view.attention.is_empty() {
            p.ok { "Nothing: no controller waits for a kind, no reconcile is stuck, and no request fails again and again." }
        }
        ul.items {
            @for item in &view.attention {
                li class=(match item.severity { Severity::Bad => "", Severity::Warning => "warning" }) {
                    a.title href=(item.link) { (item.title) }
                    div { (item.detail) }
                    @if let Some(remedy) = &item.remedy { details data-key=(item.link) open { summary.muted { "What to do" } pre { (remedy) } } }
                }
            }
        }
        @if view.more_attention > 0 { p.muted { "and " (view.more_attention) " more" } }
        h2 { "Controllers" }
        (filter(&view.controllers, "controllers"))
        (table(
            &["Controller", "State", "#Running", "#Ready", "#Delayed", "#Per minute", "#Failed", "#Longest run", "Last error"],
            &rows,
        ))
        (pages(&view.controllers, "./"))
    }
}

fn controller_link(name: &str) -> String {
    format!("controller?controller={}", encoded(name))
}

fn controller_row(row: &ControllerRow) -> Markup {
    html! {
        td.name { a href=(controller_link(&row.name)) { (row.name) } }
        td { (controller_state(row)) }
        td.n { (row.running) " of " (row.workers) }
        td.n { (row.ready) }
        td.n { (row.delayed) }
        td.n { (row.per_minute) }
        td.n.bad[row.failures_per_minute > 0] { (row.failures_per_minute) }
        td.n { (row.longest_running.map_or_else(|| "–".to_owned(), seconds)) }
        td.text { (row.last_error.as_deref().unwrap_or("–")) }
    }
}

fn controller_state(row: &ControllerRow) -> Markup {
    html! {
        @match row.state {
            "waiting" => span.bad { "waiting" },
            "working" => span.good { "working" },
            "standby" => span.muted { "not started: another replica leads" },
            other => span.muted { (other) },
        }
    }
}

pub(super) fn controller(view: &ControllerView) -> Markup {
    let row = &view.row;
    let name = &row.name;
    html! {
        h1 { "Controller " (name) }
        @if let Some(kind) = &row.kind { p.muted { "of " (kind) } }
        (facts(&[
            (row.state.to_owned(), "state"),
            (format!("{} of {}", row.running, row.workers), "workers busy"),
            (row.ready.to_string(), "ready"),
            (row.delayed.to_string(), "delayed"),
            (row.per_minute.to_string(), "reconciles in a minute"),
            (row.failures_per_minute.to_string(), "of these failed"),
            (row.finished.to_string(), "since the start"),
        ]))
        @if !row.waiting_for.is_empty() {
            h2 { "Waits for" }
            ul.items { @for kind in &row.waiting_for { li { (kind) } } }
        }
        @if row.kind.is_some() {
            form.find action="object" role="search" {
                input type="hidden" name="controller" value=(name);
                input type="search" name="key" aria-label="Namespace and name of an object"
                    placeholder="The path of one object: namespace/name (key /)";
                button { "Show" }
            }
        }
        @if !view.errors.is_empty() {
            h2 { "Errors" }
            (table(&["Message", "#Count", "Last", "First", "Requests"], &errors(row, &view.errors)))
        }
        @if !view.loops.is_empty() {
            h2 { "Requests that trigger themselves" }
            (table(&["Object that each run writes", "Request", "Changed fields", "#Runs", "Seen"], &view.loops.iter().map(|one| html! {
                td.text { (one.object) } td.name { (request(row, &one.request)) } td.text { (one.fields) }
                td.n { (one.runs) } td { (ago(Some(one.ago))) }
            }).collect::<Vec<_>>()))
        }
        (requests(row, ("Running", row.running), &view.running))
        (requests(row, ("Ready", row.ready), &view.ready))
        (requests(row, ("Delayed", row.delayed), &view.delayed))
        (requests(row, ("Failing", row.retrying), &view.failing))
        (reconciles(row, "Slowest reconciles of the last hour", &view.slowest))
        (reconciles(row, "Last reconciles", &view.recent))
        h2 { "Last events" }
        @if view.events.is_empty() { p.muted { "No event since the initial lists." } } @else {
            (table(&["When", "Object", "Change", "Requests"], &view.events.iter().map(|event| html! {
                td { (ago(Some(event.ago))) } td.text { (event.object) } td { (event.change) }
                td.text {
                    @if event.requests.is_empty() { span.muted { "none" } }
                    @for (at, one) in event.requests.iter().enumerate() { @if at > 0 { ", " } (request(row, one)) }
                    @if event.more_requests > 0 { " and " (event.more_requests) " more" }
                }
            }).collect::<Vec<_>>()))
        }
        @if !view.lost_events.is_empty() {
            h2 { "Lost events" }
            ul.items { @for lost in &view.lost_events { li { (lost) } } }
        }
    }
}

fn errors(controller: &ControllerRow, errors: &[ErrorRow]) -> Vec<Markup> {
    let row = |error: &ErrorRow| {
        html! {
            td.text.bad { (error.message) } td.n { (error.count) } td { (ago(Some(error.last_ago))) }
            td { (ago(Some(error.first_ago))) }
            td.text { @for (at, one) in error.requests.iter().enumerate() { @if at > 0 { ", " } (request(controller, one)) } }
        }
    };
    errors.iter().map(row).collect()
}

/// Returns the first requests of a state, of which there are `total`.
fn requests(
    controller: &ControllerRow,
    (title, total): (&str, usize),
    rows: &[RequestRow],
) -> Markup {
    let cells = |row: &RequestRow| {
        html! {
            td.name { (request(controller, &row.request)) }
            td.text { (request_state(row)) }
            td.n { (row.retry_in.map_or_else(|| "–".to_owned(), seconds)) }
            td.n { (row.priority) }
        }
    };
    html! {
        @if !rows.is_empty() {
            h2 { (title) }
            (table(&["Request", "State", "#Retry in", "#Priority"], &rows.iter().map(cells).collect::<Vec<_>>()))
            @if total > rows.len() { p.muted { "and " (total - rows.len()) " more" } }
        }
    }
}

fn reconciles(controller: &ControllerRow, title: &str, rows: &[ReconcileRow]) -> Markup {
    html! {
        @if !rows.is_empty() {
            h2 { (title) }
            (table(&["Request", "#Took", "Ended", "Result", "Because of", "Writes and waits"],
                &rows.iter().map(|row| reconcile_cells(controller, title, row)).collect::<Vec<_>>()))
        }
    }
}

fn reconcile_cells(controller: &ControllerRow, title: &str, row: &ReconcileRow) -> Markup {
    html! {
        td.name { (request(controller, &row.request)) }
        td.n { (seconds(row.seconds)) }
        td { (ago(Some(row.ended_ago))) }
        td.text {
            span class=(if row.result == "success" { "good" } else { "bad" }) { (row.result) }
            @if row.refused_writes > 0 { span.bad { ", " (row.refused_writes) " of its writes were refused" } }
            @if let Some(message) = &row.message { ": " (message) }
            @if let Some(next) = row.next_in { div.muted { "next after " (seconds(next)) } }
        }
        td.text { (row.reason) }
        td.text { (steps(&format!("{title} {}", row.id), row)) }
    }
}

/// Returns the steps of a reconcile, with bars as long as their share of its time.
fn steps(key: &str, row: &ReconcileRow) -> Markup {
    let count = row.steps.len() + row.more_steps;
    let share = |time: f64| (time / row.seconds.max(1e-9) * 100.0).clamp(0.0, 100.0);
    html! {
        @if count == 0 { span.muted { "none" } } @else {
            details data-key=(key) {
                summary { (count) }
                ol.steps {
                    @for step in &row.steps {
                        li {
                            (step.text) " " span.muted { (seconds(step.seconds)) " from " (seconds(step.at)) " on" }
                            @if let Some(error) = &step.error { div.bad { (error) } }
                            meter min="0" max="100" value=(format!("{:.1}", share(step.seconds))) title="share of the reconcile" {}
                        }
                    }
                }
                @if row.more_steps > 0 { p.muted { "and " (row.more_steps) " more" } }
            }
        }
    }
}

pub(super) fn object(view: &ObjectView) -> Markup {
    let rows: Vec<Markup> = view
        .timeline
        .iter()
        .map(|row| {
            html! {
                td.when { (ago(Some(row.ago))) }
                td { span class={ "lane " (row.lane) } { (row.lane) } }
                td.text.bad[row.is_bad] { (row.text) }
                td.text.bad[row.is_bad] { (row.detail) }
            }
        })
        .collect();
    html! {
        h1 { (view.kind.as_deref().unwrap_or("Request")) " " (view.key) }
        p { "in controller " a href=(controller_link(&view.controller)) { (view.controller) } }
        h2 { "What comes next" }
        @match &view.request {
            Some(row) => p { "The request " (request_state(row)) "." },
            None if view.is_shared => p.muted { "Nothing here: the request neither runs nor waits in this replica. The object may be another replica's: see " a href="replicas" { "Replicas" } "." },
            None => p.muted { "Nothing: the request neither runs nor waits. The next event brings it back." },
        }
        h2 { "What happened" }
        @if rows.is_empty() {
            p.muted { "Nothing is on record: no reconcile among the last 1,024 of this controller, and no live event among its last 1,024. Initial lists are not events." }
        } @else { (table(&["When", "What", "", ""], &rows)) }
        h2 { "Who wrote its fields" }
        @if let Some(problem) = &view.problem { p.muted { (problem) } }
        @if !view.writers.is_empty() {
            (table(&["Manager", "Operation", "Time", "Fields"], &view.writers.iter().map(|writer| html! {
                td.name { (writer.manager) }
                td { (writer.operation) @if !writer.subresource.is_empty() { " of " (writer.subresource) } }
                td { (writer.time) }
                td.text { details data-key={ "fields " (writer.manager) (writer.operation) (writer.subresource) } {
                    summary { (writer.fields.len() + writer.more_fields) }
                    @for field in &writer.fields { div { code { (field) } } }
                    @if writer.more_fields > 0 { div.muted { "and " (writer.more_fields) " more" } }
                } }
            }).collect::<Vec<_>>()))
        }
    }
}

pub(super) fn caches(view: &CachesView) -> Markup {
    let totals = &view.totals;
    html! {
        h1 { "Caches" }
        (facts(&[
            (format!("{} of {}", totals.synced, totals.informers), "in sync"),
            (totals.objects.to_string(), "objects"),
            (bytes(totals.packed_bytes), "packed"),
            (bytes(totals.decoded_bytes), "decoded"),
        ]))
        ul.items {
            @for row in &view.caches.items {
                @if let Some(problem) = &row.problem { li { (cache_problem(row, problem)) } }
            }
        }
        (filter(&view.caches, "kinds"))
        (table(
            &["Kind", "State", "#Objects", "#JSON", "#Packed", "#Decoded", "#Waiting deltas", "Last event", "Last bookmark", "Last list", "#Readers"],
            &view.caches.items.iter().map(cache_row).collect::<Vec<_>>(),
        ))
        (pages(&view.caches, "caches"))
    }
}

fn cache_problem(row: &CacheRow, problem: &CacheProblem) -> Markup {
    html! {
        div.title {
            (row.kind)
            @if let Some(namespace) = &row.namespace { " in namespace " (namespace) }
            @if let Some(cluster) = &row.cluster { " of cluster " (cluster) }
            " does not follow the server: " (problem.reason)
            @if let Some(since) = problem.since_ago { ", for " (seconds(since)) }
        }
        div { (problem.message) }
        @if let Some(remedy) = &problem.remedy { pre { (remedy) } }
    }
}

fn cache_row(row: &CacheRow) -> Markup {
    let state = match row.state {
        "synced" => "good",
        "degraded" | "stopped" => "bad",
        _ => "muted",
    };
    html! {
        td.name {
            (row.kind)
            @if let Some(namespace) = &row.namespace { div.muted { "namespace " (namespace) } }
            @if let Some(cluster) = &row.cluster { div.muted { "cluster " (cluster) } }
            @if row.is_metadata_only { div.muted { "metadata only" } }
        }
        td {
            span class=(state) { (row.state) }
            @if let Some(problem) = &row.problem { div.bad { (problem.reason) } }
            @if !row.has_synced { div.muted { "never synced" } }
        }
        td.n { (row.objects) @if row.malformed > 0 { div.bad { (row.malformed) " do not decode" } } }
        td.n { (bytes(row.json_bytes)) }
        td.n { (bytes(row.packed_bytes)) }
        td.n { (bytes(row.decoded_bytes)) }
        td.n { (row.queued) }
        td { (ago(row.last_event_ago)) }
        td { (ago(row.last_bookmark_ago)) }
        td { (ago(row.last_list_ago)) @if let Some(cause) = &row.last_list_cause { div.muted { "because of " (cause) } } }
        td.n { (row.subscribers) }
    }
}

/// `now` is the present time in seconds since 1970.
pub(super) fn server(view: &ServerView, now: f64) -> Markup {
    html! {
        h1 { "API server" }
        (facts(&[
            (view.server.clone(), "address"),
            (view.writes_in_flight.to_string(), "writes in flight"),
            (view.unseen_writes.to_string(), "own writes that the cache has not seen"),
        ]))
        h2 { "Requests since the start" }
        (table(&["Host", "Method", "Code", "#Requests"], &view.requests.iter().map(|row| html! {
            td.name { (row.host) } td { (row.method) }
            td.bad[row.code.starts_with(['4', '5']) || row.code.starts_with('<')] { (row.code) }
            td.n { (row.count) }
        }).collect::<Vec<_>>()))
        h2 { "Webhooks" }
        @if view.webhooks.is_empty() { p.muted { "No webhook has answered a request." } } @else {
            (table(&["Webhook", "#Requests", "#Mean", "#99 of 100 within"], &view.webhooks.iter().map(|row| html! {
                td.name { (row.webhook) } td.n { (row.requests) } td.n { (seconds(row.mean_seconds)) }
                td.n { (row.p99_seconds.map_or_else(|| "longer than all buckets".to_owned(), seconds)) }
            }).collect::<Vec<_>>()))
        }
        h2 { "Certificates" }
        @if view.certificates.is_empty() { p.muted { "No server of this operator presents a certificate of a file, and no connection sends one." } } @else {
            (table(&["Certificate", "Expires"], &view.certificates.iter().map(|row| {
                let left = row.not_after - now;
                html! {
                    td.name { (row.name) }
                    td.bad[left < 86_400.0] {
                        @if left < 0.0 { (seconds(-left)) " ago" } @else { "in " (seconds(left)) }
                    }
                }
            }).collect::<Vec<_>>()))
        }
    }
}

pub(super) fn replicas(view: &ReplicasView) -> Markup {
    html! {
        h1 { "Replicas" }
        h2 { "Leader election" }
        (section(&view.lease, "This operator elects no leader: each replica works."))
        h2 { "Shards" }
        (section(&view.shards, "The replicas of this operator do not share the work."))
    }
}

/// Returns a section of the diagnostics as a table of its fields.
fn section(section: &Value, absent: &str) -> Markup {
    let Value::Object(fields) = section else {
        return html! { p.muted { (absent) } };
    };
    let rows: Vec<Markup> = fields
        .iter()
        .map(|(name, value)| html! { th scope="row" { (name) } td.text { (plain(value)) } })
        .collect();
    table(&["", ""], &rows)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{name}: {}", plain(value)));
            fields.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}
