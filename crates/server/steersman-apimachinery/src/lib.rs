//! Texts of the Kubernetes API: statuses, Go's JSON and YAML, names, versions, quantities, times and
//! selectors.
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

pub mod go;
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
pub mod versions;
pub mod verbs;
