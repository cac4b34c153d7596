//! Machine: parses expressions. The grammar and the messages of syntax errors are those of kube-apiserver.

mod macros;

use std::cell::Cell;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo,
};
use cel::parser::Parser;

use super::ast::{ExprNode, Fold, MapEntry, MessageField, NodeKind};
use crate::value::Value;

/// The maximum length of an expression, in characters.
const MAX_LENGTH: usize = 100_000;

const MAX_DEPTH: u16 = 250;

/// The stack of the parser's thread, in bytes. The recursive parser uses several dozen kilobytes per level of nesting,
/// so this is enough for an expression that is nested [`MAX_DEPTH`] levels deep.
const PARSER_STACK: usize = 64 << 20;

/// An expression of at most this length, in characters, cannot nest deep, and is parsed on the current thread.
const SHORT: usize = 16;

/// The error message of the `cel` parser for a macro such as `all(x, …)` if `x` is not a name.
const NO_NAME: &str = "argument must be a simple name";

const EXISTS_ONE: [char; 9] = ['e', 'x', 'i', 's', 't', 's', 'O', 'n', 'e'];

/// The position of an error, in characters from the start of the source, and its message.
pub(crate) type ParseError = (usize, String);

#[derive(Debug)]
pub(crate) struct Parsed {
    pub root: ExprNode,
    pub parts: usize,
}

/// Parses an expression, and expands its macros.
///
/// # Errors
/// Returns all syntax errors as one text, in the layout of [`describe`].
pub(crate) fn parse(source: &str) -> Result<Parsed, String> {
    on_deep_stack(source, |source| {
        read(source, true).map_err(|mistakes| describe(source, &mistakes))
    })
}

/// Parses a shard selector: an expression in which the optional syntax, such as `a.?b`, is an error.
///
/// # Errors
/// Returns the message of the first syntax error, without its position.
pub(crate) fn parse_core(source: &str) -> Result<ExprNode, String> {
    let parsed = on_deep_stack(source, |source| {
        read(source, false).map_err(|mistakes| {
            let first = mistakes.into_iter().min_by_key(|(at, _)| *at);
            let what = first.map(|(_, what)| what).unwrap_or_default();
            // If the selector could end at the error, kube-apiserver's message names only `<EOF>` as expected.
            match what.split_once("expecting {<EOF>,") {
                Some((found, _)) => format!("{found}expecting <EOF>"),
                None => what,
            }
        })
    });
    parsed.map(|parsed| parsed.root)
}

/// Runs a parser, on a thread with a large stack unless the expression is short. Fails if the expression is too long.
fn on_deep_stack(
    source: &str,
    read: impl FnOnce(&str) -> Result<Parsed, String> + Send,
) -> Result<Parsed, String> {
    let length = source.chars().count();
    if length > MAX_LENGTH {
        return Err(format!(
            "ERROR: <input>:1:1: expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}"
        ));
    }
    if length <= SHORT {
        return read(source);
    }
    let parser = std::thread::Builder::new().stack_size(PARSER_STACK);
    std::thread::scope(|scope| {
        let running = parser.spawn_scoped(scope, || read(source));
        let read = running.ok().and_then(|running| running.join().ok());
        read.unwrap_or_else(|| Err("ERROR: <input>:1:1: the expression cannot be read".to_owned()))
    })
}

fn read(source: &str, optional_syntax: bool) -> Result<Parsed, Vec<ParseError>> {
    let parser = Parser::new()
        .enable_optional_syntax(optional_syntax)
        .enable_ident_escape_syntax(false)
        .max_recursion_depth(MAX_DEPTH);
    match parser.parse_with_source_info(source) {
        Ok((expression, info)) => {
            let mut reader = TreeReader {
                info: &info,
                source: source.chars().collect(),
                parts: Cell::new(0),
                mistakes: Vec::new(),
            };
            let root = reader.node(expression, 0);
            if reader.mistakes.is_empty() {
                let parts = reader.parts.get();
                Ok(Parsed { root, parts })
            } else {
                Err(reader.mistakes)
            }
        }
        Err(wrong) => Err(wrong
            .errors
            .iter()
            .filter(|one| !one.msg.starts_with("Incomplete"))
            .map(|one| {
                let at = offset(source, one.pos.0, one.pos.1);
                let what = if one.msg.contains("OtherError(") {
                    format!("expression recursion limit exceeded: {MAX_DEPTH}")
                } else if one.msg == NO_NAME && is_first_of_map(source, at) {
                    "argument is not an identifier".to_owned()
                } else {
                    one.msg.clone()
                };
                (at, what)
            })
            .collect()),
    }
}

