//! Room: a small service that provides databases over HTTP, and its client.

pub mod records;
pub mod server;
pub mod client;

pub use client::{DatabaseClient, ServiceError};
pub use records::{Records, Settings};
pub use server::DatabaseService;
