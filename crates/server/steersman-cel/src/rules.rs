//! Machine: compiles the validation rules of a schema.

pub(crate) mod field_paths;
mod evaluate;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::program::{CompileError, Program};
use crate::run::EvalFailure;
use crate::structural::{Additional, Structural};
use crate::types::{Decl, Type};
use crate::value::Value;
use steersman_apimachinery::status::FieldError;

/// A compiled entry of `x-kubernetes-validations`: one rule of a schema node.
#[derive(Debug)]
pub struct ValidationRule {
    text: String,
    message: String,
    reason: String,
    /// The path below the checked value that errors report (`fieldPath`); `None` reports the path of the checked value.
    field: Option<String>,
    /// Whether `oldSelf` is an optional (`optionalOldSelf`), so that the rule also runs when there is no old value.
    pub optional_old: bool,
    /// The compiled `rule`, or its compile error; `None` for an empty rule.
    pub program: Option<Result<Program, String>>,
    /// The compiled `messageExpression`, or its compile error; `None` if the rule has none.
    pub made_message: Option<Result<Program, String>>,
}

/// The compiled validation rules of a schema node, and of the nodes below it.
#[derive(Debug)]
pub struct Rules {
    here: Vec<ValidationRule>,
    decl: Arc<Decl>,
    /// The JSON type of the checked value, which error messages print.
    kind: String,
    properties: BTreeMap<String, Self>,
    values: Option<Box<Self>>,
    items: Option<Box<Self>>,
    all_of: Vec<Self>,
    /// The key fields of a list of type `map`, by which an item's old value is found; empty for other lists.
    keys: Vec<String>,
}

/// The result of evaluating all rules of a schema on one object.
#[derive(Debug, Default)]
pub struct RuleVerdict {
    /// The errors for which the object is refused.
    pub errors: Vec<FieldError>,
    /// The messages of failed rules about values that the update did not change. Such an object is accepted.
    pub warnings: Vec<String>,
}

impl ValidationRule {
    /// Compiles one entry of `x-kubernetes-validations`; `decl` declares the values that the rule checks.
    pub fn compile(rule_json: &Json, decl: &Decl, schema: &Structural) -> Self {
        let text = |name: &str| rule_json[name].as_str().unwrap_or_default().to_owned();
        let optional_old = rule_json["optionalOldSelf"] == true;
        let kind = decl.kind.clone();
        let old = if optional_old {
            Type::optional(kind.clone())
        } else {
            kind.clone()
        };
        let variables = [("self", kind), ("oldSelf", old)];
        let rule = text("rule");
        let program = (!rule.trim().is_empty()).then(|| {
            let program = Program::compile(&rule, &variables).map_err(|wrong| wrong.to_string())?;
            if *program.result() == Type::Bool {
                Ok(program)
            } else {
                Err("cel expression must evaluate to a bool".to_owned())
            }
        });
        let maker = text("messageExpression");
        let compiled = matches!(&program, Some(Ok(_)));
        let made_message = (compiled && !maker.is_empty()).then(|| {
            let program = Program::compile(&maker, &variables).map_err(|wrong| match wrong {
                CompileError::Invalid(_) => format!("messageExpression {wrong}"),
                CompileError::Constant(why) => {
                    format!("messageExpression instantiation failed: {why}")
                }
            })?;
            if *program.result() == Type::String {
                Ok(program)
            } else {
                Err("messageExpression must evaluate to a string".to_owned())
            }
        });
        let field = text("fieldPath");
        Self {
            message: text("message").trim().to_owned(),
            reason: text("reason"),
            field: field_paths::field_path(&field, schema).filter(|_| !field.is_empty()),
            text: rule.trim().to_owned(),
            optional_old,
            program,
            made_message,
        }
    }

    /// Returns whether the rule uses `oldSelf`, so that it compares a value with the value before the update.
    pub fn uses_old(&self) -> bool {
        matches!(&self.program, Some(Ok(program)) if program.uses("oldSelf"))
    }

    fn source(&self) -> &str {
        if self.message.is_empty() {
            &self.text
        } else {
            &self.message
        }
    }

