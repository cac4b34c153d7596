//! Machine: checks the CEL validation rules of a schema: their fields, their compilation, and their
//! estimated cost.

use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::status::FieldError;
use steersman_cel::structural::Structural;
use steersman_cel::{Decl, MAX_REQUEST, Type, ValidationRule, escape, field_path};

/// Largest estimated cost of one rule.
const RULE_LIMIT: u64 = 10_000_000;

/// Largest estimated cost of all rules of a schema together.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// Largest number of rules that the error about the total cost names, the most expensive first.
const NAMED: usize = 4;

/// The error names a rule from this share of the limit on: a hundredth.
const NAMED_SHARE: u64 = 100;

const REASONS: &[&str] = &[
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Checks the fields of the rules of one node.
pub(super) fn fields(node: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let listed = node["x-kubernetes-validations"].as_array();
    let mut schema = None;
    for (index, rule) in listed.into_iter().flatten().enumerate() {
        let at = |name: &str| format!("{path}.x-kubernetes-validations[{index}].{name}");
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let has_breaks = |text: &str| text.contains(['\n', '\r']);
        let mut refuse = |name: &str, detail: &str| {
            let value = go::quote(text(name));
            errors.push(FieldError::invalid(at(name), &value, detail));
        };
        let (rule_text, message) = (text("rule").trim(), text("message").trim());
        let empty = "must be non-empty if specified";
        if rule_text.is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !text("message").is_empty() && message.is_empty() {
            refuse("message", empty);
        } else if has_breaks(message) {
            refuse("message", "must not contain line breaks");
        } else if has_breaks(rule_text) && message.is_empty() {
            let detail = "must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), detail));
        }
        let maker = text("messageExpression");
        if !maker.is_empty() && maker.trim().is_empty() {
            errors.push(FieldError::required(at("messageExpression"), empty));
        }
        if let Some(reason) = rule["reason"].as_str()
            && !REASONS.contains(&reason)
        {
            let known: Vec<String> = REASONS.iter().map(|known| go::quote(known)).collect();
            errors.push(FieldError::not_supported(
                at("reason"),
                &go::quote(reason),
                &known,
            ));
        }
        let field = text("fieldPath");
        let mut refuse = |detail: &str| {
            errors.push(FieldError::invalid(
                at("fieldPath"),
                &go::quote(field),
                detail,
            ));
        };
        if !field.is_empty() && field.trim().is_empty() {
            refuse(empty);
        }
        if has_breaks(field) {
            refuse("must not contain line breaks");
        }
        if !field.is_empty() {
            let schema = schema.get_or_insert_with(|| Structural::compile(node));
            if field_path(field, schema).is_none() {
                refuse("must be a valid path");
            }
        }
    }
}

/// The estimated cost of one rule or message expression of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCost {
    /// The path of the rule in the definition.
    pub path: String,
    /// The source of the rule.
    pub rule: String,
    /// The estimated cost for one object, in the units of Kubernetes.
    pub cost: u64,
    /// The largest permitted cost of one rule.
    pub limit: u64,
}

/// Returns the estimated costs of all rules of a valid schema.
pub(super) fn costs(schema: &Value, path: &str) -> Vec<RuleCost> {
    Walk::over(schema, path, &[]).costs
}

