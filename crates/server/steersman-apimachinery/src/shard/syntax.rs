//! Machine: parses CEL expressions in the detail that a shard selector needs, with the messages of
//! cel-go's parser.

use super::RESERVED_WORDS;
use super::lexer::{Kind, Token, lex};

/// Maximum nesting of an expression, as in cel-go.
const DEEPEST: usize = 250;

/// A parsed expression. Parts that no shard selector may contain are not kept in detail.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// A call of a function or an operator by its name in cel-go, with its arguments but without
    /// the target of a method.
    Call(String, Vec<Self>),
    Ident(String),
    Select(Box<Self>, String),
    Literal(Literal),
    List,
    Map,
    Struct,
}

/// A literal value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    String(String),
    Int,
    Uint,
    Double,
    Bool,
    Bytes,
    Null,
}

impl Expression {
    /// Returns the number of the expression's kind in cel-go's `ast.ExprKind`.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Call(..) => 1,
            Self::Ident(_) => 3,
            Self::List => 4,
            Self::Literal(_) => 5,
            Self::Map => 6,
            Self::Select(..) => 7,
            Self::Struct => 8,
        }
    }
}

impl Literal {
    /// Returns the Go type of the value.
    pub(super) fn go_type(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Int => "int64",
            Self::Uint => "uint64",
            Self::Double => "float64",
            Self::Bool => "bool",
            Self::Bytes => "[]uint8",
            Self::Null => "structpb.NullValue",
        }
    }
}

/// The tokens that an expression may start with, in the order of cel-go's tokens.
const BEGINNINGS: [Kind; 15] = [
    Kind::Sign("["),
    Kind::Sign("{"),
    Kind::Sign("("),
    Kind::Sign("."),
    Kind::Sign("-"),
    Kind::Sign("!"),
    Kind::Sign("true"),
    Kind::Sign("false"),
    Kind::Sign("null"),
    Kind::Float,
    Kind::Int,
    Kind::Uint,
    Kind::String,
    Kind::Bytes,
    Kind::Identifier,
];

/// The binary operators: sign, name, and precedence.
const BINARY: [(&str, &str, u8); 14] = [
    ("||", "_||_", 1),
    ("&&", "_&&_", 2),
    ("<", "_<_", 3),
    ("<=", "_<=_", 3),
    (">", "_>_", 3),
    (">=", "_>=_", 3),
    ("==", "_==_", 3),
    ("!=", "_!=_", 3),
    ("in", "@in", 3),
    ("+", "_+_", 4),
    ("-", "_-_", 4),
    ("*", "_*_", 5),
    ("/", "_/_", 5),
    ("%", "_%_", 5),
];

/// Parses a whole text.
///
/// # Errors
/// Fails with the first message of cel-go's parser.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    let (tokens, unknown) = lex(text);
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        complaint: None,
    };
    let parsed = parser
        .expression(0)
        .and_then(|expression| parser.take(Kind::End).map(|()| expression));
    // The lexer is one token ahead of the parser.
    if let Some((place, bad)) = unknown
        && (parsed.is_ok() || place <= parser.at)
    {
        return Err(syntax(&format!("token recognition error at: '{bad}'")));
    }
    let expression = parsed?;
    parser.complaint.map_or(Ok(expression), Err)
}

fn syntax(why: &str) -> String {
    format!("Syntax error: {why}")
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// The first message about an expression that parses; syntax errors are reported before it.
    complaint: Option<String>,
}

impl Parser {
    fn kind(&self, ahead: usize) -> Kind {
        let token = self.tokens.get(self.at + ahead);
        token.map_or(Kind::End, |token| token.kind)
    }

    fn text(&self) -> &str {
        let token = self.tokens.get(self.at);
        token.map_or("<EOF>", |token| token.text.as_str())
    }

    fn is(&self, sign: &'static str) -> bool {
        self.kind(0) == Kind::Sign(sign)
    }

    fn accept(&mut self, sign: &'static str) -> bool {
        let found = self.is(sign);
        self.at += usize::from(found);
        found
    }

    fn complain(&mut self, why: String) {
        self.complaint.get_or_insert(why);
    }

    /// Takes the next token, which must be of this kind.
    fn take(&mut self, wanted: Kind) -> Result<(), String> {
        let found = self.kind(0);
        if found == wanted {
            self.at += 1;
            return Ok(());
        }
        let text = self.text();
        let name = wanted.name();
        let why = if self.kind(1) == wanted && found != Kind::End {
            format!("extraneous input '{text}' expecting {name}")
        } else if may_follow(wanted, found) {
            format!("missing {name} at '{text}'")
        } else {
            format!("mismatched input '{text}' expecting {name}")
        };
        Err(syntax(&why))
    }

