//! A work queue for controllers: keys go in, tickets come out.
//!
//! The queue knows nothing of Kubernetes. It holds keys (see [`Key`]), hands each of them to one
//! worker at a time as a [`Ticket`], and learns from the ticket's end what to do with the key next.
//!
//! # What it promises
//!
//! - **WQ-1** A key is held by at most one ticket.
//! - **WQ-2** An add while a key is held causes exactly one later run of it.
//! - **WQ-3** Every ticket ends: verdict, drop and panic all release the key, and no end loses it.
//! - **WQ-4** Of two delays of one key the earlier deadline stands, and an immediate add absorbs a
//!   pending delay.
//! - **WQ-5** Keys leave by priority, first in first out within one, and a lower priority always
//!   gets a share of the turns, so nothing starves.
//! - **WQ-6** After shut-down no key is handed out and none is accepted; what waited is counted.
//! - **WQ-7** Whoever looks at the queue finds every key that was added before, and no added key waits
//!   unseen while a worker sleeps.
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
//! # Reading order
//!
//! `order` and `waiting` hold the keys that are ready and the keys that are delayed, `table` what is
//! known of each, `index` where in the table it is, and `holdings` what is known of a key only while
//! a ticket holds it; `machine` joins them into the queue's whole behaviour, without a lock and
//! without a clock; `shared` puts the machine behind one lock, and `door` is where keys are left
//! meanwhile; [`Ticket`] and [`Queue`] are what users hold.

mod key;
mod error;
pub mod limiter;
mod metrics;
mod options;
mod ready;
mod delayed;
mod index;
mod table;
mod exchange;
mod held;
mod machine;
mod add_buffer;
mod shared;
mod ticket;
mod queue;

pub use error::{MetricsError, ShutDown};
pub use key::Key;
pub use limiter::RateLimiter;
pub use metrics::Metrics;
pub use options::{AddOptions, Priority, QueueOptions};
pub use queue::Queue;
pub use ticket::Ticket;
