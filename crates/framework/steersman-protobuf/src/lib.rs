//! The protobuf encoding of Kubernetes' own kinds.
//!
//! ```
//! use serde_json::json;
//! use steersman_protobuf::{Envelope, encode_object};
//!
//! let namespace = json!({
//!     "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "a" }, "spec": {}, "status": {},
//! });
//! let members = namespace.as_object().expect("it is an object");
//! let bytes = encode_object(members)?.expect("the kind is built in");
//! let envelope = Envelope::open(&bytes)?;
//! assert_eq!((&*envelope.api_version, &*envelope.kind), ("v1", "Namespace"));
//! assert_eq!(envelope.object()?, namespace);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Kubernetes sends each built-in kind as JSON or as protobuf. One table of messages (`src/messages.txt`, generated
//! from Kubernetes' Go types) drives both directions, for the client and for the embedded API server; both are checked
//! against bytes that a real server sent.
//!
//! # Reading order
//!
//! - `table` has [`Message`], and reads the table `src/messages.txt`, which `cargo xtask schemas --go DIR` writes.
//! - `wire` reads and writes the fields of a message; `parts` reads the small messages that are one value in JSON.
//! - `json` appends values to JSON text.
//! - `findings` has [`Keep`], which parts of an object are decoded, and [`Findings`].
//! - `tree` decodes a message into a tree of JSON, for bytes in an order that Go does not write.
//! - `complete` adds the members to a tree of JSON that Go always writes.
//! - [`transcode`] turns a message into JSON text without a tree, from bytes to bytes.
//! - [`mod@encode`] encodes JSON byte for byte as Go does: `encode::values` writes single values, `encode::visitors`
//!   visits the JSON.
//! - [`envelope`] has the envelope of an object, and the events of a watch.
//! - [`stream`] cuts the body of a list into its objects and that of a watch into its events, as the bytes arrive.
//! - `random` makes random objects for tests, with the feature of that name.

mod table;
mod wire;
mod parts;
mod json;
mod findings;
mod tree;
mod complete;
pub mod transcode;
pub mod encode;
pub mod envelope;
pub mod stream;
#[cfg(any(test, feature = "random"))]
pub mod random;

pub use complete::complete_object;
pub use encode::{EncodeError, Encoded, encode, encode_text};
pub use envelope::{Envelope, MEDIA_TYPE, WatchFrame, encode_object, frame, seal, seal_list};
pub use findings::{Findings, Keep, Unknown};
pub use stream::{Frames, ListItems};
pub use table::Message;
pub use transcode::{append_message, append_object};
pub use wire::FieldWriter;

#[cfg(test)]
mod tests;
