//! A work queue for controllers: keys go in, tickets come out.
//!
//! ```
//! use steersman_workqueue::{Queue, QueueOptions};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let queue = Queue::new(QueueOptions::new("websites"));
//! queue.add("default/home");
//! queue.add("default/home"); // A duplicate: the key already waits.
//! let ticket = queue.next().await.expect("the queue is open");
//! assert_eq!(*ticket.key(), "default/home");
//! ticket.forget();
//! assert!(queue.idle());
//! # }
//! ```
//!
//! The queue is independent of Kubernetes. It holds keys (see [`Key`]) and hands each key to one worker at a time as a
//! [`Ticket`]; the end of the ticket decides what happens to the key next.
//!
//! # What it promises
//!
//! - **WQ-1** A key is held by at most one ticket.
//! - **WQ-2** An add while a key is held causes exactly one later run of the key.
//! - **WQ-3** Every ticket ends: verdict, drop and panic all release the key, and no end loses it.
//! - **WQ-4** Of two delays of one key the earlier deadline stands, and an immediate add absorbs a
//!   pending delay; a retry is absorbed for good only if the run succeeds (WQ-11).
//! - **WQ-5** Keys leave by priority, first in first out within one, and the oldest key always gets a
//!   share of the turns, so no key starves.
//! - **WQ-6** After a shut-down no key is handed out and none is accepted; dropped keys are counted.
//! - **WQ-7** Every access to the queue finds every key that was added before, and no added key waits unnoticed while a
//!   worker is parked.
//! - **WQ-11** A run that an add causes before the retry of its key is due costs no attempt: if it fails, the
//!   key runs again at the deadline of that retry.
//! - **WQ-12** Adds that are spaced in a backoff run before the retry after pauses that double with each failure.
//! - **WQ-13** With a limit of runs, no span of its length holds more runs of one key.
//!
//! # Reading order
//!
//! - `key` has [`Key`], `causes` names why a key runs, and `error` has the errors.
//! - [`limiter`] decides the delay of a key that failed: `limiter::exponential` after each failure, `limiter::windows`
//!   by a limit of the runs of each key.
//! - `metrics` and `options` are the vocabulary of the handle.
//! - `ready` selects the next ready key, and `delayed` holds the delayed keys by their deadlines.
//! - `table` has one slot for each key that the queue knows, `index` finds that slot with one random access to memory,
//!   and `held` has what is known of a key only while a ticket holds it.
//! - `report` has what a queue shows of its keys to people, such as [`QueueReport`]; `machine::reports` makes it.
//! - `exchange` has the inputs and outputs of the machine, such as [`Verdict`].
//! - `machine` joins them into the whole behaviour of the queue, without a lock and without a clock: which keys are
//!   ready, delayed or held, and which key is next. `machine::arrivals` decides where an add or a passed deadline puts
//!   a key, and `machine::verdicts` what the end of a ticket does.
//! - `sync` has the locks of production and those of loom. `add_buffer` collects adds while the queue has a backlog, so
//!   that the machine applies many at once.
//! - `shared` puts the machine behind one lock; `ticket` has [`Ticket`] and `queue` [`Queue`], the handles.

mod key;
mod causes;
mod error;
pub mod limiter;
mod metrics;
mod options;
mod ready;
mod delayed;
mod index;
mod held;
mod table;
mod exchange;
mod report;
mod sync;
mod machine;
mod add_buffer;
mod shared;
mod ticket;
mod queue;

pub use causes::Causes;
pub use error::{MetricsError, ShutDown};
pub use exchange::Verdict;
pub use key::Key;
pub use limiter::RateLimiter;
pub use metrics::Metrics;
pub use options::{AddOptions, Priority, QueueOptions};
pub use queue::Queue;
pub use report::{KeyReport, KeyState, QueueReport};
pub use ticket::Ticket;