    fn variables<'a>(
        &self,
        decl: &'a Decl,
        object: &'a Json,
        old: Option<&'a Json>,
    ) -> Result<[(&'static str, Value<'a>); 2], String> {
        let this = Value::of(object, Some(decl))?;
        let before = old.map(|old| Value::of(old, Some(decl))).transpose()?;
        let before = if self.optional_old {
            before.map_or(Value::NONE, Value::some)
        } else {
            before.unwrap_or(Value::Null)
        };
        Ok([("self", this), ("oldSelf", before)])
    }

    /// Returns the error message for a rule that could not be evaluated.
    fn failure_message(&self, failure: &EvalFailure) -> String {
        let rule = self.source();
        match failure {
            EvalFailure::Limit => format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
            ),
            EvalFailure::Error(why) if why.starts_with("no such overload") => format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
            ),
            EvalFailure::Error(why) => format!("{why} evaluating rule: {rule}"),
        }
    }

    fn detail(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.text)
        } else {
            self.message.clone()
        }
    }

    fn refusal(&self, field: &str, object: &Json, detail: &str) -> FieldError {
        let shown = match object {
            Json::Array(_) | Json::Object(_) => None,
            scalar => Some(scalar.to_string()),
        };
        match (self.reason.as_str(), shown) {
            ("FieldValueForbidden", _) => FieldError::forbidden(field, detail),
            ("FieldValueRequired", _) => FieldError::required(field, detail),
            ("FieldValueDuplicate", shown) => {
                FieldError::duplicate(field, shown.as_deref().unwrap_or_default())
            }
            (_, None) => FieldError::invalid_hidden(field, detail),
            (_, Some(shown)) => FieldError::invalid(field, &shown, detail),
        }
    }
}

impl Rules {
    /// Compiles the rules of a resource's schema. Returns `None` if the schema has no rules.
    pub fn compile(schema: &Structural) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        let decl = Decl::of(schema, true, "selfType")?;
        Self::node(schema, schema, Arc::new(decl))
    }

    /// Evaluates a schema's rules on its `default`. `root` is true for a whole resource; errors name the path `field`.
    pub fn of_default(
        schema: &Structural,
        root: bool,
        default: &Json,
        field: &str,
    ) -> Vec<FieldError> {
        let decl = Some(schema).filter(|schema| has_rules(schema));
        let decl = decl.and_then(|schema| Decl::of(schema, root || schema.embedded, "selfType"));
        let rules = decl.and_then(|decl| Self::node(schema, schema, Arc::new(decl)));
        rules.map_or_else(Vec::new, |rules| evaluate::default(&rules, default, field))
    }

    /// Compiles the rules of the schema `ruled`; `schema` has the types of its values. The two are the same, except in
    /// `allOf`: there `ruled` is a branch of `schema`.
    fn node(ruled: &Structural, schema: &Structural, decl: Arc<Decl>) -> Option<Self> {
        let rules = &ruled.rules;
        let compile = |rule: &Json| ValidationRule::compile(rule, &decl, schema);
        let here: Vec<ValidationRule> = rules.validations.iter().map(compile).collect();
        let mut properties = BTreeMap::new();
        for (name, ruled) in ruled.properties.iter() {
            let Some(sub) = schema.properties.get(name) else {
                continue;
            };
            let own = decl.property(name, || sub);
            let below = own.and_then(|decl| Self::node(ruled, sub, decl));
            properties.extend(below.map(|below| (name.to_owned(), below)));
        }
        let below = |ruled: Option<&Structural>, sub: Option<&Structural>| {
            Self::node(ruled?, sub?, decl.items.clone()?).map(Box::new)
        };
        let items = below(ruled.items.as_deref(), schema.items.as_deref());
        let values = below(ruled.additional.schema(), schema.additional.schema());
        let all_of = rules.all_of.iter().filter(|ruled| has_rules(ruled));
        let all_of = all_of.filter_map(|ruled| Self::node(ruled, schema, Arc::clone(&decl)));
        let all_of: Vec<Self> = all_of.collect();
        let empty = here.is_empty()
            && properties.is_empty()
            && items.is_none()
            && values.is_none()
            && all_of.is_empty();
        (!empty).then(|| Self {
            here,
            kind: schema.kind.to_string(),
            properties,
            values,
            items,
            all_of,
            keys: if schema.rules.list_type == "map" {
                schema.rules.list_map_keys.clone()
            } else {
                Vec::new()
            },
            decl,
        })
    }

    /// Evaluates the rules on an object; `old` is the stored object on an update, and `None` on creation.
    ///
    /// The evaluation never costs more than its budget (CEL-1).
    pub fn validate(&self, object: &Json, old: Option<&Json>) -> RuleVerdict {
        evaluate::object(self, object, old)
    }
}

fn has_rules(schema: &Structural) -> bool {
    !schema.rules.validations.is_empty()
        || schema.properties.iter().any(|(_, sub)| has_rules(sub))
        || schema.items.as_deref().is_some_and(has_rules)
        || matches!(&schema.additional, Additional::Schema(sub) if has_rules(sub))
        || schema.rules.all_of.iter().any(|sub| has_rules(sub))
}

#[cfg(test)]
mod tests;
