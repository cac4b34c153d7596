//! The indexer against a naive map.
