//! Machine: evaluates the rules of a schema on an object, within a budget.

use serde_json::Value as Json;
use steersman_apimachinery::status::FieldError;

use super::{RuleVerdict, Rules, ValidationRule};
use crate::program::CALL_LIMIT;
use crate::run::EvalFailure;
use crate::structural::child;
use crate::value::Value;

/// The maximum cost of all rules on one object together, which takes about a second of evaluation.
const BUDGET: u64 = 10_000_000;

const SPENT: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The maximum length of the text that a `messageExpression` returns, in bytes. A longer text is ignored.
const LONGEST_MESSAGE: usize = 5 * 1024;

type ValuePair<'a> = (&'a Json, &'a Json);

#[derive(Debug, Clone, Copy)]
struct CheckedValue<'p, 'a> {
    path: &'p str,
    object: &'a Json,
    /// The value before the update; `None` if it is absent, or unknown as for items of a list without keys.
    old: Option<&'a Json>,
    past: OldState<'a>,
}

/// The old values that show whether the update changed the checked value. If not, a failed rule is only a warning.
#[derive(Debug, Clone, Copy, Default)]
struct OldState<'a> {
    /// The checked value and its old value; `None` if there is no known old value.
    current: Option<ValuePair<'a>>,
    /// The nearest enclosing value with a known old value, and that old value; used when `current` is `None`.
    parent: Option<ValuePair<'a>>,
}

impl<'a> OldState<'a> {
    fn is_unchanged(self) -> bool {
        self.current
            .or(self.parent)
            .is_some_and(|(new, old)| new == old)
    }

    fn below(self, current: Option<ValuePair<'a>>) -> Self {
        match self.current {
            None => self,
            parent => Self { current, parent },
        }
    }
}

/// Evaluates the rules on an object; `old` is the stored object on an update. The cost never exceeds `BUDGET` (CEL-1).
pub(super) fn object(rules: &Rules, object: &Json, old: Option<&Json>) -> RuleVerdict {
    let (current, parent) = (old.map(|old| (object, old)), None);
    let past = OldState { current, parent };
    let place = CheckedValue {
        path: "",
        object,
        old,
        past,
    };
    RuleCheck::verdict(rules, place)
}

/// Evaluates the rules of a schema on its default: as an update without a change, because rules with `oldSelf` run only
/// on updates, and then, if no rule has failed, as a creation.
pub(super) fn default(rules: &Rules, default: &Json, field: &str) -> Vec<FieldError> {
    let run = |old| {
        let place = CheckedValue {
            path: field,
            object: default,
            old,
            past: OldState::default(),
        };
        RuleCheck::verdict(rules, place).errors
    };
    let unchanged = run(Some(default));
    if unchanged.is_empty() {
        run(None)
    } else {
        unchanged
    }
}

struct Spent;

/// The evaluation of all rules on one object: the rest of the cost budget, and the errors so far.
struct RuleCheck {
    left: u64,
    verdict: RuleVerdict,
}

impl RuleCheck {
    fn verdict(rules: &Rules, place: CheckedValue<'_, '_>) -> RuleVerdict {
        let mut check = Self {
            left: BUDGET,
            verdict: RuleVerdict::default(),
        };
        // `Err` means that a cost limit ended the evaluation; the verdict already has the error that says so.
        let _ = check.node(rules, place);
        check.verdict
    }

    fn node<'a>(&mut self, rules: &'a Rules, mut place: CheckedValue<'_, 'a>) -> Result<(), Spent> {
        if place.object.is_null() {
            return Ok(());
        }
        place.old = place.old.filter(|old| !old.is_null());
        self.here(rules, place)?;
        let (path, past) = (place.path, place.past);
        for nested in &rules.all_of {
            let (current, parent) = (None, past.parent);
            let past = OldState { current, parent };
            self.node(nested, CheckedValue { past, ..place })?;
        }
        match place.object {
            Json::Array(items) => {
                let Some(below) = &rules.items else {
                    return Ok(());
                };
                for (index, item) in items.iter().enumerate() {
                    let before = place
                        .old
                        .and_then(|old| found_again(item, old, &rules.keys));
                    let place = CheckedValue {
                        path: &format!("{path}[{index}]"),
                        object: item,
                        old: before,
                        past: past.below(before.map(|before| (item, before))),
                    };
                    self.node(below, place)?;
                }
            }
            Json::Object(members) => {
                for (name, member) in members {
                    let (below, path) = match (&rules.values, rules.properties.get(name)) {
                        (_, Some(below)) => (below, child(path, name)),
                        (Some(below), None) => (&**below, format!("{path}[{name}]")),
                        (None, None) => continue,
                    };
                    let before = place.old.and_then(|old| old.get(name));
                    // Equal values of `apiVersion` and `kind` do not show that the update left them unchanged: both
                    // objects were converted to one version.
                    let typed =
                        past.parent.is_none() && matches!(name.as_str(), "apiVersion" | "kind");
                    let past = if typed {
                        OldState::default()
                    } else {
                        past.below(before.map(|before| (member, before)))
                    };
                    let place = CheckedValue {
                        path: &path,
                        object: member,
                        old: before,
                        past,
                    };
                    self.node(below, place)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn here<'a>(&mut self, rules: &'a Rules, place: CheckedValue<'_, 'a>) -> Result<(), Spent> {
        let (path, object, old) = (place.path, place.object, place.old);
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
                    let detail = rule.failure_message(&EvalFailure::Error(wrong));
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
                    let detail = rule.failure_message(&failure);
                    self.verdict.errors.push(refuse(&detail));
                    if failure == EvalFailure::Limit {
                        return Err(Spent);
                    }
                    continue;
                }
            }
            let field = rule.field.as_deref().map(|below| child(path, below));
            let field = field.as_deref().unwrap_or(at);
            let (error, spent) = match self.message(rule, &variables) {
                Ok(made) => {
                    let detail = made.unwrap_or_else(|| rule.detail());
                    (rule.refusal(field, object, &detail), false)
                }
                Err(detail) => (FieldError::invalid(field, &kind, &detail), true),
            };
            if !uses_old && place.past.is_unchanged() {
                let message = format!("{}: {}", error.field, error.message);
                self.verdict.warnings.push(message);
            } else {
                self.verdict.errors.push(error);
            }
            if spent {
                return Err(Spent);
            }
        }
        Ok(())
    }

    /// Evaluates a rule's `messageExpression`. Returns `None` if the rule has none, if it cannot be evaluated, or if
    /// its text is empty, too long or of several lines. Fails if it exceeds `CALL_LIMIT` or the rest of the budget.
    fn message(
        &mut self,
        rule: &ValidationRule,
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
            Err(EvalFailure::Limit) => Err(
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

/// Returns the item of an old list of type `map` that has the keys of `item`.
fn found_again<'a>(item: &Json, old: &'a Json, keys: &[String]) -> Option<&'a Json> {
    if keys.is_empty() {
        return None;
    }
    let same = |other: &&Json| keys.iter().all(|key| other.get(key) == item.get(key));
    old.as_array()?.iter().find(same)
}
