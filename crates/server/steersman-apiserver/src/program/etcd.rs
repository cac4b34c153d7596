//! Room: the program called `etcd`, which answers health checks and keeps the snapshot of one kube-apiserver.
//!
//! The two programs speak a small interface over HTTP on the client URL. A kube-apiserver attaches with a request that
//! stays open as long as its process lives. As long as it is attached, no other kube-apiserver can attach, and only it
//! reads and writes the snapshot.

mod interface;
mod options;
mod snapshot_hold;
mod service;
mod client;
mod run;

pub(crate) use client::{AppendConnection, AttachOutcome, Attachment, EtcdState, attach};
pub(crate) use options::address_of;
#[cfg(test)]
pub(crate) use options::flags;
pub(crate) use run::run;