    /// Refuses a token that starts no expression; `closing` is allowed too.
    fn begin(&self, closing: Option<&'static str>) -> Result<(), String> {
        let mut expected: Vec<Kind> = BEGINNINGS.to_vec();
        if let Some(closing) = closing {
            let place = match closing {
                "]" => 1,
                "}" => 2,
                _ => 3,
            };
            expected.insert(place, Kind::Sign(closing));
        }
        if expected.contains(&self.kind(0)) {
            return Ok(());
        }
        let how = if self.kind(0) != Kind::End && expected.contains(&self.kind(1)) {
            "extraneous"
        } else {
            "mismatched"
        };
        let names: Vec<String> = expected.into_iter().map(Kind::name).collect();
        let (text, names) = (self.text(), names.join(", "));
        Err(syntax(&format!(
            "{how} input '{text}' expecting {{{names}}}"
        )))
    }

    /// Parses an expression of operators with a higher precedence than `floor`; 0 includes the
    /// conditional.
    fn expression(&mut self, floor: u8) -> Result<Expression, String> {
        self.depth += 1;
        nested(self.depth)?;
        let mut left = self.unary()?;
        let mut links = 0;
        while let Kind::Sign(sign) = self.kind(0)
            && let Some((_, name, level)) = BINARY.iter().find(|(known, ..)| *known == sign)
            && *level > floor
        {
            self.at += 1;
            let right = self.expression(*level)?;
            match &mut left {
                // A chain of one logical operator becomes one call with many arguments.
                Expression::Call(same, sides) if *level < 3 && same == name => sides.push(right),
                _ => {
                    links += 1;
                    nested(links)?;
                    left = Expression::Call((*name).to_owned(), vec![left, right]);
                }
            }
        }
        if floor == 0 && self.accept("?") {
            let yes = self.expression(0)?;
            self.take(Kind::Sign(":"))?;
            let no = self.expression(0)?;
            left = Expression::Call("_?_:_".to_owned(), vec![left, yes, no]);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, String> {
        self.begin(None)?;
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let from = self.at;
            while self.accept(sign) {}
            let count = self.at - from;
            if count == 0 {
                continue;
            }
            let number = matches!(self.kind(0), Kind::Int | Kind::Float);
            let operand = self.member()?;
            // A minus before a number is part of the number, and two equal signs cancel out.
            let kept = count % 2 == 1 && !(sign == "-" && number);
            return Ok(if kept {
                Expression::Call(name.to_owned(), vec![operand])
            } else {
                operand
            });
        }
        self.member()
    }

    fn member(&mut self) -> Result<Expression, String> {
        let mut left = self.primary()?;
        let mut links = 0;
        loop {
            links += 1;
            nested(links)?;
            if self.accept(".") {
                let optional = self.accept("?");
                let name = self.text().to_owned();
                if self.kind(0) == Kind::Escaped {
                    self.at += 1;
                } else {
                    self.take(Kind::Identifier)?;
                }
                if self.is("(") {
                    left = Expression::Call(name, self.arguments()?);
                } else if optional {
                    self.complain("unsupported syntax '.?'".to_owned());
                } else if self.is("{") && names_a_type(&left) {
                    self.fields("}")?;
                    left = Expression::Struct;
                } else {
                    left = Expression::Select(Box::new(left), name);
                }
            } else if self.accept("[") {
                let index = self.expression(0)?;
                self.take(Kind::Sign("]"))?;
                left = Expression::Call("_[_]".to_owned(), vec![left, index]);
            } else {
                return Ok(left);
            }
        }
    }

    fn primary(&mut self) -> Result<Expression, String> {
        self.begin(None)?;
        let kind = self.kind(0);
        let text = self.text().to_owned();
        match kind {
            Kind::Sign("(") => {
                self.at += 1;
                let inner = self.expression(0)?;
                self.take(Kind::Sign(")"))?;
                return Ok(inner);
            }
            Kind::Sign("[") => {
                self.at += 1;
                self.fields("]")?;
                return Ok(Expression::List);
            }
            Kind::Sign("{") => {
                self.fields("}")?;
                return Ok(Expression::Map);
            }
            Kind::Sign(".") | Kind::Identifier => return self.named(),
            _ => self.at += 1,
        }
        Ok(Expression::Literal(self.literal(kind, &text)))
    }

    /// Parses an identifier, a call or a struct, with an optional dot before it.
    fn named(&mut self) -> Result<Expression, String> {
        let dot = if self.accept(".") { "." } else { "" };
        let name = format!("{dot}{}", self.text());
        let plain = self.text().to_owned();
        self.take(Kind::Identifier)?;
        if RESERVED_WORDS.contains(&plain.as_str()) {
            self.complain(format!("reserved identifier: {plain}"));
        }
        if self.is("(") {
            return Ok(Expression::Call(name, self.arguments()?));
        }
        if self.is("{") {
            self.fields("}")?;
            return Ok(Expression::Struct);
        }
        Ok(Expression::Ident(name))
    }

    fn literal(&mut self, kind: Kind, text: &str) -> Literal {
        match kind {
            Kind::Int => {
                let fits = match text.strip_prefix("0x") {
                    Some(digits) => i64::from_str_radix(digits, 16).is_ok(),
                    None => text.parse::<i64>().is_ok(),
                };
                if !fits {
                    self.complain("invalid int literal".to_owned());
                }
                Literal::Int
            }
            Kind::Uint => {
                let digits = text.trim_end_matches(['u', 'U']);
                let fits = match digits.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16).is_ok(),
                    None => digits.parse::<u64>().is_ok(),
                };
                if !fits {
                    self.complain("invalid uint literal".to_owned());
                }
                Literal::Uint
            }
            Kind::Float => Literal::Double,
            Kind::Bytes => Literal::Bytes,
            Kind::String => Literal::String(unquote(text)),
            Kind::Sign("null") => Literal::Null,
            _ => Literal::Bool,
        }
    }

    /// Parses the arguments of a call, starting at its opening bracket.
    fn arguments(&mut self) -> Result<Vec<Expression>, String> {
        self.take(Kind::Sign("("))?;
        let mut arguments = Vec::new();
        self.begin(Some(")"))?;
        if !self.is(")") {
            arguments.push(self.expression(0)?);
            while self.accept(",") {
                arguments.push(self.expression(0)?);
            }
        }
        self.take(Kind::Sign(")"))?;
        Ok(arguments)
    }

    /// Parses the entries of a list, a map or a struct, and its closing bracket.
    fn fields(&mut self, closing: &'static str) -> Result<(), String> {
        self.accept("{");
        while !self.is(closing) {
            self.begin(Some(closing))?;
            self.expression(0)?;
            if closing == "}" {
                self.take(Kind::Sign(":"))?;
                self.expression(0)?;
            }
            if !self.accept(",") {
                break;
            }
        }
        self.take(Kind::Sign(closing))
    }
}

