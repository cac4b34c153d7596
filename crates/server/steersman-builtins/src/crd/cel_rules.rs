//! Machine: checks the CEL validation rules of a schema: their fields, their compilation, and their estimated cost.

use std::sync::Arc;

use steersman_apimachinery::status::FieldError;
use steersman_cel::structural::Structural;
use steersman_cel::{Decl, MAX_REQUEST, ValidationRule, field_path};

use crate::fields::go_value::GoType;
use crate::fields::{FieldPath, check};

/// Largest estimated cost of one rule.
const RULE_LIMIT: u64 = 10_000_000;

/// Largest estimated cost of all rules of a schema together.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// Largest number of rules that the error about the total cost names, the most expensive first.
const NAMED: usize = 4;

/// The error names a rule from this share of the limit on: a hundredth.
const NAMED_SHARE: u64 = 100;

pub(super) const RULE: GoType = GoType::Struct(&[
    ("rule", GoType::Text),
    ("message", GoType::Text),
    ("messageExpression", GoType::Text),
    ("reason", GoType::Plain),
    ("fieldPath", GoType::Text),
    ("optionalOldSelf", GoType::Plain),
]);

const REASONS: &[&str] = &[
    "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired",
];

pub(super) fn fields(node: &FieldPath<'_>) {
    let empty = "must be non-empty if specified";
    let breaks = "must not contain line breaks";
    let is_blank = |at: &FieldPath<'_>| !at.is_empty() && at.text().trim().is_empty();
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let mut schema = None;
    for rule in node.at("x-kubernetes-validations").items() {
        let [expression, message, maker, reason, field] = rule.parts([
            "rule", "message", "messageExpression", "reason", "fieldPath",
        ]);
        let (rule_text, message_text) = (expression.text().trim(), message.text().trim());
        if rule_text.is_empty() {
            expression.required("rule is not specified");
        } else if is_blank(&message) {
            message.invalid(empty);
        } else if has_breaks(message_text) {
            message.invalid(breaks);
        } else if has_breaks(rule_text) && message_text.is_empty() {
            message.required("must be specified if rule contains line breaks");
        }
        if is_blank(&maker) {
            maker.required(empty);
        }
        reason.if_set(|reason| check::one_of(reason, REASONS));
        if is_blank(&field) {
            field.invalid(empty);
        }
        if has_breaks(field.text()) {
            field.invalid(breaks);
        }
        field.if_filled(|field| {
            let schema = schema.get_or_insert_with(|| Structural::compile(node.value()));
            if field_path(field.text(), schema).is_none() {
                field.invalid("must be a valid path");
            }
        });
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

pub(super) fn costs(schema: &FieldPath<'_>) -> Vec<RuleCost> {
    Walk::over(schema, &[]).costs
}

/// Checks the costs of all rules. Rules of nodes above the `known` errors are skipped.
pub(super) fn check_costs(schema: &FieldPath<'_>, known: &[FieldError]) {
    let walk = Walk::over(schema, known);
    if walk.total > SCHEMA_LIMIT {
        for (_, rule) in &walk.expensive {
            rule.forbidden("contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema");
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        schema.forbidden(&too_expensive(what, walk.total, SCHEMA_LIMIT));
    }
}

/// The facts about a schema node that the checks of its rules need.
#[derive(Clone)]
struct NodeContext {
    /// The declaration for expressions, or `None` if expressions cannot access the node.
    decl: Option<Arc<Decl>>,
    /// The largest number of values of this node in one object; `None` without a bound.
    times: Option<u64>,
    /// The path of the closest node above that cannot be correlated with an older object.
    uncorrelated: Option<String>,
}

struct Walk<'a> {
    known: &'a [FieldError],
    total: u64,
    /// The most expensive rules, with their costs.
    expensive: Vec<(u64, FieldPath<'a>)>,
    costs: Vec<RuleCost>,
}

impl<'a> Walk<'a> {
    fn over(schema: &FieldPath<'a>, known: &'a [FieldError]) -> Self {
        let mut walk = Self {
            known,
            total: 0,
            expensive: Vec::new(),
            costs: Vec::new(),
        };
        let decl = Decl::of(&Structural::compile(schema.value()), true, "selfType");
        let context = NodeContext {
            decl: decl.map(Arc::new),
            times: Some(1),
            uncorrelated: None,
        };
        walk.node(schema, &context);
        walk
    }

    fn node(&mut self, node: &FieldPath<'a>, context: &NodeContext) {
        let most = |name: &'static str| {
            let most = node.at(name).value().as_u64();
            Some(context.times?.saturating_mul(most?))
        };
        let inner = context.decl.as_ref().and_then(|decl| decl.items.clone());
        let [additional, properties, items] =
            node.parts(["additionalProperties", "properties", "items"]);
        if additional.value().is_object() {
            let below = NodeContext {
                decl: inner.clone(),
                times: most("maxProperties"),
                ..context.clone()
            };
            self.node(&additional, &below);
        }
        for (name, sub) in properties.entries() {
            let below = NodeContext {
                decl: context
                    .decl
                    .as_deref()
                    .and_then(|decl| decl.property(name, || Structural::compile(sub.value()))),
                ..context.clone()
            };
            self.node(&sub, &below);
        }
        if items.value().is_object() {
            let keyed = node.at("x-kubernetes-list-type").text() == "map";
            let here = || (!keyed).then(|| node.path());
            let below = NodeContext {
                decl: inner,
                times: most("maxItems"),
                uncorrelated: context.uncorrelated.clone().or_else(here),
            };
            self.node(&items, &below);
        }
        self.rules(node, context);
    }

    fn rules(&mut self, node: &FieldPath<'a>, context: &NodeContext) {
        let listed = node.at("x-kubernetes-validations");
        let path = node.path();
        if listed.is_empty()
            || self
                .known
                .iter()
                .any(|error| error.field.starts_with(&path))
        {
            return;
        }
        let Some(decl) = &context.decl else {
            let detail =
                "internal error: failed to retrieve type information for x-kubernetes-validations";
            listed.push(FieldError::internal(listed.path(), detail));
            return;
        };
        let schema = Structural::compile(node.value());
        for declared in listed.items() {
            let rule = ValidationRule::compile(declared.value(), decl, &schema);
            let [expression, maker, optional] =
                declared.parts(["rule", "messageExpression", "optionalOldSelf"]);
            let refuse = |at: &FieldPath<'_>, why: &str| {
                at.with(declared.value()).invalid_printed(&RULE, why)
            };
            match &rule.program {
                Some(Ok(program)) => {
                    let unbounded = MAX_REQUEST / (decl.least_bytes + 1);
                    let times = context.times.unwrap_or(unbounded);
                    let cost = program.worst_cost(decl).saturating_mul(times);
                    self.observe("estimated rule cost", &expression, cost);
                }
                Some(Err(wrong)) => refuse(&expression, wrong),
                None => {}
            }
            match &rule.made_message {
                Some(Ok(program)) => {
                    let cost = program.worst_cost(decl);
                    self.observe("estimated messageExpression cost", &maker, cost);
                }
                Some(Err(wrong)) => refuse(&maker, wrong),
                None => {}
            }
            if rule.uses_old() {
                if let Some(within) = &context.uncorrelated {
                    expression.invalid(&format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                    ));
                }
            } else if optional.is_set() {
                optional.invalid("may not be set if oldSelf is not used in rule");
            }
        }
    }

    fn observe(&mut self, what: &str, rule: &FieldPath<'a>, cost: u64) {
        self.costs.push(RuleCost {
            path: rule.path(),
            rule: rule.text().to_owned(),
            cost,
            limit: RULE_LIMIT,
        });
        if cost > RULE_LIMIT {
            rule.forbidden(&too_expensive(what, cost, RULE_LIMIT));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / NAMED_SHARE {
            self.expensive.push((cost, rule.clone()));
            self.expensive
                .sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED);
        }
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
