//! Pages and events from bytes.