/// Returns whether the argument at the position `at` is the first argument of `map` or `filter`: cel-go has another
/// error message for these two macros.
fn is_first_of_map(source: &str, at: usize) -> bool {
    let before: String = source.chars().take(at).collect();
    let before = before.trim_end();
    let call = before.strip_suffix('(').unwrap_or_default().trim_end();
    call.ends_with(".map") || call.ends_with(".filter")
}

/// Converts a line and a column, which start at 1, to a position in the source, in characters.
fn offset(source: &str, line: isize, column: isize) -> usize {
    let line = usize::try_from(line - 1).unwrap_or_default();
    let lines = source.split_inclusive('\n').take(line);
    let before: usize = lines.map(|line| line.chars().count()).sum();
    before + usize::try_from(column - 1).unwrap_or_default()
}

/// Formats errors as cel-go does: each with its source line, and with a mark below the column.
pub(crate) fn describe(source: &str, mistakes: &[ParseError]) -> String {
    let mut sorted = mistakes.to_vec();
    sorted.sort_by_key(|(at, _)| *at);
    sorted.dedup();
    let messages: Vec<String> = sorted
        .iter()
        .map(|(at, what)| {
            let before: String = source.chars().take(*at).collect();
            let line = before.matches('\n').count();
            let start = before.rsplit('\n').next().unwrap_or_default();
            let column = start.chars().count();
            let text = source.split('\n').nth(line).unwrap_or_default();
            let text = text.replace('\t', " ");
            let padded = text.chars().chain(std::iter::repeat('.')).take(column);
            let dot = |c: char| if c.is_ascii() { '.' } else { '．' };
            let dots: String = padded.map(dot).collect();
            let (line, column) = (line + 1, column + 1);
            format!("ERROR: <input>:{line}:{column}: {what}\n | {text}\n | {dots}^")
        })
        .collect();
    messages.join("\n")
}

struct TreeReader<'a> {
    info: &'a SourceInfo,
    source: Vec<char>,
    parts: Cell<usize>,
    mistakes: Vec<ParseError>,
}

