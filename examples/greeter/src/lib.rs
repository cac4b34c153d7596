//! The operator `greeter`: its kinds and their controllers.

pub mod api;
pub mod controllers;
