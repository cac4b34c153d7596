//! Machine: the validation rules of a schema, compiled, and what they say of an object.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::paths;
use super::program::{CALL_LIMIT, Program};
use super::run::Failure;
use super::types::{Decl, Type, escape};
use super::value::Value;
use crate::schema::structural::{Additional, Structural};
use crate::status::FieldError;

/// What all rules of an object may cost together: about a second.
const BUDGET: u64 = 10_000_000;

/// A message that a rule makes may have this many bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

const SPENT: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// One of `x-kubernetes-validations`, compiled.
#[derive(Debug)]
pub(crate) struct Rule {
    text: String,
    message: String,
    reason: String,
    /// Where the error is told, below the value that the rule stands on.
    field: Option<String>,
    pub(crate) optional_old: bool,
    /// Nothing where the rule is empty.
    pub(crate) program: Option<Result<Program, String>>,
    pub(crate) made_message: Option<Result<Program, String>>,
}

/// The rules of a node of a schema and of those below it.
#[derive(Debug)]
pub(crate) struct Rules {
    here: Vec<Rule>,
    decl: Arc<Decl>,
    /// The JSON type, for messages.
    kind: String,
    properties: BTreeMap<String, Self>,
    values: Option<Box<Self>>,
    items: Option<Box<Self>>,
    all_of: Vec<Self>,
    /// Whether members can be found again in the old object.
    granular: bool,
    /// The keys of a list that is a map, whose items can be found again.
    keys: Vec<String>,
}

/// What rules say of an object.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) errors: Vec<FieldError>,
    /// Errors in what was stored as it is, of which its author is only told.
    pub(crate) warnings: Vec<String>,
}

/// A value and what it was before.
type Pair<'a> = (&'a Json, &'a Json);

/// What is known of a value's past, for rules that came after it.
#[derive(Debug, Clone, Copy, Default)]
struct Past<'a> {
    current: Option<Pair<'a>>,
    /// The next one above that has a past.
    parent: Option<Pair<'a>>,
}

impl<'a> Past<'a> {
    /// Whether the value, or what it stands in, is what it was.
    fn is_unchanged(self) -> bool {
        self.current
            .or(self.parent)
            .is_some_and(|(new, old)| new == old)
    }

    fn below(self, next: Option<Pair<'a>>) -> Self {
        match self.current {
            None => self,
            current => Self {
                current: next,
                parent: current,
            },
        }
    }
}

impl Rule {
    /// Compiles a rule on a value of the declared type.
    pub(crate) fn compile(told: &Json, decl: &Decl, schema: &Structural) -> Self {
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        let optional_old = told["optionalOldSelf"] == true;
        let kind = decl.kind.clone();
        let old = if optional_old {
            Type::optional(kind.clone())
        } else {
            kind.clone()
        };
        let variables = [("self", kind), ("oldSelf", old)];
        let rule = text("rule");
        let program = (!rule.trim().is_empty()).then(|| {
            let program = Program::compile(&rule, &variables)
                .map_err(|wrong| format!("compilation failed: {wrong}"))?;
            if *program.result() == Type::Bool {
                Ok(program)
            } else {
                Err("cel expression must evaluate to a bool".to_owned())
            }
        });
        let maker = text("messageExpression");
        let compiled = matches!(&program, Some(Ok(_)));
        let made_message = (compiled && !maker.is_empty()).then(|| {
            let program = Program::compile(&maker, &variables)
                .map_err(|wrong| format!("messageExpression compilation failed: {wrong}"))?;
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
            field: paths::field_path(&field, schema).filter(|_| !field.is_empty()),
            text: rule.trim().to_owned(),
            optional_old,
            program,
            made_message,
        }
    }

    /// Whether the rule compares with what was.
    pub(crate) fn uses_old(&self) -> bool {
        matches!(&self.program, Some(Ok(program)) if program.uses("oldSelf"))
    }

    /// The rule as errors name it.
    fn told(&self) -> &str {
        if self.message.is_empty() {
            &self.text
        } else {
            &self.message
        }
    }

    /// What the rule sees.
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

    /// Why the rule could not be evaluated.
    fn told_failure(&self, failure: &Failure) -> String {
        let rule = self.told();
        match failure {
            Failure::Limit => format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
            ),
            Failure::Error(why) if why.starts_with("no such overload") => format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
            ),
            Failure::Error(why) => format!("{why} evaluating rule: {rule}"),
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
    /// Compiles the rules of a resource's schema; nothing where it has none.
    pub(crate) fn compile(schema: &Structural) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        let decl = Decl::of(schema, true, "selfType")?;
        Self::node(schema, schema, Arc::new(decl))
    }

