//! Machine: checks the literals of an expression, such as regular expressions, after its types are checked.
//!
//! Source: cel-go's `cel/validator.go`, and the validator of `format` in `ext/formatting.go`.

use steersman_apimachinery::{go, patterns};

use crate::check::Checked;
use crate::syntax::ast::{ExprNode, NodeKind};
use crate::syntax::parse::ParseError;
use crate::types::Type;
use crate::value::Value;
use crate::value::printing::{self, Clause, Piece};
use crate::value::times;

pub(super) fn check(root: &ExprNode, checked: &Checked) -> Vec<ParseError> {
    let mistakes = Vec::new();
    let mut checker = LiteralChecker { checked, mistakes };
    checker.node(root, false);
    checker.mistakes
}

struct LiteralChecker<'a> {
    checked: &'a Checked,
    mistakes: Vec<ParseError>,
}

impl LiteralChecker<'_> {
    /// Checks a node and its parts. `mixed` permits lists and maps with mixed types, as in the arguments of `format`.
    fn node(&mut self, node: &ExprNode, mixed: bool) {
        match &node.kind {
            NodeKind::Call { name, target, args } => {
                self.call(name, args);
                if name == "format" {
                    self.format(node, target.as_deref(), args);
                }
                let mixed = mixed || name == "format";
                node.children().for_each(|child| self.node(child, mixed));
                return;
            }
            NodeKind::List { items, optional } if !mixed => {
                let types = items.iter().enumerate().map(|(index, item)| {
                    let found = &self.checked.types[item.id];
                    (item.at, unwrapped(found, optional.contains(&index)))
                });
                let wrong = mismatch(types);
                self.mistakes.extend(wrong);
            }
            NodeKind::Map(entries) if !mixed => {
                let of = |node: &ExprNode| &self.checked.types[node.id];
                let keys = entries.iter().map(|entry| (entry.key.at, of(&entry.key)));
                let values = entries.iter().map(|entry| {
                    let found = unwrapped(of(&entry.value), entry.optional);
                    (entry.value.at, found)
                });
                let wrong = [mismatch(keys), mismatch(values)];
                self.mistakes.extend(wrong.into_iter().flatten());
            }
            _ => {}
        }
        node.children().for_each(|child| self.node(child, mixed));
    }

    /// Checks a literal argument of `duration`, `timestamp` or `matches`, which must parse as the call needs it.
    fn call(&mut self, name: &str, args: &[ExprNode]) {
        let Some((first, NodeKind::Literal(literal))) = args.first().map(|arg| (arg, &arg.kind))
        else {
            return;
        };
        let fine = match (name, literal) {
            ("matches", Value::Text(text)) => patterns::mistake(text).is_none(),
            ("duration", Value::Text(text)) => go::parse_duration(text).is_ok(),
            ("duration", _) => false,
            ("timestamp", Value::Text(text)) => times::rfc3339(text).is_ok(),
            _ => true,
        };
        if !fine {
            self.mistakes
                .push((first.at, format!("invalid {name} argument")));
        }
    }

    /// Checks the arguments of `pattern.format([…])` against the clauses, such as `%d`, if the pattern is a literal.
    fn format(&mut self, node: &ExprNode, target: Option<&ExprNode>, args: &[ExprNode]) {
        let (Some(NodeKind::Literal(Value::Text(pattern))), [list]) =
            (target.map(|target| &target.kind), args)
        else {
            return;
        };
        let NodeKind::List { items, .. } = &list.kind else {
            return;
        };
        let mut wrong_at = node.at;
        let read = printing::read(pattern, items.len(), true, |piece| match piece {
            Piece::Text(_) => Ok(()),
            Piece::Clause(index, clause) => {
                let found = self.misfit(clause, &items[index]);
                found.map_or(Ok(()), |(at, found)| {
                    wrong_at = at;
                    Err(clause.misfit(found.name()))
                })
            }
        });
        match read {
            Err(why) => self.mistakes.push((wrong_at, why)),
            Ok(used) if items.len() > used => {
                let given = items.len();
                let why = format!(
                    "too many arguments supplied to string.format (expected {used}, got {given})"
                );
                self.mistakes.push((node.at, why));
            }
            Ok(_) => {}
        }
    }

    /// Returns the position and the type of an argument's part that a `format` clause, such as `%d`, cannot print.
    fn misfit<'n>(&'n self, clause: Clause, argument: &'n ExprNode) -> Option<(usize, &'n Type)> {
        let found = &self.checked.types[argument.id];
        if !clause.accepts(found) {
            return Some((argument.at, found));
        }
        if clause != Clause::Text {
            return None;
        }
        match &argument.kind {
            NodeKind::List { .. } | NodeKind::Map(_) => argument
                .children()
                .find_map(|child| self.misfit(clause, child)),
            _ => None,
        }
    }
}

fn unwrapped(of: &Type, optional: bool) -> &Type {
    match of {
        Type::Optional(of) if optional => of,
        of => of,
    }
}

/// Returns an error if the items of a literal differ in type; each item is given by its position and its type.
fn mismatch<'a>(mut types: impl Iterator<Item = (usize, &'a Type)>) -> Option<ParseError> {
    let (_, first) = types.next()?;
    let (at, other) = types.find(|(_, other)| *other != first)?;
    let what = format!("expected type '{first}' but found '{other}'");
    Some((at, what))
}