/// Compiles all rules of a schema, and adds up their estimated costs. `known` are the errors that
/// the schema has already. Rules of nodes above them are skipped.
pub(super) fn check(schema: &Value, path: &str, known: &[FieldError]) -> Vec<FieldError> {
    let mut walk = Walk::over(schema, path, known);
    if walk.total > SCHEMA_LIMIT {
        for (_, field) in &walk.expensive {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            walk.errors.push(FieldError::forbidden(field, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let detail = too_expensive(what, walk.total, SCHEMA_LIMIT);
        walk.errors.push(FieldError::forbidden(path, &detail));
    }
    walk.errors
}
/// The facts about a schema node that the checks of its rules need.
#[derive(Clone)]
struct NodeContext {
    path: String,
    /// The declaration for expressions, or `None` if expressions cannot access the node.
    decl: Option<Arc<Decl>>,
    /// The largest number of values of this node in one object, or `None` if only the size of a
    /// request limits the number.
    times: Option<u64>,
    /// The path of the closest node above with parts that cannot be correlated with an older
    /// object.
    uncorrelated: Option<String>,
}

struct Walk<'a> {
    known: &'a [FieldError],
    errors: Vec<FieldError>,
    total: u64,
    /// The most expensive rules: cost and path.
    expensive: Vec<(u64, String)>,
    costs: Vec<RuleCost>,
}

impl<'a> Walk<'a> {
    /// Compiles all rules of a schema.
    fn over(schema: &Value, path: &str, known: &'a [FieldError]) -> Self {
        let mut walk = Self {
            known,
            errors: Vec::new(),
            total: 0,
            expensive: Vec::new(),
            costs: Vec::new(),
        };
        let decl = Decl::of(&Structural::compile(schema), true, "selfType");
        let context = NodeContext {
            path: path.to_owned(),
            decl: decl.map(Arc::new),
            times: Some(1),
            uncorrelated: None,
        };
        walk.node(schema, &context);
        walk
    }

    fn node(&mut self, node: &Value, context: &NodeContext) {
        let path = &context.path;
        let most = |name: &str| {
            let most = node[name].as_u64();
            context
                .times
                .and_then(|times| Some(times.saturating_mul(most?)))
        };
        let items = context.decl.as_ref().and_then(|decl| decl.items.clone());
        if node["additionalProperties"].is_object() {
            let below = NodeContext {
                path: format!("{path}.additionalProperties"),
                decl: items.clone(),
                times: most("maxProperties"),
                uncorrelated: context.uncorrelated.clone(),
            };
            self.node(&node["additionalProperties"], &below);
        }
        for (name, sub) in node["properties"].as_object().into_iter().flatten() {
            let below = NodeContext {
                path: format!("{path}.properties[{name}]"),
                decl: property(context.decl.as_deref(), name, sub),
                times: context.times,
                uncorrelated: context.uncorrelated.clone(),
            };
            self.node(sub, &below);
        }
        if node["items"].is_object() {
            let keyed = node["x-kubernetes-list-type"] == "map";
            let below = NodeContext {
                path: format!("{path}.items"),
                decl: items,
                times: most("maxItems"),
                uncorrelated: context
                    .uncorrelated
                    .clone()
                    .or_else(|| (!keyed).then(|| path.clone())),
            };
            self.node(&node["items"], &below);
        }
        self.rules(node, context);
    }

    fn rules(&mut self, node: &Value, context: &NodeContext) {
        let Some(listed) = node["x-kubernetes-validations"].as_array() else {
            return;
        };
        let path = &context.path;
        let below = |error: &FieldError| error.field.starts_with(path.as_str());
        if listed.is_empty() || self.known.iter().any(below) {
            return;
        }
        let Some(decl) = &context.decl else {
            let field = format!("{path}.x-kubernetes-validations");
            let detail =
                "internal error: failed to retrieve type information for x-kubernetes-validations";
            self.errors.push(FieldError::internal(field, detail));
            return;
        };
        let schema = Structural::compile(node);
        for (index, declared) in listed.iter().enumerate() {
            let rule = ValidationRule::compile(declared, decl, &schema);
            let at = |name: &str| format!("{path}.x-kubernetes-validations[{index}].{name}");
            match &rule.program {
                Some(Ok(program)) => {
                    let times = context
                        .times
                        .unwrap_or(MAX_REQUEST / (decl.least_bytes + 1));
                    let cost = program.worst_cost(decl).saturating_mul(times);
                    self.record(at("rule"), &declared["rule"], cost);
                    self.observe("estimated rule cost", at("rule"), cost);
                }
                Some(Err(wrong)) => {
                    let wrong = FieldError::invalid(at("rule"), &printed(declared), wrong);
                    self.errors.push(wrong);
                }
                None => {}
            }
            match &rule.made_message {
                Some(Ok(program)) => {
                    let cost = program.worst_cost(decl);
                    let what = "estimated messageExpression cost";
                    self.record(
                        at("messageExpression"),
                        &declared["messageExpression"],
                        cost,
                    );
                    self.observe(what, at("messageExpression"), cost);
                }
                Some(Err(wrong)) => {
                    let field = at("messageExpression");
                    self.errors
                        .push(FieldError::invalid(field, &printed(declared), wrong));
                }
                None => {}
            }
            if rule.uses_old() {
                if let Some(within) = &context.uncorrelated {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                    );
                    let value = declared["rule"].to_string();
                    self.errors
                        .push(FieldError::invalid(at("rule"), &value, &detail));
                }
            } else if let Some(flag) = declared["optionalOldSelf"].as_bool() {
                let detail = "may not be set if oldSelf is not used in rule";
                let field = at("optionalOldSelf");
                self.errors
                    .push(FieldError::invalid(field, &flag.to_string(), detail));
            }
        }
    }

    fn record(&mut self, path: String, rule: &Value, cost: u64) {
        self.costs.push(RuleCost {
            path,
            rule: rule.as_str().unwrap_or_default().to_owned(),
            cost,
            limit: RULE_LIMIT,
        });
    }

    fn observe(&mut self, what: &str, field: String, cost: u64) {
        if cost > RULE_LIMIT {
            let detail = too_expensive(what, cost, RULE_LIMIT);
            self.errors.push(FieldError::forbidden(&field, &detail));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / NAMED_SHARE {
            self.expensive.push((cost, field));
            self.expensive
                .sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED);
        }
    }
}

/// Returns the declaration of a property for expressions.
fn property(decl: Option<&Decl>, name: &str, schema: &Value) -> Option<Arc<Decl>> {
    match (&decl?.kind, escape(name)) {
        (Type::Object(object), Some(name)) => object
            .fields
            .get(&name)
            .map(|field| Arc::clone(&field.decl)),
        (_, None) => {
            let schema = Structural::compile(schema);
            Decl::of(&schema, schema.embedded, "selfType").map(Arc::new)
        }
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a factor for people")]
fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// Prints a rule as Go's JSON encoder does.
pub(super) fn printed(rule: &Value) -> String {
    let text = |name: &str| escaped(rule[name].as_str().unwrap_or_default());
    let reason = rule["reason"]
        .as_str()
        .map_or_else(|| "null".to_owned(), escaped);
    let optional = rule["optionalOldSelf"].as_bool();
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        text("fieldPath"),
        optional.map_or_else(|| "null".to_owned(), |flag| flag.to_string()),
    )
}

/// Quotes a text as Go's JSON encoder does, with `<`, `>` and `&` escaped.
pub(super) fn escaped(text: &str) -> String {
    go::quote(text)
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}