    /// The rules that `told` has for the node `schema`: they are the same but below `allOf`.
    fn node(told: &Structural, schema: &Structural, decl: Arc<Decl>) -> Option<Self> {
        let rules = &told.rules;
        let here: Vec<Rule> = rules
            .validations
            .iter()
            .map(|rule| Rule::compile(rule, &decl, schema))
            .collect();
        let mut properties = BTreeMap::new();
        for (name, told) in &told.properties {
            let Some(sub) = schema.properties.get(name) else {
                continue;
            };
            let below = child(&decl, name, sub).and_then(|decl| Self::node(told, sub, decl));
            properties.extend(below.map(|below| (name.clone(), below)));
        }
        let below = |told: Option<&Structural>, sub: Option<&Structural>| {
            Self::node(told?, sub?, decl.items.clone()?).map(Box::new)
        };
        let items = below(told.items.as_deref(), schema.items.as_deref());
        let values = below(told.additional.schema(), schema.additional.schema());
        let all_of: Vec<Self> = rules
            .all_of
            .iter()
            .filter(|told| has_rules(told))
            .filter_map(|told| Self::node(told, schema, Arc::clone(&decl)))
            .collect();
        let empty = here.is_empty()
            && properties.is_empty()
            && items.is_none()
            && values.is_none()
            && all_of.is_empty();
        (!empty).then(|| Self {
            here,
            kind: schema.kind.clone(),
            properties,
            values,
            items,
            all_of,
            granular: schema.rules.map_type != "atomic",
            keys: if schema.rules.list_type == "map" {
                schema.rules.list_map_keys.clone()
            } else {
                Vec::new()
            },
            decl,
        })
    }

    /// What the rules say of an object; `old` is the stored one on an update.
    ///
    /// CEL-1: whatever they say, they cost no more than their budget.
    #[must_use]
    pub(crate) fn validate(&self, object: &Json, old: Option<&Json>) -> Verdict {
        let mut check = Check {
            left: BUDGET,
            verdict: Verdict::default(),
        };
        let past = Past {
            current: old.map(|old| (object, old)),
            parent: None,
        };
        // Once the budget is spent the rest is not looked at.
        let _ = check.node(self, "", object, old, past);
        check.verdict
    }
}

/// The declaration of a property.
fn child(decl: &Decl, name: &str, schema: &Structural) -> Option<Arc<Decl>> {
    match (&decl.kind, escape(name)) {
        (Type::Object(object), Some(name)) => object
            .fields
            .get(&name)
            .map(|field| Arc::clone(&field.decl)),
        // A name that no expression can spell hides the field from those above only.
        (_, None) => Decl::of(schema, schema.embedded, "selfType").map(Arc::new),
        _ => None,
    }
}

fn has_rules(schema: &Structural) -> bool {
    !schema.rules.validations.is_empty()
        || schema.properties.values().any(has_rules)
        || schema.items.as_deref().is_some_and(has_rules)
        || matches!(&schema.additional, Additional::Schema(sub) if has_rules(sub))
        || schema.rules.all_of.iter().any(has_rules)
}

/// The budget is spent.
struct Spent;

/// One check of one object.
struct Check {
    left: u64,
    verdict: Verdict,
}

