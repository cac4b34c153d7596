//! Room: the Common Expression Language of validation rules, typed, costed and bounded.
//!
//! The grammar is that of the `cel` crate; types, costs, limits and messages are the server's.
//!
//! Invariants: no run of an expression goes on beyond its limit, whatever it says and whatever
//! it is given (CEL-1); what does not fit by its type is refused when the rule is written, not
//! when it runs (CEL-2). See `docs/decisions/0009-rules-are-evaluated-here.md`.

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

pub(crate) use addresses::Url;
pub(crate) use admission::{Environment, NAMESPACE, REQUEST, REQUEST_RESOURCE};
pub(crate) use authority::{Asked, Authority, Query, Ruling};
pub(crate) use expression::{Expression, Made, all_hold};
pub(crate) use messages::{configuration, operations};
pub(crate) use paths::field_path;
pub(crate) use rules::{Rule, Rules};
pub(crate) use types::{Decl, MAX_REQUEST, Type, escape};
pub(crate) use value::Value;
