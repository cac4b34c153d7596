//! Machine: evaluates the constant parts of an expression when it is compiled.
//!
//! As when cel-go plans a program (`interpreter/decorators.go`), an expression is refused if a constant conversion in
//! it fails, or a regular expression in it does not compile.

use steersman_apimachinery::patterns;

use crate::check::Checked;
use crate::eval::{Constants, Evaluator};
use crate::program::CALL_LIMIT;
use crate::run::{self, EvalFailure};
use crate::syntax::ast::{ExprNode, NodeKind};
use crate::value::Value;

const CONVERSIONS: &[&str] = &[
    "bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint",
];

/// Evaluates constant conversions, and compiles constant regular expressions. Fails with the first error.
pub(super) fn fold(root: &ExprNode, checked: &Checked) -> Result<Constants, String> {
    let mut constants = Constants::default();
    visit(&mut constants, root, checked)?;
    Ok(constants)
}

fn visit(constants: &mut Constants, node: &ExprNode, checked: &Checked) -> Result<(), String> {
    for child in node.children() {
        visit(constants, child, checked)?;
    }
    match &node.kind {
        NodeKind::Call { name, target, args } => {
            let pattern_at = usize::from(target.is_none());
            let is_pattern = matches!(name.as_str(), "matches" | "find" | "findAll");
            if is_pattern && let Some(pattern) = args.get(pattern_at) {
                return keep_pattern(constants, pattern);
            }
            let [arg] = args.as_slice() else {
                return Ok(());
            };
            let converts = target.is_none() && CONVERSIONS.contains(&name.as_str());
            if converts && is_constant(constants, arg) {
                let outcome = evaluated(constants, node, checked);
                if let Err(EvalFailure::Error(why)) = outcome {
                    return Err(why);
                }
                constants.values.insert(node.id, outcome);
            }
        }
        NodeKind::List { .. } | NodeKind::Map(_)
            if node.children().all(|child| is_constant(constants, child)) =>
        {
            let outcome = evaluated(constants, node, checked);
            constants.values.insert(node.id, outcome);
        }
        _ => {}
    }
    Ok(())
}

fn keep_pattern(constants: &mut Constants, pattern: &ExprNode) -> Result<(), String> {
    let known = constants.values.get(&pattern.id);
    let value = match &pattern.kind {
        NodeKind::Literal(value) => Some(value),
        _ => known.and_then(|known| known.as_ref().ok()),
    };
    let Some(Value::Text(text)) = value else {
        return Ok(());
    };
    let text = text.to_string();
    let compiled = run::compile(&text, patterns::MOST_COMPILED)?;
    constants.patterns.insert(text, compiled);
    Ok(())
}

fn is_constant(constants: &Constants, node: &ExprNode) -> bool {
    matches!(node.kind, NodeKind::Literal(_)) || constants.values.contains_key(&node.id)
}

fn evaluated(
    constants: &Constants,
    node: &ExprNode,
    checked: &Checked,
) -> Result<Value<'static>, EvalFailure> {
    Evaluator::new(&checked.functions, constants, &[], &[], CALL_LIMIT).eval(node)
}