impl TreeReader<'_> {
    fn made(&self, at: usize, kind: NodeKind) -> ExprNode {
        let id = self.parts.get();
        self.parts.set(id + 1);
        ExprNode { id, at, kind }
    }

    fn node(&mut self, from: IdedExpr, depth: u16) -> ExprNode {
        let at = self.info.offset_for(from.id);
        let at = at.map_or(0, |(start, _)| start as usize);
        if depth > MAX_DEPTH {
            let what = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            self.mistakes.push((at, what));
            return self.made(at, NodeKind::Literal(Value::Null));
        }
        let deeper = depth + 1;
        let kind = match from.expr {
            Expr::Ident(name) => NodeKind::Ident(name),
            Expr::Literal(value) => {
                let value = literal(value);
                let at = self.sign_of(&value, at);
                return self.made(at, NodeKind::Literal(value));
            }
            Expr::Select(select) => NodeKind::Select {
                operand: Box::new(self.node(*select.operand, deeper)),
                field: select.field,
                test: select.test,
            },
            Expr::Call(call) => return self.call(at, call, deeper),
            Expr::List(list) => NodeKind::List {
                items: self.nodes(list.elements, deeper),
                optional: list.optional_indices,
            },
            Expr::Map(map) => {
                let mut entries = Vec::new();
                for entry in map.entries {
                    if let EntryExpr::MapEntry(entry) = entry.expr {
                        entries.push(MapEntry {
                            key: self.node(entry.key, deeper),
                            value: self.node(entry.value, deeper),
                            optional: entry.optional,
                        });
                    }
                }
                NodeKind::Map(entries)
            }
            // The `cel` parser expands `existsOne` with one variable, too; cel-go knows only the macro with two.
            Expr::Comprehension(_) if self.follows(&EXISTS_ONE, at) => {
                let what = "undeclared reference to 'existsOne' (in container '')";
                self.mistakes.push((at, what.to_owned()));
                NodeKind::Literal(Value::Null)
            }
            Expr::Comprehension(fold) => NodeKind::Fold(Box::new(self.fold(*fold, deeper))),
            Expr::Struct(message) => {
                let mut fields = Vec::new();
                for entry in message.entries {
                    if let EntryExpr::StructField(field) = entry.expr {
                        fields.push(MessageField {
                            name: field.field,
                            value: self.node(field.value, deeper),
                            optional: field.optional,
                        });
                    }
                }
                let name = message.type_name;
                NodeKind::Message { name, fields }
            }
            Expr::Unspecified => {
                self.mistakes
                    .push((at, "the expression is empty".to_owned()));
                NodeKind::Literal(Value::Null)
            }
        };
        self.made(at, kind)
    }

    /// Returns the position of a negative number's minus sign; for other literals `at`, the position of the literal.
    fn sign_of(&self, value: &Value<'_>, at: usize) -> usize {
        let negative = match value {
            Value::Int(number) => *number < 0,
            Value::Double(number) => *number < 0.0,
            _ => false,
        };
        let before = self.source.get(..at).unwrap_or_default();
        let sign = before.iter().rposition(|c| !c.is_whitespace());
        sign.filter(|sign| negative && before[*sign] == '-')
            .unwrap_or(at)
    }

    /// Returns whether `name` is directly before the position `at` in the source.
    fn follows(&self, name: &[char], at: usize) -> bool {
        let before = self.source.get(..at);
        before.is_some_and(|before| before.ends_with(name))
    }

    fn nodes(&mut self, from: Vec<IdedExpr>, depth: u16) -> Vec<ExprNode> {
        from.into_iter().map(|one| self.node(one, depth)).collect()
    }

    fn fold(&mut self, from: ComprehensionExpr, depth: u16) -> Fold {
        Fold {
            range: self.node(from.iter_range, depth),
            var: from.iter_var,
            var2: from.iter_var2,
            accu: from.accu_var,
            init: self.node(from.accu_init, depth),
            cond: self.node(from.loop_cond, depth),
            step: self.node(from.loop_step, depth),
            result: self.node(from.result, depth),
        }
    }

    fn call(&mut self, at: usize, from: CallExpr, depth: u16) -> ExprNode {
        let target = from.target.map(|target| self.node(*target, depth));
        let args = self.nodes(from.args, depth);
        match target {
            Some(target) => self.member(at, from.func_name, Box::new(target), args),
            None => self.function(at, &from.func_name, args),
        }
    }
}

fn literal(value: LiteralValue) -> Value<'static> {
    match value {
        LiteralValue::Boolean(value) => Value::Bool(value.into_inner()),
        LiteralValue::Bytes(value) => Value::Bytes(value.inner().into()),
        LiteralValue::Double(value) => Value::Double(value.into_inner()),
        LiteralValue::Int(value) => Value::Int(value.into_inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(value) => Value::text(value.inner()),
        LiteralValue::UInt(value) => Value::Uint(value.into_inner()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_mark_their_position() {
        let wrong = parse("self.a > ").unwrap_err();
        assert!(wrong.starts_with("ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>'"));
        assert!(wrong.ends_with("\n | self.a > \n | .........^"), "{wrong}");
        let wrong = parse("self.a\n  && has(self)").unwrap_err();
        let expected = "ERROR: <input>:2:10: invalid argument to has() macro\n |   && has(self)\n | .........^";
        assert_eq!(wrong, expected);
    }

    /// SRV-3: deep and long expressions are refused, and overflow no stack.
    #[test]
    fn hostile_expressions_are_refused() {
        for (open, close, count) in [
            ("(", ")", 20_000),
            ("[", "]", 5_000),
            ("f(", ")", 5_000),
            ("a ? b : ", "", 5_000),
            ("a + ", "", 5_000),
            ("a.", "", 5_000),
            ("{1:", "}", 5_000),
            ("a[", "]", 5_000),
        ] {
            let source = format!("{}a{}", open.repeat(count), close.repeat(count));
            assert!(parse(&source).is_err(), "{open}");
        }
        assert!(parse(&"a".repeat(200_000)).is_err());
        for count in [5_000, 5_001] {
            assert!(parse(&format!("{}a", "!".repeat(count))).is_ok());
        }
        assert!(parse(&format!("{}a{}", "(".repeat(200), ")".repeat(200))).is_ok());
    }
}
