//! Words: what happens in a world, as its story tells it.

use std::time::Duration;

use serde_json::Value;

use crate::object_id::ObjectId;
use crate::request::OperatorRequest;

/// One thing that happened in a world.
#[derive(Debug, Clone)]
pub struct WorldEvent {
    /// The time since the start of the world.
    pub at: Duration,
    /// What happened.
    pub what: WorldEventKind,
}

/// What happened in a world.
#[derive(Debug, Clone)]
pub enum WorldEventKind {
    /// The user did a step; the text continues "the user", such as `applies site.yaml: Site shop/a`.
    User(String),
    /// A process of the operator started. Processes count from 1.
    Started {
        /// The number of the process.
        process: usize,
    },
    /// A process of the operator ended by itself.
    Exited {
        /// The number of the process.
        process: usize,
        /// How it ended, such as `exit code 1` or `a panic`.
        how: String,
        /// The last lines that the process printed.
        output: Vec<String>,
    },
    /// The operator read: a get, a list or a watch.
    Read {
        /// The request.
        request: OperatorRequest,
        /// The status code that the operator received; `None` if it received no answer.
        code: Option<u16>,
    },
    /// The operator wrote.
    Wrote {
        /// The request, with the name of a created object.
        request: OperatorRequest,
        /// The number of the write in this world, from 1; `None` for a write that is no point, such as one of a Lease.
        number: Option<usize>,
        /// The status code that the server gave the write; `None` if the write was not carried out.
        code: Option<u16>,
        /// What the write changed; `None` if it changed nothing.
        change: Option<ObjectChange>,
    },
    /// The exploration perturbed the world; the text is a sentence without a full stop, such as
    /// `the operator is killed before write 3 is carried out`.
    Perturbed(String),
    /// The operator was quiet for the time that the scenario sets.
    Quiet,
}

/// A change of one object.
#[derive(Debug, Clone)]
pub struct ObjectChange {
    /// The object.
    pub id: ObjectId,
    /// The object before; `None` if it was created.
    pub before: Option<Value>,
    /// The object after; `None` if it is gone.
    pub after: Option<Value>,
}
