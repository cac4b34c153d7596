//! An operator of databases that an HTTP service provides.
//!
//! For each [`Database`](database::Database), the operator creates a database at the service, and a Secret with the
//! credentials. The service shows a password only in the answer that creates it. It sends no events: the operator polls
//! each database of the service, and corrects changes that other clients made there. A finalizer delays the
//! deletion of a `Database` until the database of the service is deleted.
//!
//! The modules in reading order:
//!
//! - [`database`] is the kind, as its users write it.
//! - [`service`] is the service, and the operator's client of it: over HTTP, or within this process for tests.
//! - `plan` decides which requests the service needs; [`credentials`] makes and reads Secrets; `status` computes
//!   the status. None of them waits.
//! - [`controller`] is the reconciler with its watches, and the file to read if you read only one.
//! - [`demo`] runs it on an embedded API server, beside a service on a free port.

pub mod database;
pub mod service;
mod plan;
pub mod credentials;
mod status;
pub mod controller;
pub mod demo;
