//! Machine: the page of planned faults, with the forms that plan and remove them.

use maud::{Markup, html};

use super::layout::{PageFrame, choice, count, field, grouped};
use super::requests::VERBS;
use crate::ui::faults::{EFFECTS, FaultsView, PRESETS, WATCH_ACTS, describe, describe_condition};
use crate::ui::form::Form;

/// Returns the page. `form` has the fields of the form as the reader or a link filled them, and `problem` says why the
/// last form was refused.
pub(crate) fn faults(
    view: &FaultsView,
    frame: &PageFrame,
    form: &Form,
    problem: Option<&str>,
) -> Markup {
    html! {
        h1 { "Faults" }
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        div id="planned" data-live { (planned(view, frame)) }
        section aria-labelledby="common" {
            h2 #common { "Plan a common fault" }
            div.buttons {
                @for preset in &PRESETS {
                    form method="post" action="/faults" {
                        (frame.token_field())
                        @for (name, value) in preset.fields { input type="hidden" name=(name) value=(value); }
                        button { (preset.title) }
                    }
                }
            }
        }
        section aria-labelledby="another" {
            h2 #another { "Plan another fault" }
            (another(frame, form))
        }
        section aria-labelledby="watches" {
            h2 #watches { "Open watches, and the server" }
            p.muted { (count(view.open_watches, "watch is open", "watches are open")) "." }
            form.filter method="post" action="/watches" {
                (frame.token_field())
                (field("resource", "Watches of (all if empty)", ""))
                span.buttons {
                    @for (act, text) in WATCH_ACTS { button name="do" value=(act) { (text) } }
                }
            }
        }
    }
}

fn planned(view: &FaultsView, frame: &PageFrame) -> Markup {
    html! {
        @if view.planned.is_empty() { p.muted { "No fault is planned: requests are answered as usual." } }
        @else {
            table.flow {
                thead { tr {
                    th scope="col" { "Effect" } th scope="col" { "Which requests" }
                    th.number scope="col" { "Hits" } th scope="col" { span.hidden { "Remove" } }
                } }
                tbody {
                    @for fault in &view.planned {
                        tr {
                            th scope="row" { (describe(&fault.spec.effect)) }
                            td { (describe_condition(fault)) }
                            td.number data-label="hits" { (grouped(usize::try_from(fault.hits).unwrap_or(usize::MAX))) }
                            td {
                                form method="post" action="/faults/remove" {
                                    (frame.token_field())
                                    input type="hidden" name="id" value=(fault.id);
                                    button id={ "remove-" (fault.id) } { "Remove" }
                                }
                            }
                        }
                    }
                }
            }
            form method="post" action="/faults/remove" {
                (frame.token_field())
                input type="hidden" name="id" value="all";
                button { "Remove all" }
            }
        }
    }
}

fn another(frame: &PageFrame, form: &Form) -> Markup {
    let value = |name: &str| form.get(name).unwrap_or_default();
    let number = |name: &str, label: &str| {
        html! {
            label { (label) input.short name=(name) value=(value(name)) inputmode="numeric" autocomplete="off"; }
        }
    };
    html! {
        form.grid method="post" action="/faults" {
            (frame.token_field())
            fieldset {
                legend { "Effect" }
                label {
                    "What happens"
                    select name="effect" {
                        @for (effect, text) in EFFECTS {
                            option value=(effect) selected[effect == value("effect")] { (text) }
                        }
                    }
                }
                (number("code", "Code (503 if empty)"))
                (number("retryAfter", "Retry after, in s"))
                (number("millis", "Delay, in ms (1000 if empty)"))
                (number("revisions", "Age of the list, in revisions"))
            }
            fieldset {
                legend { "Which requests" }
                (choice("verb", "Verb", value("verb"), &VERBS[1..]))
                (field("resource", "Resource, such as deployments.apps/status", value("resource")))
                (field("namespace", "Namespace", value("namespace")))
                (field("name", "Name", value("name")))
                (field("client", "Part of the User-Agent", value("client")))
            }
            fieldset {
                legend { "How many" }
                (number("times", "At most (no limit if empty)"))
                (number("skip", "After the first"))
                (number("percent", "Share, in %"))
                button.primary { "Plan the fault" }
            }
        }
    }
}
