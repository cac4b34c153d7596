//! The store of the embedded API server: objects, their past revisions, and one revision counter for all of them.
//!
//! ```
//! use serde_json::json;
//! use steersman_schema::resource::StorageKey;
//! use steersman_store::{Draft, Store};
//!
//! let mut store = Store::new(1000, 1 << 20);
//! let maps = StorageKey::new("", "configmaps");
//! let object = json!({"metadata": {"namespace": "default", "name": "a"}});
//! let stored = store.put(&maps, "default", "a", Draft::from(object));
//! assert_eq!(store.revision(), 2);
//! assert_eq!(&*stored.name, "a");
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! Invariants:
//!
//! - Each revision is one write of one object (SRV-STORE-1).
//! - A stored object is shared and never mutated (SRV-STORE-2).
//! - The log of past revisions is bounded, in number and in bytes of JSON (SRV-STORE-3).
//! - The position of a watch or a list expires only if a later change of the same resource was compacted (SRV-STORE-4).
//! - Lists are sorted by `namespace/name`, the key from which their next page starts (SRV-STORE-5).
//! - A revision is serialised as JSON once, for all its readers (SRV-STORE-6), and not by the write that makes the
//!   revision (SRV-STORE-10).
//! - Only the newest objects are kept decoded; all other objects are kept as JSON (SRV-STORE-7).
//! - The server works with objects without their managedFields, which stay JSON text (SRV-STORE-8).
//! - A revision is encoded as protobuf at most once, when a reader first needs it (SRV-STORE-9).
//!
//! # Reading order
//!
//! - `change_type`, `head` and `draft`: the type of a change, the parts of an object that are available without
//!   decoding, and an object to store.
//! - `revision_text` is the JSON of a revision, `protobuf_form` its protobuf, and `decoded` its decoded value.
//! - `later_reads` records the reads that decoded an object again, and `decoded_window` chooses the objects that stay
//!   decoded.
//! - `object` is one revision of an object, encoded once for all readers.
//! - `after_writes` has the work that writes postpone until the registry's lock is free.
//! - `machine` is the revision counter, the objects, the log of past revisions and its compaction.

mod change_type;
mod protobuf_form;
mod head;
mod revision_text;
mod draft;
mod later_reads;
mod decoded_window;
mod decoded;
mod object;
mod after_writes;
mod machine;

pub use after_writes::AfterWrites;
pub use change_type::ChangeType;
pub use decoded::Decoded;
pub use draft::Draft;
pub use head::Field;
pub use machine::{Change, Store, Unreadable};
pub use object::Stored;
pub use protobuf_form::ProtobufForm;
pub use revision_text::ManagedFields;
