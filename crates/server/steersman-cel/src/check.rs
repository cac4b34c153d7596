//! Machine: infers the type of every node of an expression, and reports type errors.

mod type_variables;

use crate::library::signatures::{Overload, named_type};
use crate::library::{self, Function};
use crate::syntax::ast::{ExprNode, Fold, MessageField, NodeKind};
use crate::syntax::parse::ParseError;
use crate::types::Type;
use crate::value::Value;
use type_variables::replaced;

/// A type with this many parts or more is replaced by `dyn`; `list(map(string, int))` has four parts. Each operation
/// can double a type, so without a limit types could fill the memory.
const MOST_TYPES: usize = 512;

const DOTTED_TYPES: [&str; 4] = [
    "google.protobuf.Duration", "google.protobuf.Timestamp", "net.IP", "net.CIDR",
];

/// The results of the type checker. The vectors have one entry per node of the expression, by [`ExprNode::id`].
#[derive(Debug)]
pub(crate) struct Checked {
    pub types: Vec<Type>,
    /// The function that a call node calls; `None` for other nodes.
    pub functions: Vec<Option<&'static Function>>,
    /// The overloads of the function that fit the types of a call's arguments; empty for other nodes.
    pub overloads: Vec<Vec<&'static Overload>>,
    /// The names of the declared variables that the expression uses.
    pub used: Vec<String>,
}

/// Infers the types of all nodes, and turns calls such as `optional.of(x)` into calls of one dotted function name.
pub(crate) fn check(
    root: &mut ExprNode,
    parts: usize,
    variables: &[(&str, Type)],
) -> Result<Checked, Vec<ParseError>> {
    let mut checker = Checker {
        variables,
        scopes: Vec::new(),
        bound: Vec::new(),
        trail: Vec::new(),
        found: Checked {
            types: vec![Type::Error; parts],
            functions: vec![None; parts],
            overloads: (0..parts).map(|_| Vec::new()).collect(),
            used: Vec::new(),
        },
        mistakes: Vec::new(),
    };
    checker.node(root);
    if !checker.mistakes.is_empty() {
        return Err(checker.mistakes);
    }
    let types: Vec<Type> = checker
        .found
        .types
        .iter()
        .map(|kind| checker.settled(kind, true))
        .collect();
    checker.found.types = types;
    Ok(checker.found)
}

struct Checker<'a> {
    variables: &'a [(&'a str, Type)],
    scopes: Vec<(String, Type)>,
    /// The type for which each type variable stands, by the variable's number; `None` if it is not known yet.
    bound: Vec<Option<Type>>,
    /// The changes of `bound` in their order, each with the variable's number and its earlier type. They are undone if
    /// an overload does not fit.
    trail: Vec<(usize, Option<Type>)>,
    found: Checked,
    mistakes: Vec<ParseError>,
}