impl Check {
    fn node<'a>(
        &mut self,
        rules: &'a Rules,
        path: &str,
        object: &'a Json,
        old: Option<&'a Json>,
        past: Past<'a>,
    ) -> Result<(), Spent> {
        if object.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.here(rules, path, object, old, past)?;
        for nested in &rules.all_of {
            let past = Past {
                current: None,
                parent: past.parent,
            };
            self.node(nested, path, object, old, past)?;
        }
        match object {
            Json::Array(items) => {
                let Some(below) = &rules.items else {
                    return Ok(());
                };
                for (index, item) in items.iter().enumerate() {
                    let before = old.and_then(|old| found_again(item, old, &rules.keys));
                    let past = past.below(before.map(|before| (item, before)));
                    self.node(below, &format!("{path}[{index}]"), item, before, past)?;
                }
            }
            Json::Object(members) => {
                for (name, member) in members {
                    let (below, path) = match (&rules.values, rules.properties.get(name)) {
                        (_, Some(below)) => (below, joined(path, name)),
                        (Some(below), None) => (&**below, format!("{path}[{name}]")),
                        (None, None) => continue,
                    };
                    let before = old.and_then(|old| old.get(name)).filter(|_| rules.granular);
                    // Both were converted to the same type, so these say nothing of the past.
                    let typed =
                        past.parent.is_none() && matches!(name.as_str(), "apiVersion" | "kind");
                    let past = if typed {
                        Past::default()
                    } else {
                        past.below(before.map(|before| (member, before)))
                    };
                    self.node(below, &path, member, before, past)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The rules that stand on a value.
    fn here<'a>(
        &mut self,
        rules: &'a Rules,
        path: &str,
        object: &'a Json,
        old: Option<&'a Json>,
        past: Past<'a>,
    ) -> Result<(), Spent> {
        if rules.here.is_empty() {
            return Ok(());
        }
        let at = if path.is_empty() { "<nil>" } else { path };
        let kind = Json::from(rules.kind.as_str()).to_string();
        let refuse = |detail: &str| FieldError::invalid(at, &kind, detail);
        if self.left == 0 {
            self.verdict.errors.push(refuse(SPENT));
            return Err(Spent);
        }
        for rule in &rules.here {
            let program = match &rule.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(wrong)) => {
                    let detail = format!("rule compile error: {wrong}");
                    self.verdict.errors.push(refuse(&detail));
                    continue;
                }
            };
            let uses_old = rule.uses_old();
            if uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            let variables = match rule.variables(&rules.decl, object, old) {
                Ok(variables) => variables,
                Err(wrong) => {
                    let detail = rule.told_failure(&Failure::Error(wrong));
                    self.verdict.errors.push(refuse(&detail));
                    continue;
                }
            };
            let (outcome, cost) = program.run(&variables, CALL_LIMIT);
            if cost > self.left {
                self.verdict.errors.push(refuse(SPENT));
                return Err(Spent);
            }
            self.left -= cost;
            match outcome {
                Ok(Value::Bool(true)) => continue,
                Ok(_) => {}
                Err(failure) => {
                    let detail = rule.told_failure(&failure);
                    self.verdict.errors.push(refuse(&detail));
                    if failure == Failure::Limit {
                        return Err(Spent);
                    }
                    continue;
                }
            }
            let field = rule.field.as_deref().map(|below| joined(path, below));
            let field = field.as_deref().unwrap_or(at);
            let (error, spent) = match self.message(rule, &variables) {
                Ok(made) => {
                    let detail = made.unwrap_or_else(|| rule.detail());
                    (rule.refusal(field, object, &detail), false)
                }
                Err(detail) => (FieldError::invalid(field, &kind, &detail), true),
            };
            if !uses_old && past.is_unchanged() {
                let told = format!("{}: {}", error.field, error.message);
                self.verdict.warnings.push(told);
            } else {
                self.verdict.errors.push(error);
            }
            if spent {
                return Err(Spent);
            }
        }
        Ok(())
    }

    /// The message that a rule makes; nothing where it makes none that can be used.
    fn message(
        &mut self,
        rule: &Rule,
        variables: &[(&str, Value<'_>)],
    ) -> Result<Option<String>, String> {
        let Some(Ok(program)) = &rule.made_message else {
            return Ok(None);
        };
        let (outcome, cost) = program.run(variables, CALL_LIMIT);
        if cost > self.left {
            return Err("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned());
        }
        self.left -= cost;
        match outcome {
            Err(Failure::Limit) => Err(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression"
                    .to_owned(),
            ),
            Ok(Value::Text(text)) => {
                let text = text.trim();
                let fine = !text.is_empty() && !text.contains('\n') && text.len() <= LONGEST_MESSAGE;
                Ok(fine.then(|| text.to_owned()))
            }
            _ => Ok(None),
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// The item of a list that is a map which has the same keys.
fn found_again<'a>(item: &Json, old: &'a Json, keys: &[String]) -> Option<&'a Json> {
    if keys.is_empty() {
        return None;
    }
    let same = |other: &&Json| keys.iter().all(|key| other.get(key) == item.get(key));
    old.as_array()?.iter().find(same)
}

#[cfg(test)]
mod tests;
