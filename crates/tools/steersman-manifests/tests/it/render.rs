//! A renderer for the part of Go's templates that the chart uses.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steersman_apimachinery::yaml;

/// The named templates of a chart, and the data for all templates.
pub(crate) struct Renderer {
    named: BTreeMap<String, Vec<Node>>,
    data: Value,
}

#[derive(Clone, Debug)]
enum Node {
    Text(String),
    /// Prints the value of a pipeline.
    Print(String),
    /// Sets a variable to the value of a pipeline.
    Set(String, String),
    /// `if`, or `with` if the value becomes the dot: the nodes of the block, and those of `else`.
    Branch {
        is_with: bool,
        pipeline: String,
        nodes: Vec<Self>,
        others: Vec<Self>,
    },
    Define(String, Vec<Self>),
}

/// The variables and the dot of a template call.
#[derive(Clone)]
struct Scope {
    dot: Value,
    variables: BTreeMap<String, Value>,
}

impl Renderer {
    /// Parses the named templates of a file. `data` is the dot: the release, the chart, the values and the files.
    pub(crate) fn new(helpers: &str, data: Value) -> Self {
        let mut named = BTreeMap::new();
        for node in parse(helpers) {
            if let Node::Define(name, nodes) = node {
                named.insert(name, nodes);
            }
        }
        Self { named, data }
    }

    /// Renders a template.
    pub(crate) fn render(&self, template: &str) -> String {
        self.nodes(&parse(template), &mut self.scope(self.data.clone()))
    }

    fn scope(&self, dot: Value) -> Scope {
        let variables = BTreeMap::from([("$".to_owned(), self.data.clone())]);
        Scope { dot, variables }
    }

    fn nodes(&self, nodes: &[Node], scope: &mut Scope) -> String {
        let mut text = String::new();
        for node in nodes {
            match node {
                Node::Text(more) => text.push_str(more),
                Node::Print(pipeline) => text.push_str(&printed(&self.pipeline(pipeline, scope))),
                Node::Set(variable, pipeline) => {
                    let value = self.pipeline(pipeline, scope);
                    scope.variables.insert(variable.clone(), value);
                }
                Node::Branch {
                    is_with,
                    pipeline,
                    nodes,
                    others,
                } => {
                    let value = self.pipeline(pipeline, scope);
                    let mut inner = scope.clone();
                    let chosen = match is_true(&value) {
                        true => nodes,
                        false => others,
                    };
                    if *is_with && is_true(&value) {
                        inner.dot = value;
                    }
                    text.push_str(&self.nodes(chosen, &mut inner));
                }
                Node::Define(..) => {}
            }
        }
        text
    }

    fn pipeline(&self, text: &str, scope: &Scope) -> Value {
        let mut last = None;
        for command in divided(text, '|') {
            last = Some(self.command(&command, last, scope));
        }
        last.unwrap()
    }

    fn command(&self, text: &str, last: Option<Value>, scope: &Scope) -> Value {
        let words = divided(text.trim(), ' ');
        let (first, rest) = words.split_first().unwrap();
        if first == ".Files.Get" {
            let name: String = serde_json::from_str(&rest[0]).unwrap();
            return self.data["Files"][name].clone();
        }
        if !first.starts_with(|first: char| first.is_ascii_alphabetic()) {
            assert!(rest.is_empty() && last.is_none(), "{text}");
            return self.term(first, scope);
        }
        let arguments = rest.iter().map(|word| self.term(word, scope));
        let arguments: Vec<Value> = arguments.chain(last).collect();
        self.call(first, &arguments)
    }