impl Checker<'_> {
    fn node(&mut self, node: &mut ExprNode) -> Type {
        if let Some(name) = self.dotted(node) {
            node.kind = NodeKind::Ident(name);
        }
        let mut found = self.kind(node);
        if !found.is_below(&mut { MOST_TYPES }) {
            found = Type::Dyn;
        }
        self.found.types[node.id] = found.clone();
        found
    }

    fn kind(&mut self, node: &mut ExprNode) -> Type {
        let at = node.at;
        match &mut node.kind {
            NodeKind::Literal(literal) => named_type(literal.type_name()).unwrap_or(Type::Dyn),
            NodeKind::Ident(name) => self.ident(at, name),
            NodeKind::Select {
                operand,
                field,
                test,
            } => {
                let operand = self.node(operand);
                let found = self.field(at, &operand, field);
                if *test { Type::Bool } else { found }
            }
            NodeKind::Call { .. } => self.call(node),
            NodeKind::List { items, optional } => {
                let mut all = None;
                for (index, item) in items.iter_mut().enumerate() {
                    let mut found = self.node(item);
                    if optional.contains(&index) {
                        found = self.unwrapped(item.at, &found);
                    }
                    all = Some(self.joined(all, found));
                }
                Type::list(all.unwrap_or_else(|| self.fresh()))
            }
            NodeKind::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for entry in entries {
                    let key = self.node(&mut entry.key);
                    keys = Some(self.joined(keys, key));
                    let mut value = self.node(&mut entry.value);
                    if entry.optional {
                        value = self.unwrapped(entry.value.at, &value);
                    }
                    values = Some(self.joined(values, value));
                }
                let key = keys.unwrap_or_else(|| self.fresh());
                Type::map(key, values.unwrap_or_else(|| self.fresh()))
            }
            NodeKind::Fold(fold) => self.fold(fold),
            NodeKind::Message { name, fields } => self.message(at, name, fields),
        }
    }

    fn is_declared(&self, variable: &str) -> bool {
        self.variables.iter().any(|(name, _)| *name == variable)
    }

    /// Returns the name if the node is a variable or type with a dot in its name, such as `authorizer.requestResource`,
    /// which the parser reads as a field selection.
    fn dotted(&self, node: &ExprNode) -> Option<String> {
        let NodeKind::Select {
            field, test: false, ..
        } = &node.kind
        else {
            return None;
        };
        let ends = |name: &&str| name.rsplit_once('.').map(|(_, last)| last) == Some(field);
        let variables = self.variables.iter().map(|(name, _)| *name);
        let mut dotted = variables.chain(DOTTED_TYPES.iter().copied()).filter(ends);
        let name = dotted.find(|name| node.qualified().as_deref() == Some(*name))?;
        let first = name.split('.').next();
        let mut scopes = self.scopes.iter();
        let hidden = scopes.any(|(known, _)| Some(known.as_str()) == first);
        (!hidden).then(|| name.to_owned())
    }

    /// Returns the type of a message literal, such as `Object.spec{…}`. The first part of the name, here `Object`, must
    /// be declared as a type.
    fn message(&mut self, at: usize, name: &str, fields: &mut [MessageField]) -> Type {
        let root = name.split('.').next().unwrap_or_default();
        let is_type = |(name, kind): &(&str, Type)| *name == root && matches!(kind, Type::Of(_));
        let declared = self.variables.iter().any(is_type);
        let Some(Type::Object(object)) = Type::message(name).filter(|_| declared) else {
            let what = format!("undeclared reference to '{name}' (in container '')");
            return self.mistake(at, what);
        };
        for field in fields {
            let at = field.value.at;
            let mut found = self.node(&mut field.value);
            if field.optional {
                found = self.unwrapped(at, &found);
            }
            let name = &field.name;
            let Some(wanted) = object.field(name) else {
                self.mistake(at, format!("undefined field '{name}'"));
                continue;
            };
            if !self.fits(&wanted, &found) {
                let found = self.settled(&found, true);
                let what = format!(
                    "expected type of field '{name}' is '{wanted}' but provided type is '{found}'"
                );
                self.mistake(at, what);
            }
        }
        Type::Object(object)
    }

    fn mistake(&mut self, at: usize, what: String) -> Type {
        self.mistakes.push((at, what));
        Type::Error
    }

    fn ident(&mut self, at: usize, name: &str) -> Type {
        if let Some((_, found)) = self.scopes.iter().rev().find(|(known, _)| known == name) {
            return found.clone();
        }
        if let Some((known, found)) = self.variables.iter().find(|(known, _)| *known == name) {
            if !self.found.used.iter().any(|used| used == known) {
                self.found.used.push((*known).to_owned());
            }
            return found.clone();
        }
        if let Some(found) = named_type(name) {
            return Type::Of(found.into());
        }
        let what = format!("undeclared reference to '{name}' (in container '')");
        self.mistake(at, what)
    }

    fn field(&mut self, at: usize, of: &Type, name: &str) -> Type {
        match self.settled(of, false) {
            Type::Error => Type::Error,
            Type::Dyn => Type::Dyn,
            Type::Param(number) => {
                self.bind(number, Type::Dyn);
                Type::Dyn
            }
            Type::Map(entry) => entry.1.clone(),
            Type::Object(object) => match object.field(name) {
                Some(found) => found,
                None => self.mistake(at, format!("undefined field '{name}'")),
            },
            Type::Optional(of) => match self.field(at, &of, name) {
                Type::Error => Type::Error,
                found @ Type::Optional(_) => found,
                found => Type::optional(found),
            },
            other => {
                let what = format!("type '{other}' does not support field selection");
                self.mistake(at, what)
            }
        }
    }

    fn call(&mut self, node: &mut ExprNode) -> Type {
        let (id, at) = (node.id, node.at);
        let NodeKind::Call { name, target, args } = &mut node.kind else {
            return Type::Error;
        };
        if name == "_?._" {
            return self.optional_field(id, at, args);
        }
        let mut types: Vec<Type> = args.iter_mut().map(|arg| self.node(arg)).collect();
        let joined = target.as_ref().and_then(|target| {
            let joined = format!("{}.{name}", target.qualified()?);
            // Only mutating policies declare `JSONPatch`, and only they may call `jsonpatch.escapeKey`.
            let is_declared = !joined.starts_with("jsonpatch.") || self.is_declared("JSONPatch");
            library::function(&joined, false).filter(|_| is_declared)?;
            Some(joined)
        });
        if let Some(joined) = joined {
            *name = joined;
            *target = None;
        }
        let member = target.is_some();
        if let Some(target) = target {
            types.insert(0, self.node(target));
        }
        let function = library::function(name, member);
        if function.is_none() && library::function(name, !member).is_none() {
            let what = format!("undeclared reference to '{name}' (in container '')");
            return self.mistake(at, what);
        }
        let mut result: Option<Type> = None;
        let mut fitting = Vec::new();
        for overload in function.into_iter().flat_map(|one| &one.overloads) {
            if overload.args.len() != types.len() {
                continue;
            }
            let before = (self.bound.len(), self.trail.len());
            let params = [self.fresh(), self.fresh()];
            let mut pairs = overload.args.iter().zip(&types);
            let fits = pairs.all(|(wanted, found)| self.fits(&replaced(wanted, &params), found));
            if !fits {
                self.take_back(before);
                continue;
            }
            let found = self.settled(&replaced(&overload.result, &params), false);
            fitting.push(overload);
            result = Some(match result {
                Some(other) if other != found => Type::Dyn,
                _ => found,
            });
        }
        self.found.functions[id] = function;
        self.found.overloads[id] = fitting;
        if let Some(result) = result {
            return result;
        }
        let printed = |kind: &Type| self.settled(kind, true).to_string();
        let arguments: Vec<String> = types.iter().map(printed).collect();
        let arguments = if member {
            format!("{}.({})", arguments[0], arguments[1..].join(", "))
        } else {
            format!("({})", arguments.join(", "))
        };
        let what = format!("found no matching overload for '{name}' applied to '{arguments}'");
        self.mistake(at, what)
    }

    /// Returns the type of `a.?b`: an optional of the type of `b`, which is empty if `a` has no such field.
    fn optional_field(&mut self, id: usize, at: usize, args: &mut [ExprNode]) -> Type {
        self.found.functions[id] = library::function("_?._", false);
        self.found.overloads[id] = library::function("optional.of", false)
            .map(|one| one.overloads.iter().collect())
            .unwrap_or_default();
        let [operand, field] = args else {
            return Type::Error;
        };
        let of = self.node(operand);
        self.node(field);
        let NodeKind::Literal(Value::Text(name)) = &field.kind else {
            return self.mistake(at, "unsupported optional field selection".to_owned());
        };
        match self.field(at, &of, name) {
            found @ (Type::Error | Type::Optional(_)) => found,
            found => Type::optional(found),
        }
    }

    fn fold(&mut self, fold: &mut Fold) -> Type {
        let range = self.node(&mut fold.range);
        let init = self.node(&mut fold.init);
        let (first, second) = match self.settled(&range, false) {
            Type::List(items) if fold.var2.is_some() => (Type::Int, (*items).clone()),
            Type::List(items) => ((*items).clone(), Type::Dyn),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error => (Type::Dyn, Type::Dyn),
            Type::Param(number) => {
                self.bind(number, Type::Dyn);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let what = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.mistake(fold.range.at, what), Type::Error)
            }
        };
        let outside = self.scopes.len();
        self.scopes.push((fold.accu.clone(), init.clone()));
        let inside = self.scopes.len();
        self.scopes.push((fold.var.clone(), first));
        if let Some(var2) = &fold.var2 {
            self.scopes.push((var2.clone(), second));
        }
        let cond = self.node(&mut fold.cond);
        self.wants(fold.cond.at, &Type::Bool, &cond);
        let step = self.node(&mut fold.step);
        self.wants(fold.step.at, &init, &step);
        self.scopes.truncate(inside);
        let result = self.node(&mut fold.result);
        self.scopes.truncate(outside);
        self.settled(&result, false)
    }

    fn wants(&mut self, at: usize, wanted: &Type, found: &Type) {
        if !self.fits(wanted, found) {
            let (wanted, found) = (self.settled(wanted, true), self.settled(found, true));
            let what = format!("expected type '{wanted}' but found '{found}'");
            self.mistake(at, what);
        }
    }

    /// Returns the common type of a literal's earlier items (`all`) and its next item (`found`); `dyn` if they differ.
    fn joined(&mut self, all: Option<Type>, found: Type) -> Type {
        let Some(all) = all else { return found };
        if !self.fits(&all, &found) {
            return Type::Dyn;
        }
        if all.is_as_general_as(&found) {
            all
        } else {
            found
        }
    }

    fn unwrapped(&mut self, at: usize, found: &Type) -> Type {
        match self.settled(found, false) {
            Type::Optional(of) => (*of).clone(),
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let what = format!("expected type 'optional_type({other})' but found '{other}'");
                self.mistake(at, what)
            }
        }
    }
}
