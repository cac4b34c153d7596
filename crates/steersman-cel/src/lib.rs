//! The Common Expression Language of validation rules, typed, costed and bounded.
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! The grammar is that of the `cel` crate; types, costs, limits and messages are the server's.
//!
//! Invariants: no run of an expression exceeds its cost limit, whatever the expression and its
//! input are (CEL-1); type errors are refused when the rule is written, not when it runs (CEL-2).
//! See `docs/decisions/0009-rules-are-evaluated-here.md`.

pub mod structural;
mod types;
mod ast;
mod parse;
mod authorizer;
mod functions;
mod check;
mod cost_range;
mod cost;
mod call_cost;
mod times;
mod addresses;
mod semver;
mod named_formats;
mod value;
mod printing;
mod run;
mod operators;
mod string_functions;
mod list_functions;
mod conversions;
mod authorizer_functions;
mod library;
mod mutation;
mod eval;
mod program;
mod admission;
mod expression;
mod field_paths;
mod rules;

pub use addresses::{Cidr, Url};
pub use admission::{Environment, NAMESPACE, REQUEST, REQUEST_RESOURCE};
pub use authorizer::{Asked, Authority, Query, Ruling, Step};
pub use expression::{Expression, Made, all_hold};
pub use field_paths::field_path;
pub use mutation::{configuration, operations};
pub use named_formats::Named;
pub use program::Program;
pub use rules::{Rule, Rules, Verdict};
pub use run::Failure;
pub use semver::Semver;
pub use types::{Decl, Field, MAX_REQUEST, Object, Type, escape};
pub use value::{Key, Message, Text, Value};
