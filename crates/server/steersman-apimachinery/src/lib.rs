//! Texts of the Kubernetes API: statuses, Go's JSON and YAML, names, versions, quantities, times and selectors.
//!
//! ```
//! use serde_json::json;
//! use steersman_apimachinery::quantity::Quantity;
//! use steersman_apimachinery::selector::LabelSelector;
//!
//! let sum = Quantity::parse("1.5Gi").unwrap().plus(Quantity::parse("512Mi").unwrap());
//! assert_eq!(sum.to_string(), "2Gi");
//!
//! let selector = LabelSelector::parse("app in (web, api), !canary")?;
//! assert!(selector.matches(&json!({"metadata": {"labels": {"app": "web"}}})));
//! # Ok::<(), steersman_apimachinery::status::Status>(())
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! # Reading order
//!
//! - [`go`] reads durations, booleans and the escapes of URLs as Go does, and quotes texts.
//! - [`constant_pattern`] is the type of the patterns that are constants of the server.
//! - [`status`] has the `Status` object of a failure, with the texts of kube-apiserver.
//! - [`json`] parses JSON with the errors of Go's decoder, and [`yaml`] reads and writes YAML as Go does.
//! - [`order`] is the order in which Go writes the fields of metadata.
//! - [`names`] checks names, labels, annotations, finalizers and owner references.
//! - [`patterns`] reads regular expressions in Go's syntax, for schemas and expressions.
//! - [`quantity`], [`zones`], [`times`], [`indexes`] and [`schedule`] read amounts, time zones, times, the indexes of
//!   Jobs and the schedules of CronJobs.
//! - [`selector`] parses label and field selectors, matches objects, and writes selectors.
//! - [`conditions`] reads and writes the conditions in the status of an object, and [`secret_values`] hides the values
//!   of Secrets.
//! - [`versions`] is the order of the versions of a group, and [`verbs`] that of the verbs of permissions.

pub mod go;
pub mod constant_pattern;
pub mod status;
pub mod json;
pub mod yaml;
pub mod order;
pub mod names;
pub mod patterns;
pub mod quantity;
pub mod zones;
pub mod times;
pub mod indexes;
pub mod schedule;
pub mod selector;
pub mod conditions;
pub mod secret_values;
pub mod versions;
pub mod verbs;