    fn term(&self, word: &str, scope: &Scope) -> Value {
        if let Some(inner) = word.strip_prefix('(') {
            return self.pipeline(inner.strip_suffix(')').unwrap(), scope);
        }
        if word.starts_with(['"', '-']) || word.starts_with(|first: char| first.is_ascii_digit()) {
            return serde_json::from_str(word).unwrap();
        }
        let (root, path) = word.split_once('.').unwrap_or((word, ""));
        let mut value = match root {
            "" => &scope.dot,
            variable => &scope.variables[variable],
        };
        for name in path.split('.').filter(|name| !name.is_empty()) {
            value = value
                .get(name)
                .unwrap_or_else(|| panic!("{word}: there is no {name}"));
        }
        value.clone()
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Value {
        let text = |at: usize| arguments[at].as_str().unwrap();
        let number = |at: usize| arguments[at].as_i64().unwrap();
        match function {
            "include" => {
                let mut scope = self.scope(arguments[1].clone());
                json!(self.nodes(&self.named[text(0)], &mut scope))
            }
            "toYaml" => json!(yaml::write(&arguments[0]).trim_end()),
            "nindent" => {
                let indent = format!("\n{}", " ".repeat(usize::try_from(number(0)).unwrap()));
                json!(indent.clone() + &text(1).replace('\n', &indent))
            }
            "quote" => json!(json!(printed(&arguments[0])).to_string()),
            "default" => match is_true(&arguments[1]) {
                true => arguments[1].clone(),
                false => arguments[0].clone(),
            },
            "and" => {
                let first = arguments.iter().find(|value| !is_true(value));
                first.or(arguments.last()).unwrap().clone()
            }
            "gt" => json!(number(0) > number(1)),
            "int" => json!(number(0)),
            "hasPrefix" => json!(text(1).starts_with(text(0))),
            "trimSuffix" => json!(text(1).strip_suffix(text(0)).unwrap_or(text(1))),
            "trunc" => {
                let most = usize::try_from(number(0)).unwrap();
                json!(text(1).chars().take(most).collect::<String>())
            }
            "replace" => json!(text(2).replace(text(0), text(1))),
            "printf" => {
                let format = text(0).to_owned();
                let fill =
                    |format: String, value: &Value| format.replacen("%s", &printed(value), 1);
                json!(arguments[1..].iter().fold(format, fill))
            }
            other => panic!("the function {other} is not known to this test"),
        }
    }
}

/// Returns the text that a template prints for a value.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => panic!("{value} is printed without toYaml"),
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_true) => *is_true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// Splits a text at a character, except inside of quotes and parentheses.
fn divided(text: &str, at: char) -> Vec<String> {
    let (mut parts, mut depth, mut is_quoted) = (vec![String::new()], 0, false);
    for char in text.chars() {
        match char {
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth -= 1,
            _ => {}
        }
        if char == at && depth == 0 && !is_quoted {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(char);
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// An open block: its action, the nodes before `else`, and the nodes after it.
type Open = (String, Vec<Node>, Option<Vec<Node>>);

/// Parses a template into nodes.
fn parse(template: &str) -> Vec<Node> {
    let mut open: Vec<Open> = vec![(String::new(), Vec::new(), None)];
    let (mut rest, mut trims) = (template, false);
    loop {
        let (text, after) = rest.split_once("{{").unwrap_or((rest, ""));
        let text = if trims { text.trim_start() } else { text };
        let is_last = !rest.contains("{{");
        let text = match after.strip_prefix('-') {
            Some(_) => text.trim_end(),
            None => text,
        };
        add(&mut open, Node::Text(text.to_owned()));
        if is_last {
            break;
        }
        // A quoted text may contain braces, which do not end the action.
        let end = match after.find("\"{{\" }}") {
            Some(0 | 1) => after.find(" }}").unwrap() + 1,
            _ => after.find("}}").unwrap(),
        };
        let action = &after[..end];
        rest = &after[end + 2..];
        trims = action.ends_with('-');
        let action = action.trim_start_matches('-');
        act(&mut open, action.strip_suffix('-').unwrap_or(action).trim());
    }
    let (_, nodes, _) = open.pop().unwrap();
    assert!(open.is_empty(), "a block does not end");
    nodes
}

fn add(open: &mut [Open], node: Node) {
    let (_, nodes, others) = open.last_mut().unwrap();
    others.as_mut().unwrap_or(nodes).push(node);
}

/// Processes an action, given without its braces.
fn act(open: &mut Vec<Open>, action: &str) {
    let (word, rest) = action.split_once(' ').unwrap_or((action, ""));
    match word {
        "if" | "with" | "define" => open.push((action.to_owned(), Vec::new(), None)),
        "else" => open.last_mut().unwrap().2 = Some(Vec::new()),
        "end" => {
            let (action, nodes, others) = open.pop().unwrap();
            let (word, rest) = action.split_once(' ').unwrap();
            let node = match word {
                "define" => Node::Define(rest.trim_matches('"').to_owned(), nodes),
                _ => Node::Branch {
                    is_with: word == "with",
                    pipeline: rest.to_owned(),
                    nodes,
                    others: others.unwrap_or_default(),
                },
            };
            add(open, node);
        }
        "/*" => {}
        variable if variable.starts_with('$') && rest.starts_with(":= ") => {
            let pipeline = rest.trim_start_matches(":= ").to_owned();
            add(open, Node::Set(variable.to_owned(), pipeline));
        }
        _ => add(open, Node::Print(action.to_owned())),
    }
}
