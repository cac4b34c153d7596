//! Machine: the page of all kinds.

use maud::{Markup, html};

use super::layout::{count, grouped};
use crate::ui::kinds::{KindRow, KindsView};
use crate::ui::route::{objects_path, with_query};

pub(crate) fn kinds(view: &KindsView) -> Markup {
    let (empty, used): (Vec<_>, Vec<_>) = view
        .kinds
        .iter()
        .partition(|row| row.built_in && row.objects == 0);
    html! {
        header.bar {
            h1 { "Objects" }
            label.search { "Filter " input type="search" data-filter="kinds" autocomplete="off" spellcheck="false"; }
        }
        div id="kinds" data-live {
            p.muted { (count(view.objects, "object", "objects")) " of " (count(used.len(), "kind", "kinds")) "." }
            (table(&used))
            @if !empty.is_empty() {
                details id="empty" {
                    summary { (count(empty.len(), "built-in kind", "built-in kinds")) " without objects" }
                    (table(&empty))
                }
            }
        }
    }
}

fn table(rows: &[&KindRow]) -> Markup {
    html! {
        table.flow {
            thead { tr {
                th scope="col" { "Kind" } th scope="col" { "Resource" } th scope="col" { "API version" }
                th.number scope="col" { "Objects" } th.number scope="col" { "Last change" }
            } }
            tbody {
                @for row in rows {
                    tr data-row {
                        th scope="row" { a href=(objects_path(&row.resource)) { (row.kind) } }
                        td { code { (row.resource) } }
                        td.muted { (row.api_version) @if !row.namespaced { " · cluster" } }
                        td.number data-label="objects" { (grouped(row.objects)) }
                        td.number.muted data-label="last change" {
                            @if let Some(revision) = row.last_change {
                                a href=(with_query("/changes", &[("resource", &row.resource)])) { (revision) }
                            }
                        }
                    }
                }
            }
        }
    }
}
