//! Room: what the simulator remembers of the objects in the store, and the queue of objects to process.

pub(crate) mod facts;
pub(crate) mod kinds;
pub(crate) mod nodes;
pub(crate) mod work_queue;
pub(crate) mod cluster_facts;
