//! Words: the log of a process, with its export of traces.

use std::sync::Arc;

use crate::log::LogLevel;
use crate::trace_export::TraceExport;

/// The log of a process, and its export of traces if there is one. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("ProcessLog {{ level: {level:?}, traces: {} }}", traces.is_some())]
pub(crate) struct ProcessLog {
    pub(crate) level: LogLevel,
    pub(crate) traces: Option<Arc<dyn TraceExport>>,
}
