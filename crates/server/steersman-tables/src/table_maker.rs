//! Machine: builds Tables from objects, which `kubectl get` prints.

use std::borrow::Borrow;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_schema::resource::{PrinterColumn, Resource};

use crate::columns::{Columns, Heading};
use crate::forms::{IncludeObject, MetaVersion};
use crate::jsonpath::JsonPath;
use crate::partial::partial;
use crate::{age, builtin, workloads};

/// Builds the Tables of one resource, with its columns prepared once.
#[derive(Debug)]
pub struct TableMaker {
    version: MetaVersion,
    include: IncludeObject,
    columns: ColumnSource,
}

#[derive(Debug)]
enum ColumnSource {
    BuiltIn(Columns),
    Custom(Vec<(PrinterColumn, Option<JsonPath>)>),
}

impl ColumnSource {
    fn custom(columns: &[PrinterColumn]) -> Self {
        let compiled = |one: &PrinterColumn| (one.clone(), JsonPath::parse(&one.json_path));
        Self::Custom(columns.iter().map(compiled).collect())
    }
}

/// The metadata of a Table's list.
#[derive(Debug, Default)]
pub struct TableMeta {
    /// The resource version of the list (`metadata.resourceVersion`); absent if empty.
    pub resource_version: String,
    /// The token of the next page (`metadata.continue`); `None` on the last page.
    pub continue_token: Option<String>,
    /// The number of objects after this page (`metadata.remainingItemCount`).
    pub remaining: Option<u64>,
}

impl TableMaker {
    /// Prepares the columns of a resource.
    pub fn new(resource: &Resource, version: MetaVersion, include: IncludeObject) -> Self {
        let columns = if resource.built_in {
            ColumnSource::BuiltIn(builtin::columns(&resource.plural))
        } else if resource.columns.is_empty() {
            ColumnSource::custom(&[default_column()])
        } else {
            ColumnSource::custom(&resource.columns)
        };
        Self {
            version,
            include,
            columns,
        }
    }

    /// Creates the maker for the scale of a built-in kind, with the columns of a Scale.
    pub fn of_scale(version: MetaVersion, include: IncludeObject) -> Self {
        Self {
            version,
            include,
            columns: ColumnSource::BuiltIn(workloads::SCALES),
        }
    }

    /// Builds a Table of these objects. `with_columns` is false for the later events of a watch.
    pub fn table<O: Borrow<Value>>(
        &self,
        objects: impl Iterator<Item = O>,
        meta: &TableMeta,
        with_columns: bool,
        now: Timestamp,
    ) -> Value {
        let mut metadata = json!({});
        if !meta.resource_version.is_empty() {
            metadata["resourceVersion"] = meta.resource_version.as_str().into();
        }
        if let Some(token) = &meta.continue_token {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(remaining) = meta.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let definitions = with_columns.then(|| self.definitions());
        let rows: Vec<Value> = objects
            .map(|object| self.row(object.borrow(), now))
            .collect();
        json!({
            "kind": "Table",
            "apiVersion": self.version.api_version(),
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        })
    }

    fn definitions(&self) -> Value {
        let built_in = |heading: &Heading| {
            json!({
                "name": heading.name,
                "type": heading.kind,
                "format": heading.format,
                "description": heading.about,
                "priority": i32::from(heading.wide),
            })
        };
        let mut all = Vec::new();
        if !self.says_name() {
            all.push(built_in(&Heading::NAME));
        }
        match &self.columns {
            ColumnSource::BuiltIn(columns) => all.extend(columns.headings.iter().map(built_in)),
            ColumnSource::Custom(columns) => all.extend(columns.iter().map(|(column, _)| {
                json!({
                    "name": column.name,
                    "type": column.kind,
                    "format": column.format,
                    "description": described(column),
                    "priority": column.priority,
                })
            })),
        }
        Value::Array(all)
    }

    /// Returns whether the kind's own columns include the name.
    fn says_name(&self) -> bool {
        matches!(&self.columns, ColumnSource::BuiltIn(columns) if columns.has_name())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Value {
        let mut cells = Vec::new();
        if !self.says_name() {
            let name = object["metadata"]["name"].as_str();
            cells.push(name.unwrap_or_default().into());
        }
        match &self.columns {
            ColumnSource::BuiltIn(columns) => cells.extend(columns.cells(object, now)),
            ColumnSource::Custom(columns) => cells.extend(columns.iter().map(|(column, path)| {
                let first = |path: &JsonPath| path.find(object).first().copied();
                let found = path.as_ref().and_then(first);
                found.map_or(Value::Null, |value| custom_cell(&column.kind, value, now))
            })),
        }
        let included = match self.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Object => object.clone(),
            IncludeObject::Metadata => partial(&object["metadata"], self.version),
        };
        let mut row = json!({ "cells": cells, "object": included });
        if let Some(condition) = completion(object) {
            row["conditions"] = json!([condition]);
        }
        row
    }
}

fn default_column() -> PrinterColumn {
    PrinterColumn {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        format: String::new(),
        description: "Time since the object was created.".to_owned(),
        priority: 0,
        json_path: ".metadata.creationTimestamp".to_owned(),
    }
}

/// Returns the description of a column: its author's, else the path of its values.
fn described(column: &PrinterColumn) -> String {
    if column.description.is_empty() {
        let path = &column.json_path;
        return format!("Custom resource definition column (in JSONPath format): {path}");
    }
    column.description.clone()
}

/// Returns a cell for a value of a custom column; null for a value of another type.
fn custom_cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::Null) => "<no value>".into(),
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("string", other) => other.to_string().into(),
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(real)) => (real as i64).into(),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(_)) => value.clone(),
        ("date", Value::String(_)) => age::since(Some(value), now).into(),
        _ => Value::Null,
    }
}

/// Returns the condition by which kubectl leaves out finished Pods.
fn completion(object: &Value) -> Option<Value> {
    if object["kind"] != "Pod" || object["apiVersion"] != "v1" {
        return None;
    }
    let message = match object["status"]["phase"].as_str()? {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!({
        "type": "Completed",
        "status": "True",
        "reason": object["status"]["phase"],
        "message": message,
    }))
}
