//! The Common Expression Language of validation rules, with static types, cost estimates and cost limits.
//!
//! ```
//! use serde_json::json;
//! use steersman_cel::Rules;
//! use steersman_cel::structural::Structural;
//!
//! let schema = json!({
//!     "type": "object",
//!     "properties": {"replicas": {
//!         "type": "integer",
//!         "x-kubernetes-validations": [{"rule": "self > 0", "message": "at least one replica"}],
//!     }},
//! });
//! let rules = Rules::compile(&Structural::compile(&schema)).expect("the schema has a rule");
//! let verdict = rules.validate(&json!({"replicas": 0}), None);
//! assert_eq!(verdict.errors[0].field, "replicas");
//! assert!(rules.validate(&json!({"replicas": 2}), None).errors.is_empty());
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! The grammar is that of the `cel` crate; types, costs, limits and messages are implemented here.
//!
//! Invariants: no run of an expression exceeds its cost limit, for any expression and any input
//! (CEL-1); type errors are reported when a rule is compiled, not when it runs (CEL-2). See
//! `docs/decisions/0009-rules-are-evaluated-here.md`.
//!
//! # Reading order
//!
//! - [`structural`] reads structural schemas; `types` has the types of expressions.
//! - `authorizer` has the checks that expressions build for an authorizer, and `value` the values of expressions.
//! - `syntax` has the parser (`syntax::parse`) and the syntax tree.
//! - `run` has one run of an expression, with its cost and limits, and `cost_range` has ranges of sizes and costs.
//! - `library` has the table of functions, with the signatures, the cost and the implementation of each.
//! - An expression passes `check`, which infers types, `cost`, which estimates the worst case, and `eval`, which
//!   evaluates within a cost limit. `program` joins the three.
//! - `admission` has the variables of admission expressions, and `expression` runs one within a cost budget.
//! - `rules` compiles the validation rules of CRDs, and `rules::evaluate` evaluates them on an object.
//! - `shard_selector` reads the shard selector of a list, which is an expression, too.

pub mod structural;
mod types;
mod authorizer;
mod value;
mod syntax;
mod run;
mod cost_range;
mod library;
mod check;
mod cost;
mod eval;
mod program;
mod admission;
mod expression;
mod rules;
mod shard_selector;

pub use admission::{Environment, NAMESPACE, REQUEST, REQUEST_RESOURCE};
pub use authorizer::{AccessAttributes, AccessDecider, AccessDecision, Query};
pub use eval::mutation::{configuration, operations};
pub use expression::{Expression, VariableValues, all_hold};
pub use program::{CompileError, Program};
pub use rules::field_paths::field_path;
pub use rules::{RuleVerdict, Rules, ValidationRule};
pub use run::EvalFailure;
pub use shard_selector::ShardSelector;
pub use types::{Decl, MAX_REQUEST, ObjectField, ObjectType, Type};
pub use value::addresses::{Cidr, Url};
pub use value::named_formats::NamedFormat;
pub use value::semver::Semver;
pub use value::{MapKey, Message, Text, Value};
