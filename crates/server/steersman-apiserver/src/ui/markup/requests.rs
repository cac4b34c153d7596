//! Machine: the page of the log of requests, and the page of one request.

use maud::{Markup, html};

use super::layout::{choice, count, field, grouped, time};
use super::revisions;
use crate::faults::RequestRecord;
use crate::ui::requests::{ClientRow, RequestRow, RequestView, RequestsView, is_write};
use crate::ui::route::{object_path, with_query};

/// The choices of a filter by verb. The first is not a verb: it stands for all that write.
pub(super) const VERBS: [(&str, &str); 9] = [
    ("write", "every write"),
    ("get", "get"),
    ("list", "list"),
    ("watch", "watch"),
    ("create", "create"),
    ("update", "update"),
    ("patch", "patch"),
    ("delete", "delete"),
    ("deletecollection", "deletecollection"),
];

pub(crate) fn requests(view: &RequestsView) -> Markup {
    let filter = &view.filter;
    let page = |before: Option<u64>| {
        let before = before.map(|before| before.to_string()).unwrap_or_default();
        let pairs = [
            ("verb", filter.verb.as_str()),
            ("resource", &filter.resource),
            ("namespace", &filter.namespace),
            ("code", &filter.code),
            ("client", &filter.client),
            ("text", &filter.text),
            ("before", &before),
        ];
        with_query("/requests", &pairs)
    };
    html! {
        header.bar {
            h1 { "Requests" }
            form.filter action="/requests" data-filter-form {
                (field("text", "Path or name", &filter.text))
                (choice("verb", "Verb", &filter.verb, &VERBS))
                (field("resource", "Resource", &filter.resource))
                (field("namespace", "Namespace", &filter.namespace))
                label { "Code" input.short name="code" value=(filter.code) list="codes" autocomplete="off"; }
                (field("client", "Client or user", &filter.client))
                datalist #codes {
                    @for code in ["2xx", "4xx", "5xx", "403", "404", "409", "410", "422", "429", "open"] { option value=(code) {} }
                }
                button { "Filter" }
            }
        }
        div id="clients" data-live { (clients(&view.clients, &filter.client)) }
        div id="log" data-live {
            p.muted {
                (count(view.fitting, "request", "requests"))
                @if view.fitting != view.logged { " of " (grouped(view.logged)) }
                @if view.forgotten > 0 { "; the log has dropped " (view.forgotten) " older ones" }
            }
            (table(&view.requests))
            p.pages {
                @if filter.before.is_some() { a href=(page(None)) { "Newest" } }
                @if let Some(next) = view.next { a rel="next" href=(page(Some(next))) { "Older" } }
            }
        }
    }
}

/// The page of one request.
pub(crate) fn request(view: &RequestView) -> Markup {
    let record = &view.row.record;
    let resource = resource_of(record);
    let fault = with_query(
        "/faults",
        &[
            ("verb", record.verb.map_or("", |verb| verb.as_str())),
            ("resource", &resource),
            ("namespace", record.namespace.as_deref().unwrap_or_default()),
            ("client", &record.user_agent),
        ],
    );
    html! {
        p.crumbs { a href="/requests" { "Requests" } " / " (record.sequence) }
        h1 { (verb_of(record)) " " (resource) " " (code(&view.row)) }
        dl.facts {
            div { dt { "arrived" } dd { (time(&record.at)) } }
            div { dt { "request" } dd { code { (record.method) " " (record.path) } } }
            @for (name, value) in &record.parameters { div { dt { (name) } dd { code { (value) } } } }
            @if !record.accept.is_empty() { div { dt { "accept" } dd { code { (record.accept) } } } }
            div { dt { "client" } dd {
                a href=(with_query("/requests", &[("client", &record.user_agent)])) { (or(&record.user_agent, "unnamed")) }
            } }
            div { dt { "user" } dd {
                (or(&record.user, "not authenticated"))
                @if !record.groups.is_empty() { span.muted { " in " (record.groups.join(", ")) } }
                @if let Some(by) = &record.impersonated_by { ", impersonated by " (by) }
            } }
        }
        p.parts {
            @if let Some(path) = object_of(record) { a href=(path) { "The object" } }
            a href=(fault) { "Plan a fault for such requests" }
        }
        @if is_write(record) {
            h2 { "Revisions of this request" }
            @if view.revisions.is_empty() { p.muted { "It made no revision that the server retains." } }
            (revisions::list(&view.revisions, true, true))
        }
    }
}

