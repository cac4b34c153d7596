//! The Common Expression Language of validation rules, typed, costed and bounded.
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! The grammar is that of the `cel` crate; types, costs, limits and messages are the server's.
//!
//! Invariants: no run of an expression goes on beyond its limit, whatever it says and whatever
//! it is given (CEL-1); what does not fit by its type is refused when the rule is written, not
//! when it runs (CEL-2). See `docs/decisions/0009-rules-are-evaluated-here.md`.

pub mod structural;
mod types;
mod ast;
mod parse;
mod authority;
mod functions;
mod check;
mod range;
mod cost;
mod call_cost;
mod times;
mod addresses;
mod semver;
mod formats;
mod value;
mod printing;
mod run;
mod operators;
mod texts;
mod lists;
mod conversions;
mod questions;
mod library;
mod messages;
mod eval;
mod program;
mod admission;
mod expression;
mod paths;
mod rules;

pub use addresses::{Cidr, Url};
pub use admission::{Environment, NAMESPACE, REQUEST, REQUEST_RESOURCE};
pub use authority::{Asked, Authority, Query, Ruling, Step};
pub use expression::{Expression, Made, all_hold};
pub use formats::Named;
pub use messages::{configuration, operations};
pub use paths::field_path;
pub use program::Program;
pub use rules::{Rule, Rules, Verdict};
pub use run::Failure;
pub use semver::Semver;
pub use types::{Decl, Field, MAX_REQUEST, Object, Type, escape};
pub use value::{Key, Message, Text, Value};
