//! Machine: parses expressions. Syntax errors come from the same grammar as upstream's.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo,
};
use cel::parser::Parser;

use super::ast::{Entry, Fold, Kind, Literal, MessageField, Node, TARGET};

/// The maximum length of an expression, in characters.
const MAX_LENGTH: usize = 100_000;

/// The maximum depth of an expression.
const MAX_DEPTH: u16 = 250;

/// The stack size of the parser's thread, in bytes. The recursive parser uses up to several dozen
/// kilobytes per level of nesting, so this stack fits an expression of [`MAX_DEPTH`].
const PARSER_STACK: usize = 64 << 20;

/// The maximum length of expressions that are parsed on the current thread, in characters. They cannot
/// nest deeply.
const SHORT: usize = 16;

/// The variable that accumulates the result of a loop.
const ACCU: &str = "@result";

const EXISTS_ONE: [char; 9] = ['e', 'x', 'i', 's', 't', 's', 'O', 'n', 'e'];

/// An error: its position in characters from the start, and its message.
pub(crate) type ParseError = (usize, String);

/// A parsed expression, and the number of its nodes.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub root: Node,
    pub parts: usize,
}

/// Parses an expression.
///
/// # Errors
/// Returns all syntax errors in the form of [`describe`].
pub(crate) fn parse(source: &str) -> Result<Parsed, String> {
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

fn read(source: &str) -> Result<Parsed, String> {
    let parser = Parser::new()
        .enable_optional_syntax(true)
        .enable_ident_escape_syntax(false)
        .max_recursion_depth(MAX_DEPTH);
    let refused = |mistakes: &[ParseError]| Err(describe(source, mistakes));
    match parser.parse_with_source_info(source) {
        Ok((expression, info)) => {
            let mut reader = Reader {
                info: &info,
                source: source.chars().collect(),
                parts: 0,
                mistakes: Vec::new(),
            };
            let root = reader.node(expression, 0);
            if reader.mistakes.is_empty() {
                let parts = reader.parts;
                Ok(Parsed { root, parts })
            } else {
                refused(&reader.mistakes)
            }
        }
        Err(wrong) => {
            let mistakes: Vec<_> = wrong
                .errors
                .iter()
                .filter(|one| !one.msg.starts_with("Incomplete"))
                .map(|one| {
                    let at = offset(source, one.pos.0, one.pos.1);
                    if one.msg.contains("OtherError(") {
                        (
                            at,
                            format!("expression recursion limit exceeded: {MAX_DEPTH}"),
                        )
                    } else {
                        (at, one.msg.clone())
                    }
                })
                .collect();
            refused(&mistakes)
        }
    }
}

/// Returns the position in the source, in characters. `line` and `column` start at 1.
fn offset(source: &str, line: isize, column: isize) -> usize {
    let line = usize::try_from(line - 1).unwrap_or_default();
    let before: usize = source
        .split_inclusive('\n')
        .take(line)
        .map(|line| line.chars().count())
        .sum();
    before + usize::try_from(column - 1).unwrap_or_default()
}

/// Formats errors as upstream does: each with its source line and a mark below the column.
pub(crate) fn describe(source: &str, mistakes: &[ParseError]) -> String {
    let mut sorted = mistakes.to_vec();
    sorted.sort_by_key(|(at, _)| *at);
    sorted.dedup();
    let messages: Vec<String> = sorted
        .iter()
        .map(|(at, what)| {
            let before: String = source.chars().take(*at).collect();
            let line = before.matches('\n').count();
            let column = before
                .rsplit('\n')
                .next()
                .unwrap_or_default()
                .chars()
                .count();
            let text = source.split('\n').nth(line).unwrap_or_default();
            let text = text.replace('\t', " ");
            let dots: String = text
                .chars()
                .chain(std::iter::repeat('.'))
                .take(column)
                .map(|c| if c.is_ascii() { '.' } else { '．' })
                .collect();
            format!(
                "ERROR: <input>:{}:{}: {what}\n | {text}\n | {dots}^",
                line + 1,
                column + 1
            )
        })
        .collect();
    messages.join("\n")
}

/// Converts the parser's tree into [`Node`]s.
struct Reader<'a> {
    info: &'a SourceInfo,
    source: Vec<char>,
    parts: usize,
    mistakes: Vec<ParseError>,
}

