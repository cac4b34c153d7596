//! Machine: revisions as a list, each with its difference and the request that made it.

use maud::{Markup, html};

use super::layout::{field, time};
use crate::ui::field_changes::{FieldChange, LineSign};
use crate::ui::revisions::{RevisionBy, RevisionChange, RevisionView, RevisionsView};
use crate::ui::route::{object_path, with_query};

/// The number of changed fields that the summary of a revision names.
const NAMED: usize = 3;

/// The length, in characters, up to which a value stands beside its field.
const SHORT: usize = 60;

/// The page of the changes of all objects.
pub(crate) fn changes(view: &RevisionsView) -> Markup {
    let filter = &view.filter;
    let page = |before: Option<u64>| {
        let before = before.map(|before| before.to_string()).unwrap_or_default();
        let pairs = [
            ("resource", filter.resource.as_str()),
            ("namespace", &filter.namespace),
            ("name", &filter.name),
            ("before", &before),
        ];
        with_query("/changes", &pairs)
    };
    html! {
        header.bar {
            h1 { "Changes" }
            form.filter action="/changes" data-filter-form {
                (field("resource", "Resource", &filter.resource))
                (field("namespace", "Namespace", &filter.namespace))
                (field("name", "Name", &filter.name))
                button { "Filter" }
            }
        }
        div id="changes" data-live {
            @if view.revisions.is_empty() {
                p.muted { "No retained revision fits. The server retains revisions from " (view.oldest) " on." }
            }
            (list(&view.revisions, true, false))
            p.pages {
                @if filter.before.is_some() { a href=(page(None)) { "Newest" } }
                @if let Some(next) = view.next { a rel="next" href=(page(Some(next))) { "Older" } }
            }
        }
    }
}

/// Returns revisions as a list. `named` says which object each is of; with `open` the differences are shown at first.
pub(super) fn list(revisions: &[RevisionView], named: bool, open: bool) -> Markup {
    html! {
        ol.revisions {
            @for revision in revisions {
                li id={ "revision-" (revision.revision) } { (item(revision, named, open)) }
            }
        }
    }
}

fn item(revision: &RevisionView, named: bool, open: bool) -> Markup {
    let class = match revision.change {
        RevisionChange::Created => "badge good",
        RevisionChange::Changed => "badge",
        RevisionChange::Deleted => "badge bad",
    };
    let path = object_path(&revision.resource, &revision.namespace, &revision.name);
    html! {
        details id={ "diff-" (revision.revision) } open[open && revision.change != RevisionChange::Created] {
            summary {
                span.number { (revision.revision) } " "
                @if let Some(at) = &revision.at { (time(at)) " " }
                span class=(class) { (revision.change.as_str()) } " "
                @if named {
                    span.muted { (revision.resource) } " "
                    strong { @if !revision.namespace.is_empty() { (revision.namespace) "/" } (revision.name) } " "
                }
                (by(&revision.by)) (managers(revision))
                @if revision.change == RevisionChange::Changed && !open {
                    span.fields { (named_fields(&revision.fields)) }
                }
            }
            @if named { p { a href=(path) { "The object and its history" } } }
            (difference(revision))
        }
    }
}

fn by(by: &RevisionBy) -> Markup {
    html! {
        span.by {
            @match by {
                RevisionBy::Request { sequence, verb, subresource, user, user_agent } => {
                    a href={ "/requests/" (sequence) } {
                        (verb) @if !subresource.is_empty() { " of " (subresource) }
                    }
                    " by " span title={ "user " (user) } { (client_name(user_agent, user)) }
                }
                RevisionBy::ForgottenRequest { sequence } => { "request " (sequence) ", no longer in the log" }
                RevisionBy::Server => {
                    span title="A controller that the server plays, or a method call in its process" { "by the server" }
                }
                RevisionBy::Unknown => { "before the page was served" }
            }
        }
    }
}

/// Names the managers of the changed fields, unless a request says more.
fn managers(revision: &RevisionView) -> Markup {
    let has_request = matches!(revision.by, RevisionBy::Request { .. });
    html! {
        @if !has_request && !revision.managers.is_empty() {
            span.muted { " (" (revision.managers.join(", ")) ")" }
        }
    }
}

/// Returns the start of a `User-Agent`, as field managers are named; the user for a client without one.
pub(super) fn client_name<'a>(user_agent: &'a str, user: &'a str) -> &'a str {
    match user_agent.split([' ', '/']).next().unwrap_or_default() {
        "" if user.is_empty() => "an unnamed client",
        "" => user,
        name => name,
    }
}

/// Names the first changed fields, each with its values if they are short.
fn named_fields(fields: &[FieldChange]) -> Markup {
    html! {
        @if fields.is_empty() { "only managedFields" }
        @for (at, field) in fields.iter().take(NAMED).enumerate() {
            @if at > 0 { ", " }
            (field.path)
            @if let Some((before, after)) = short_change(field) {
                ": " (values(before, after))
            }
        }
        @if fields.len() > NAMED { " and " (fields.len() - NAMED) " more" }
    }
}

/// Returns the values before and after a change, if each is a short line.
fn short_change(field: &FieldChange) -> Option<(Option<&str>, Option<&str>)> {
    let (mut before, mut after) = (None, None);
    for line in &field.lines {
        let side = match line.sign {
            LineSign::Removed => &mut before,
            LineSign::Added => &mut after,
            LineSign::Same | LineSign::Note => return None,
        };
        let is_long = line.text.chars().count() > SHORT;
        if is_long || side.replace(line.text.as_str()).is_some() {
            return None;
        }
    }
    Some((before, after))
}

/// Returns the values before and after a change. Their signs tell them apart without colours.
fn values(before: Option<&str>, after: Option<&str>) -> Markup {
    html! {
        @match (before, after) {
            (Some(before), Some(after)) => { del { (before) } " → " ins { (after) } }
            (Some(before), None) => del { "− " (before) },
            (None, Some(after)) => ins { "+ " (after) },
            (None, None) => {}
        }
    }
}

fn difference(revision: &RevisionView) -> Markup {
    html! {
        @if revision.change == RevisionChange::Deleted {
            p.muted { "The object was deleted with the state of the revision before." }
        } @else if revision.fields.is_empty() {
            p.muted { "Only managedFields changed." }
        }
        @for field in &revision.fields {
            @if let Some((before, after)) = short_change(field) {
                p.change {
                    code.path { (field.path) } " " code { (values(before, after)) }
                }
            } @else {
            div.change {
                @if !field.path.is_empty() { code.path { (field.path) } }
                pre.diff {
                    @for line in &field.lines {
                        @match line.sign {
                            LineSign::Same => span { "  " (line.text) "\n" },
                            LineSign::Removed => del { "- " (line.text) "\n" },
                            LineSign::Added => ins { "+ " (line.text) "\n" },
                            LineSign::Note => span.muted { "… " (line.text) "\n" },
                        }
                    }
                }
            }
            }
        }
    }
}
