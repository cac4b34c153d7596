//! Tables, which `kubectl get` prints: the columns of the built-in kinds and of custom resources, and their cells.
//!
//! ```
//! use jiff::Timestamp;
//! use serde_json::json;
//! use steersman_schema::builtin::built_in;
//! use steersman_tables::{IncludeObject, MetaVersion, TableMaker, TableMeta};
//!
//! let resources = built_in();
//! let maps = resources.iter().find(|one| one.is("", "ConfigMap")).expect("the kind is built in");
//! let maker = TableMaker::new(maps, MetaVersion::V1, IncludeObject::None);
//! let map = json!({"metadata": {"name": "a"}, "data": {"key": "value"}});
//! let table = maker.table([map].iter(), &TableMeta::default(), true, Timestamp::UNIX_EPOCH);
//! assert_eq!(table["rows"][0]["cells"], json!(["a", 1, "<unknown>"]));
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! # Reading order
//!
//! - `forms` has the forms in which a client asks for tables.
//! - `age`, `cells` and `columns` help to write the columns of a family of kinds: `access`, `cluster`, `devices`,
//!   `events`, `network`, `pods`, `policies`, `storage` and `workloads`.
//! - `builtin` finds the columns of a built-in kind, and `jsonpath` the cells of custom columns.
//! - `partial` has the form with the metadata alone.
//! - `table_maker` builds a Table.

mod forms;
mod age;
mod cells;
mod columns;
mod access;
mod cluster;
mod devices;
mod events;
mod network;
mod pods;
mod policies;
mod storage;
mod workloads;
mod builtin;
mod jsonpath;
mod partial;
mod table_maker;

pub use forms::{IncludeObject, MetaVersion};
pub use partial::{partial, partial_text};
pub use table_maker::{TableMaker, TableMeta};
