//! Machine: the page of one object.

use maud::{Markup, html};

use super::layout::count;
use super::revisions;
use crate::ui::field_owners::OwnersView;
use crate::ui::object::{ConditionRow, ObjectState, ObjectView};
use crate::ui::route::{object_path, objects_path, with_query};

pub(crate) fn object(view: &ObjectView, is_first_page: bool) -> Markup {
    let path = object_path(&view.resource, &view.namespace, &view.name);
    html! {
        p.crumbs {
            a href="/" { "Objects" } " / " a href=(objects_path(&view.resource)) { (view.resource) }
            @if !view.namespace.is_empty() {
                " / "
                a href=(with_query(&objects_path(&view.resource), &[("namespace", &view.namespace)])) { (view.namespace) }
            }
        }
        h1 { (view.name) " " small.muted { (view.kind) " · " (view.api_version) } }
        div id="state-of-object" data-live {
            (state(&view.state))
            p {
                a href=(with_query("/requests", &[("resource", &view.resource), ("namespace", &view.namespace),
                    ("text", &view.name)])) { "Requests for this object" }
            }
        }
        p.parts {
            a href="#history" { "History" } a href="#fields" { "Owners of fields" } a href="#yaml" { "YAML" }
        }
        section aria-labelledby="history" {
            h2 #history { "History" }
            div id="revisions" data-live {
                @if view.history.is_empty() { p.muted { "No revision of this object is retained." } }
                (revisions::list(&view.history, false, true))
                p.pages {
                    @if !is_first_page { a href=(path) { "Newest" } }
                    @if let Some(next) = view.next {
                        a rel="next" href=(with_query(&path, &[("before", &next.to_string())])) { "Older" }
                    }
                }
            }
        }
        section aria-labelledby="fields" {
            header.bar {
                h2 #fields { "Owners of fields" }
                @if !view.owners.fields.is_empty() {
                    label.search { "Filter " input type="search" data-filter="owners" autocomplete="off" spellcheck="false"; }
                }
            }
            div id="owners" data-live { (owners(&view.owners)) }
        }
        section aria-labelledby="yaml" {
            h2 #yaml { "YAML" }
            div id="text" data-live { pre { (view.yaml) } }
        }
    }
}

fn state(state: &ObjectState) -> Markup {
    let is_behind = state
        .observed_generation
        .is_some_and(|observed| Some(observed) != state.generation);
    html! {
        @if !state.exists { p { span.badge.bad { "deleted" } " This is the last retained state." } }
        dl.facts {
            div { dt { "revision" } dd { (state.revision) } }
            @if let Some(generation) = state.generation {
                div { dt { "generation" } dd {
                    (generation)
                    @if let Some(observed) = state.observed_generation {
                        " "
                        span.badge.warn[is_behind] { "observed " (observed) }
                    }
                } }
            }
            @if !state.created.is_empty() { div { dt { "created" } dd { (state.created) } } }
            @if !state.deleting_since.is_empty() {
                div { dt { "deleting since" } dd { span.badge.warn { (state.deleting_since) } } }
            }
            @if !state.finalizers.is_empty() { div { dt { "finalizers" } dd { (state.finalizers.join(", ")) } } }
            @for owner in &state.owners {
                div { dt { @if owner.controller { "controlled by" } @else { "owned by" } } dd {
                    @match &owner.resource {
                        Some(resource) => {
                            a href=(object_path(resource, &owner.namespace, &owner.name)) { (owner.kind) " " (owner.name) }
                        }
                        None => { (owner.kind) " " (owner.name) }
                    }
                } }
            }
            @if !state.uid.is_empty() { div { dt { "uid" } dd { code { (state.uid) } } } }
        }
        @if !state.conditions.is_empty() { (conditions(&state.conditions)) }
    }
}

fn conditions(conditions: &[ConditionRow]) -> Markup {
    html! {
        table.flow {
            thead { tr {
                th scope="col" { "Condition" } th scope="col" { "Status" } th scope="col" { "Reason" }
                th scope="col" { "Message" } th scope="col" { "Since" }
            } }
            tbody {
                @for one in conditions {
                    tr {
                        th scope="row" { (one.kind) }
                        td { span class=(condition_class(one)) { (one.status) } }
                        td { (one.reason) }
                        td { (one.message) }
                        td.muted { (one.since) }
                    }
                }
            }
        }
    }
}

/// Returns the class of a condition's status. Most conditions are good when they are true; of the others, their names
/// say so.
fn condition_class(condition: &ConditionRow) -> &'static str {
    let bad = [
        "Stalled", "Failed", "Failure", "Pressure", "Degraded", "Unavailable", "Error",
    ];
    let is_bad_news = bad.iter().any(|word| condition.kind.ends_with(word));
    match (condition.status.as_str(), is_bad_news) {
        ("True", false) | ("False", true) => "badge good",
        ("False", false) | ("True", true) => "badge bad",
        _ => "badge warn",
    }
}

fn owners(view: &OwnersView) -> Markup {
    let name = |number: &usize| {
        let manager = view.managers.get(*number);
        manager.map_or("", |one| one.manager.as_str())
    };
    html! {
        @if view.managers.is_empty() { p.muted { "The object has no managedFields." } }
        @else {
            table.flow {
                thead { tr {
                    th scope="col" { "Manager" } th scope="col" { "Operation" } th scope="col" { "Part" }
                    th scope="col" { "Last write" } th.number scope="col" { "Fields" }
                } }
                tbody {
                    @for one in &view.managers {
                        tr {
                            th scope="row" { (one.manager) }
                            td { span.badge.accent[one.operation == "Apply"] { (one.operation) } }
                            td { @if one.subresource.is_empty() { "object" } @else { (one.subresource) } }
                            td.muted { (one.time) }
                            td.number data-label="fields" { (one.fields) }
                        }
                    }
                }
            }
            details id="owned" open {
                summary { (count(view.fields.len(), "owned field", "owned fields")) }
                table.flow {
                    thead { tr { th scope="col" { "Field" } th scope="col" { "Value" } th scope="col" { "Owners" } } }
                    tbody {
                        @for field in &view.fields {
                            tr data-row {
                                th scope="row" { code { (field.path) } }
                                td.value { @if let Some(value) = &field.value { (value) } }
                                td {
                                    @for owner in &field.owners { span.badge.warn[field.owners.len() > 1] { (name(owner)) } " " }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
