//! Tests of the manifests of an operator.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod examples;
mod golden;
mod render;
mod chart;
mod names;
mod install;
mod implied;
mod sites;
mod own_role;
mod cert_manager;
mod printer_columns;
mod kustomize;
mod monitoring;
