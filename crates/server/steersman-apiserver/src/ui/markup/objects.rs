//! Machine: the page of the objects of one kind.

use maud::{Markup, html};

use super::layout::{count, field, grouped};
use crate::ui::objects::ObjectsView;
use crate::ui::route::{object_path, objects_path, with_query};

pub(crate) fn objects(view: &ObjectsView) -> Markup {
    let address = objects_path(&view.resource);
    let filter = &view.filter;
    let page = |after: &str| {
        let pairs = [
            ("namespace", filter.namespace.as_str()),
            ("name", &filter.name),
            ("after", after),
        ];
        with_query(&address, &pairs)
    };
    html! {
        p.crumbs { a href="/" { "Objects" } " / " (view.resource) }
        header.bar {
            h1 { (view.kind) " " small.muted { (view.api_version) } }
            form.filter action=(address) data-filter-form {
                @if view.namespaced { (field("namespace", "Namespace", &filter.namespace)) }
                (field("name", "Name", &filter.name))
                button { "Filter" }
            }
        }
        div id="objects" data-live {
            p.muted {
                (range(view)) " · "
                a href=(with_query("/changes", &[("resource", &view.resource)])) { "Changes" } " · "
                a href=(with_query("/requests", &[("resource", &view.resource)])) { "Requests" } " · "
                a href=(with_query("/faults", &[("resource", &view.resource)])) { "Plan a fault" }
            }
            table.flow {
                thead { tr {
                    @if view.namespaced { th scope="col" { "Namespace" } }
                    th scope="col" { "Name" }
                    @for column in &view.columns { th scope="col" { (column) } }
                    th.number scope="col" { "Revision" }
                } }
                tbody {
                    @for row in &view.objects {
                        tr {
                            @if view.namespaced { td.muted { (row.namespace) } }
                            th scope="row" {
                                a href=(object_path(&view.resource, &row.namespace, &row.name)) { (row.name) }
                                @if row.terminating { " " span.badge.warn { "terminating" } }
                            }
                            @for (column, cell) in view.columns.iter().zip(&row.cells) {
                                td data-label=(column.to_lowercase()) { (cell) }
                            }
                            td.number.muted data-label="revision" { (row.revision) }
                        }
                    }
                }
            }
            p.pages {
                @if !filter.after.is_empty() { a href=(page("")) { "First page" } }
                @if let Some(next) = &view.next { a rel="next" href=(page(next)) { "Next page" } }
            }
        }
    }
}

fn range(view: &ObjectsView) -> String {
    let shown = view.objects.len();
    if shown == view.fitting {
        return count(shown, "object", "objects");
    }
    let (first, last) = (view.skipped + 1, view.skipped + shown);
    format!(
        "{} to {} of {}",
        grouped(first),
        grouped(last),
        count(view.fitting, "object", "objects")
    )
}