fn clients(rows: &[ClientRow], chosen: &str) -> Markup {
    html! {
        @if rows.len() > 1 || !chosen.is_empty() {
            details id="by-client" open {
                summary { "By client" }
                ul.clients {
                    @for row in rows {
                        li {
                            a href=(with_query("/requests", &[("client", client_filter(row))]))
                              aria-current=[(client_filter(row) == chosen).then_some("true")] {
                                (or(&row.user_agent, "unnamed client")) " " span.muted { (row.user) }
                            }
                            " " (grouped(row.requests))
                            @if row.writes > 0 { span.muted { " · " (count(row.writes, "write", "writes")) } }
                            @if row.failures > 0 { " · " span.bad { (grouped(row.failures)) " failed" } }
                            @if row.open > 0 { span.muted { " · " (grouped(row.open)) " open" } }
                        }
                    }
                    @if !chosen.is_empty() { li { a href="/requests" { "all clients" } } }
                }
            }
        }
    }
}

fn table(rows: &[RequestRow]) -> Markup {
    html! {
        table.flow {
            thead { tr {
                th scope="col" { "Time" } th scope="col" { "Code" } th scope="col" { "Verb" } th scope="col" { "Resource" }
                th scope="col" { "Object" } th scope="col" { "Client" } th.wide scope="col" { "User" }
            } }
            tbody {
                @for row in rows {
                    @let record = &row.record;
                    tr {
                        td { a href={ "/requests/" (record.sequence) } { (time(&record.at)) } }
                        td { (code(row)) }
                        td.write[is_write(record)] { (verb_of(record)) }
                        @if record.resource.is_empty() {
                            td colspan="2" { code { (record.path) } }
                        } @else {
                            td { (resource_of(record)) }
                            td { (object_name(record)) }
                        }
                        td title=(record.user_agent) { (revisions::client_name(&record.user_agent, &record.user)) }
                        td.wide.muted { (record.user) }
                    }
                }
            }
        }
    }
}

fn code(row: &RequestRow) -> Markup {
    let class = match row.record.status {
        Some(status) if status >= 500 => "badge bad",
        Some(status) if status >= 400 => "badge warn",
        Some(_) if row.open => "badge accent",
        Some(_) => "badge good",
        None => "badge accent",
    };
    html! {
        span class=(class) {
            @match row.record.status {
                Some(_) if row.open => "open",
                Some(status) => (status),
                None => "waits",
            }
        }
    }
}

/// Returns the verb; the method of a request for a document.
fn verb_of(record: &RequestRecord) -> &str {
    match record.verb {
        Some(verb) => verb.as_str(),
        None => &record.method,
    }
}

/// Returns the resource with its group and subresource, as faults name it.
fn resource_of(record: &RequestRecord) -> String {
    let mut text = record.resource.clone();
    if !record.group.is_empty() && !text.is_empty() {
        text.push('.');
        text.push_str(&record.group);
    }
    if let Some(subresource) = &record.subresource {
        text.push('/');
        text.push_str(subresource);
    }
    text
}

fn object_name(record: &RequestRecord) -> String {
    let place = [record.namespace.as_deref(), record.name.as_deref()];
    let place: Vec<&str> = place.into_iter().flatten().collect();
    match (place.as_slice(), &record.name) {
        ([namespace], None) => format!("{namespace}/"),
        (place, _) => place.join("/"),
    }
}

fn object_of(record: &RequestRecord) -> Option<String> {
    let name = record.name.as_deref()?;
    let namespace = record.namespace.as_deref().unwrap_or_default();
    let resource = match record.group.as_str() {
        "" => record.resource.clone(),
        group => format!("{}.{group}", record.resource),
    };
    Some(object_path(&resource, namespace, name))
}

/// Returns the text by which the filter finds a client: its `User-Agent`, or the user of a client without one.
fn client_filter(row: &ClientRow) -> &str {
    or(&row.user_agent, &row.user)
}

fn or<'a>(text: &'a str, instead: &'a str) -> &'a str {
    if text.is_empty() { instead } else { text }
}
