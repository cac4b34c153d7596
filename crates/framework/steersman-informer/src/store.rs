//! Room: the objects of one kind, the views of them, and the handle that reads them.
//!
//! A read takes one lock and sees one version of objects and indexes (STORE-1); two reads may see different versions.
//! Changes are applied in batches; a relist is built beside the store and swapped in.

mod table;
mod index;
mod transition;
mod view;
mod entry_diff;
mod indexer;
mod query;
mod collect;
mod reader;

pub use collect::LazyList;
pub use query::{EntryList, IndexedValue, ObjectList};
pub use reader::Store;

pub(crate) use entry_diff::{EntryDiff, KnownEntries};
pub(crate) use index::{Index, IndexFn};
pub(crate) use indexer::{Effects, Indexer, Relist, StoreChange, ViewSnapshot};
pub(crate) use query::{LABELS, label_values, select, unreadable};
pub(crate) use reader::StoreState;
pub(crate) use view::{IndexFailure, View, ViewEffects, ViewHandle, ViewId, values};
