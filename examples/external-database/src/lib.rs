//! An operator of databases that an HTTP service provides.
//!
//! For each [`Database`](database::Database) the operator creates a database at the service and a Secret with
//! credentials, which the service says once. The service sends no events: the operator looks at each database at an
//! interval, and corrects what others changed there. A finalizer deletes the database with its object.
//!
//! The modules in reading order:
//!
//! - [`database`] is the kind, as its users write it.
//! - [`service`] is the service, and the client of the operator: over HTTP, or within this process for tests.
//! - [`plan`] decides what is to be done at the service; [`credentials`] makes and reads Secrets; [`status`] computes
//!   the status. None of them waits.
//! - [`polling`] decides when the operator looks at the service again.
//! - [`controller`] is the reconciler with its watches, and the file to read if you read only one.
//! - [`demo`] runs it on an embedded API server, beside a service on a free port.

pub mod database;
pub mod service;
pub mod plan;
pub mod credentials;
pub mod status;
pub mod polling;
pub mod controller;
pub mod demo;

/// The error of the program.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