impl Reader<'_> {
    fn made(&mut self, at: usize, kind: Kind) -> Node {
        let id = self.parts;
        self.parts += 1;
        Node { id, at, kind }
    }

    fn node(&mut self, from: IdedExpr, depth: u16) -> Node {
        let at = self.info.offset_for(from.id);
        let at = at.map_or(0, |(start, _)| start as usize);
        if depth > MAX_DEPTH {
            let what = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            self.mistakes.push((at, what));
            return self.made(at, Kind::Literal(Literal::Null));
        }
        let deeper = depth + 1;
        let kind = match from.expr {
            Expr::Ident(name) => Kind::Ident(name),
            Expr::Literal(value) => {
                let value = literal(value);
                let at = self.sign_of(&value, at);
                return self.made(at, Kind::Literal(value));
            }
            Expr::Select(select) => Kind::Select {
                operand: Box::new(self.node(*select.operand, deeper)),
                field: select.field,
                test: select.test,
            },
            Expr::Call(call) => return self.call(at, call, deeper),
            Expr::List(list) => Kind::List {
                items: self.nodes(list.elements, deeper),
                optional: list.optional_indices,
            },
            Expr::Map(map) => {
                let mut entries = Vec::new();
                for entry in map.entries {
                    if let EntryExpr::MapEntry(entry) = entry.expr {
                        entries.push(Entry {
                            key: self.node(entry.key, deeper),
                            value: self.node(entry.value, deeper),
                            optional: entry.optional,
                        });
                    }
                }
                Kind::Map(entries)
            }
            // The parser expands this macro of two variables with one variable, too.
            Expr::Comprehension(_)
                if self
                    .source
                    .get(..at)
                    .is_some_and(|before| before.ends_with(&EXISTS_ONE)) =>
            {
                let what = "undeclared reference to 'existsOne' (in container '')";
                self.mistakes.push((at, what.to_owned()));
                Kind::Literal(Literal::Null)
            }
            Expr::Comprehension(fold) => Kind::Fold(Box::new(self.fold(*fold, deeper))),
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
                Kind::Message { name, fields }
            }
            Expr::Unspecified => {
                self.mistakes
                    .push((at, "the expression is empty".to_owned()));
                Kind::Literal(Literal::Null)
            }
        };
        self.made(at, kind)
    }

    /// Returns the position of the sign of a negative number, which starts at `at`.
    fn sign_of(&self, value: &Literal, at: usize) -> usize {
        let negative = match value {
            Literal::Int(number) => *number < 0,
            Literal::Double(number) => *number < 0.0,
            _ => false,
        };
        let before = self.source.get(..at).unwrap_or_default();
        let sign = before.iter().rposition(|c| !c.is_whitespace());
        sign.filter(|sign| negative && before[*sign] == '-')
            .unwrap_or(at)
    }

    fn nodes(&mut self, from: Vec<IdedExpr>, depth: u16) -> Vec<Node> {
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

    fn call(&mut self, at: usize, from: CallExpr, depth: u16) -> Node {
        let target = from
            .target
            .map(|target| Box::new(self.node(*target, depth)));
        let args = self.nodes(from.args, depth);
        match target {
            Some(target) => self.member(at, from.func_name, target, args),
            None => self.made(
                at,
                Kind::Call {
                    name: from.func_name,
                    target: None,
                    args,
                },
            ),
        }
    }

    /// Converts a method call, or expands a macro that the parser does not know.
    fn member(&mut self, at: usize, name: String, target: Box<Node>, args: Vec<Node>) -> Node {
        let count = args.len();
        let known = matches!(
            (name.as_str(), count),
            ("all" | "exists" | "existsOne" | "exists_one", 3)
                | (
                    "transformList" | "transformMap" | "transformMapEntry",
                    3 | 4
                )
                | ("optMap" | "optFlatMap" | "sortBy", 2)
        );
        if !known {
            let target = Some(target);
            return self.made(at, Kind::Call { name, target, args });
        }
        let mut args = args.into_iter();
        let mut variable = || match args.next().map(|one| (one.at, one.kind)) {
            Some((_, Kind::Ident(name))) => name,
            found => {
                let at = found.map_or(at, |(at, _)| at);
                self.mistakes
                    .push((at, "argument must be a simple name".to_owned()));
                String::new()
            }
        };
        let first = variable();
        if name.starts_with("opt") {
            let made = args.next();
            return match made {
                Some(made) => self.opt_map(at, &name, *target, first, made),
                None => self.literal(at, Literal::Null),
            };
        }
        if name == "sortBy" {
            let key = args.next();
            return match key {
                Some(key) => self.sort_by(at, *target, first, key),
                None => self.literal(at, Literal::Null),
            };
        }
        let second = variable();
        let rest: Vec<Node> = args.collect();
        self.two_variables(at, &name, *target, (first, second), rest)
    }

    fn literal(&mut self, at: usize, value: Literal) -> Node {
        self.made(at, Kind::Literal(value))
    }

    fn accu(&mut self, at: usize) -> Node {
        self.made(at, Kind::Ident(ACCU.to_owned()))
    }

    fn function(&mut self, at: usize, name: &str, args: Vec<Node>) -> Node {
        let name = name.to_owned();
        let target = None;
        self.made(at, Kind::Call { name, target, args })
    }

    /// Expands `o.optMap(v, e)`: evaluates `e` with the value of `o` bound to `v`, if `o` has a
    /// value.
    fn opt_map(&mut self, at: usize, name: &str, target: Node, var: String, made: Node) -> Node {
        // The target is bound to a variable, so that it is evaluated only once.
        let held = TARGET;
        let ident = |reader: &mut Self| reader.made(at, Kind::Ident(held.to_owned()));
        let member = |reader: &mut Self, name: &str| {
            let target = Some(Box::new(ident(reader)));
            let name = name.to_owned();
            let args = Vec::new();
            reader.made(at, Kind::Call { name, target, args })
        };
        let test = member(self, "hasValue");
        let value = member(self, "value");
        let bound = self.bind(at, var, value, made);
        let some = if name == "optMap" {
            self.function(at, "optional.of", vec![bound])
        } else {
            bound
        };
        let none = self.function(at, "optional.none", Vec::new());
        let choice = self.function(at, "_?_:_", vec![test, some, none]);
        self.bind(at, held.to_owned(), target, choice)
    }

    /// Expands `l.sortBy(v, key)`: evaluates the keys of all items, and orders the items by them.
    fn sort_by(&mut self, at: usize, target: Node, var: String, key: Node) -> Node {
        let held = "@__sortBy_input__";
        let ident = |reader: &mut Self| reader.made(at, Kind::Ident(held.to_owned()));
        let list = |reader: &mut Self, items| {
            let optional = Vec::new();
            reader.made(at, Kind::List { items, optional })
        };
        let item = list(self, vec![key]);
        let accu = self.accu(at);
        let fold = Fold {
            range: ident(self),
            var,
            var2: None,
            accu: ACCU.to_owned(),
            init: list(self, Vec::new()),
            cond: self.literal(at, Literal::Bool(true)),
            step: self.function(at, "_+_", vec![accu, item]),
            result: self.accu(at),
        };
        let keys = self.made(at, Kind::Fold(Box::new(fold)));
        let sorted = Kind::Call {
            name: "@sortByAssociatedKeys".to_owned(),
            target: Some(Box::new(ident(self))),
            args: vec![keys],
        };
        let sorted = self.made(at, sorted);
        self.bind(at, held.to_owned(), target, sorted)
    }

    /// Returns a node that evaluates `result` with `value` bound to `var`: a loop without
    /// iterations.
    fn bind(&mut self, at: usize, var: String, value: Node, result: Node) -> Node {
        let items = Vec::new();
        let optional = Vec::new();
        let range = self.made(at, Kind::List { items, optional });
        let cond = self.literal(at, Literal::Bool(false));
        let step = self.made(at, Kind::Ident(var.clone()));
        let fold = Fold {
            range,
            var: "#unused".to_owned(),
            var2: None,
            accu: var,
            init: value,
            cond,
            step,
            result,
        };
        self.made(at, Kind::Fold(Box::new(fold)))
    }

    /// Expands the macros over index and item, or key and value.
    fn two_variables(
        &mut self,
        at: usize,
        name: &str,
        range: Node,
        (var, var2): (String, String),
        rest: Vec<Node>,
    ) -> Node {
        let mut rest = rest.into_iter();
        let filter = if rest.len() > 1 { rest.next() } else { None };
        let Some(last) = rest.next() else {
            return self.literal(at, Literal::Null);
        };
        let truth = |reader: &mut Self, value| reader.literal(at, Literal::Bool(value));
        let (init, cond, step, result);
        match name {
            "all" | "exists" => {
                let all = name == "all";
                init = truth(self, all);
                let accu = self.accu(at);
                let held = if all {
                    accu
                } else {
                    self.function(at, "!_", vec![accu])
                };
                cond = self.function(at, "@not_strictly_false", vec![held]);
                let accu = self.accu(at);
                let both = if all { "_&&_" } else { "_||_" };
                step = self.function(at, both, vec![accu, last]);
                result = self.accu(at);
            }
            "existsOne" | "exists_one" => {
                init = self.literal(at, Literal::Int(0));
                cond = truth(self, true);
                let one = self.literal(at, Literal::Int(1));
                let accu = self.accu(at);
                let more = self.function(at, "_+_", vec![accu, one]);
                let accu = self.accu(at);
                step = self.function(at, "_?_:_", vec![last, more, accu]);
                let one = self.literal(at, Literal::Int(1));
                let accu = self.accu(at);
                result = self.function(at, "_==_", vec![accu, one]);
            }
            _ => {
                let accu = self.accu(at);
                let more;
                if name == "transformList" {
                    let (items, optional) = (Vec::new(), Vec::new());
                    init = self.made(at, Kind::List { items, optional });
                    let (items, optional) = (vec![last], Vec::new());
                    let item = self.made(at, Kind::List { items, optional });
                    more = self.function(at, "_+_", vec![accu, item]);
                } else {
                    init = self.made(at, Kind::Map(Vec::new()));
                    let mut args = vec![accu];
                    if name == "transformMap" {
                        args.push(self.made(at, Kind::Ident(var.clone())));
                    }
                    args.push(last);
                    more = self.function(at, "cel.@mapInsert", args);
                }
                cond = truth(self, true);
                step = match filter {
                    Some(filter) => {
                        let accu = self.accu(at);
                        self.function(at, "_?_:_", vec![filter, more, accu])
                    }
                    None => more,
                };
                result = self.accu(at);
            }
        }
        let fold = Fold {
            range,
            var,
            var2: Some(var2),
            accu: ACCU.to_owned(),
            init,
            cond,
            step,
            result,
        };
        self.made(at, Kind::Fold(Box::new(fold)))
    }
}

fn literal(value: LiteralValue) -> Literal {
    match value {
        LiteralValue::Boolean(value) => Literal::Bool(value.into_inner()),
        LiteralValue::Bytes(value) => Literal::Bytes(value.inner().into()),
        LiteralValue::Double(value) => Literal::Double(value.into_inner()),
        LiteralValue::Int(value) => Literal::Int(value.into_inner()),
        LiteralValue::Null => Literal::Null,
        LiteralValue::String(value) => Literal::Text(value.inner().into()),
        LiteralValue::UInt(value) => Literal::Uint(value.into_inner()),
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

    /// SRV-3: deep and long expressions are refused and overflow no stack.
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