/// Refuses an expression nested too deep.
fn nested(depth: usize) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("expression recursion limit exceeded: {DEEPEST}"));
    }
    Ok(())
}

/// Returns whether a chain of selections could name the type of a struct.
fn names_a_type(expression: &Expression) -> bool {
    let mut at = expression;
    while let Expression::Select(operand, _) = at {
        at = operand;
    }
    matches!(at, Expression::Ident(_))
}

/// Returns whether a token can follow a missing bracket.
fn may_follow(missing: Kind, found: Kind) -> bool {
    let closes = matches!(missing, Kind::Sign(")" | "]" | "}"));
    let goes_on = match found {
        Kind::End => true,
        Kind::Sign(sign) => {
            matches!(sign, "." | "[" | "?" | "," | ")" | "]" | "}" | ":")
                || BINARY.iter().any(|(known, ..)| *known == sign)
        }
        _ => false,
    };
    closes && goes_on
}

/// Returns the value of a string literal. Numeric escapes stay as written, since no valid bound
/// contains one.
fn unquote(text: &str) -> String {
    let raw = text.starts_with(['r', 'R']);
    let body = text.trim_start_matches(['r', 'R']);
    let quote = if body.len() >= 6 && (body.starts_with("\"\"\"") || body.starts_with("'''")) {
        3
    } else {
        1
    };
    let inner = body.get(quote..body.len().saturating_sub(quote));
    let inner = inner.unwrap_or_default();
    if raw {
        return inner.to_owned();
    }
    let mut value = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            value.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => value.push('\n'),
            Some('t') => value.push('\t'),
            Some('r') => value.push('\r'),
            Some(c @ ('\\' | '\'' | '"' | '`' | '?')) => value.push(c),
            other => {
                value.push('\\');
                value.extend(other);
            }
        }
    }
    value
}
