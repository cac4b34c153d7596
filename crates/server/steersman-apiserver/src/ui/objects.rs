//! Machine: lists the objects of one kind, a page at a time.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use steersman_registry::Registry;
use steersman_schema::resource::Resource;
use steersman_store::Stored;
use steersman_tables::{IncludeObject, MetaVersion, TableMaker, TableMeta};

use super::form::Form;
use super::kinds;

/// The number of objects on a page.
const PAGE: usize = 100;

/// A page of the objects of one kind, with the columns of `kubectl get`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectsView {
    /// The plural and the group.
    pub(crate) resource: String,
    pub(crate) kind: String,
    pub(crate) api_version: String,
    pub(crate) namespaced: bool,
    pub(crate) filter: ObjectFilter,
    /// The number of objects that fit the filter, on all pages.
    pub(crate) fitting: usize,
    /// The number of fitting objects before this page.
    pub(crate) skipped: usize,
    pub(crate) columns: Vec<String>,
    pub(crate) objects: Vec<ObjectRow>,
    /// The `after` of the next page; `None` on the last page.
    pub(crate) next: Option<String>,
}

/// Which objects a page shows.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ObjectFilter {
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    /// A part of the name; empty for all names.
    pub(crate) name: String,
    /// The key of the last object of the previous page; empty for the first page.
    pub(crate) after: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct ObjectRow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) revision: u64,
    pub(crate) terminating: bool,
    /// A cell for each of [`ObjectsView::columns`].
    pub(crate) cells: Vec<String>,
}

/// The objects of a page before their cells are made.
#[derive(Debug)]
pub(crate) struct ObjectPage {
    resource: Arc<Resource>,
    filter: ObjectFilter,
    fitting: usize,
    skipped: usize,
    objects: Vec<Arc<Stored>>,
    has_more: bool,
}

impl ObjectFilter {
    pub(crate) fn of(form: &Form) -> Self {
        Self {
            namespace: form.text("namespace"),
            name: form.text("name"),
            after: form.text("after"),
        }
    }
}

impl ObjectPage {
    /// Finds the objects of a page. The caller holds the registry's lock, so objects are decoded later, by
    /// [`view`](Self::view). Returns `None` for a kind that is not served.
    pub(crate) fn collect(
        registry: &Registry,
        resource: &str,
        filter: ObjectFilter,
    ) -> Option<Self> {
        let resource = kinds::find(registry, resource)?;
        let mut page = Self {
            resource,
            filter,
            fitting: 0,
            skipped: 0,
            objects: Vec::new(),
            has_more: false,
        };
        let namespace = Some(page.filter.namespace.as_str()).filter(|one| !one.is_empty());
        let all = registry.store().list(&page.resource.storage, namespace);
        let name = page.filter.name.as_str();
        for stored in all.filter(|stored| stored.name.contains(name)) {
            page.fitting += 1;
            if !page.filter.after.is_empty() && stored.key() <= page.filter.after {
                page.skipped += 1;
            } else if page.objects.len() < PAGE {
                page.objects.push(Arc::clone(stored));
            } else {
                page.has_more = true;
            }
        }
        Some(page)
    }

    /// Makes the cells of the page's objects, with ages until `now`.
    pub(crate) fn view(self, now: Timestamp) -> ObjectsView {
        let resource = &*self.resource;
        let maker = TableMaker::new(resource, MetaVersion::V1, IncludeObject::None);
        let values = self.objects.iter().map(|stored| stored.look());
        let values: Vec<_> = values.collect();
        let meta = TableMeta::default();
        let table = maker.table(values.iter().map(|value| &**value), &meta, true, now);
        let shown = shown_columns(&table);
        let columns = shown.iter().map(|(_, name)| name.clone()).collect();
        let rows = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
        let rows = self.objects.iter().zip(rows);
        let objects = rows.map(|(stored, row)| ObjectRow {
            namespace: stored.namespace.to_string(),
            name: stored.name.to_string(),
            revision: stored.revision,
            terminating: stored.is_terminating(),
            cells: shown
                .iter()
                .map(|(at, _)| print_cell(&row["cells"][at]))
                .collect(),
        });
        let last = self.objects.last().filter(|_| self.has_more);
        ObjectsView {
            resource: kinds::name_of(resource),
            kind: resource.kind.clone(),
            api_version: resource.api_version(),
            namespaced: resource.namespaced,
            fitting: self.fitting,
            skipped: self.skipped,
            columns,
            objects: objects.collect(),
            next: last.map(|stored| stored.key()),
            filter: self.filter,
        }
    }
}

/// Returns the positions and names of the columns that kubectl shows without `-o wide`, but the name, which is a link.
fn shown_columns(table: &Value) -> Vec<(usize, String)> {
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let shown = columns
        .enumerate()
        .filter(|(_, column)| column["priority"] == 0 && column["format"] != "name");
    let name = |column: &Value| column["name"].as_str().unwrap_or_default().to_owned();
    shown.map(|(at, column)| (at, name(column))).collect()
}

fn print_cell(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
