//! Machine: builds the nodes of each document from the events of the YAML parser.

use std::collections::HashMap;

use granit_parser::{
    ErrorKind, Event, Parser, ScalarStyle, ScanError, StrInput, StructureStyle, Tag, YamlVersion,
};

use super::problems::{self, DEEPEST, Repair};

/// The nodes of one document. The last node without a parent is the root.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<YamlNode>,
    /// The names of the anchors, by the number that the parser gives to an anchor.
    names: HashMap<usize, String>,
    /// The indexes of the anchored nodes, by the number that the parser gives to an anchor.
    anchored: HashMap<usize, usize>,
}

#[derive(Debug)]
pub(super) struct YamlNode {
    pub(super) content: YamlContent,
    /// The tag of the node in its long form; empty without a tag.
    pub(super) tag: String,
    /// The line of the node, counted from one.
    pub(super) line: usize,
}

#[derive(Debug)]
pub(super) enum YamlContent {
    Scalar {
        text: String,
        /// Whether the scalar has no quotes, so that its text may be a value of another type.
        is_plain: bool,
    },
    /// A list: the indexes of its items.
    List(Vec<usize>),
    /// A map: the indexes of its keys and values, alternating.
    Map(Vec<usize>),
    /// An alias: the index of the anchored node, and the name of the anchor.
    Alias(usize, String),
}

impl Tree {
    pub(super) fn node(&self, at: usize) -> &YamlNode {
        &self.nodes[at]
    }

    fn add(
        &mut self,
        content: YamlContent,
        (anchor, tag, line): (usize, Option<&Tag>, usize),
    ) -> usize {
        let at = self.nodes.len();
        let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
        let tag = tag.unwrap_or_default();
        self.nodes.push(YamlNode { content, tag, line });
        if anchor > 0 {
            self.anchored.insert(anchor, at);
        }
        at
    }

    fn add_child(&mut self, parent: usize, child: usize) {
        if let YamlContent::List(children) | YamlContent::Map(children) =
            &mut self.nodes[parent].content
        {
            children.push(child);
        }
    }
}

pub(super) struct Documents<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    /// The repair of the text, if the parser refused a text that Go's reader accepts.
    pub(super) repair: Option<Repair>,
}

impl<'a> Documents<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut options = granit_parser::options! {
            emit_unresolved_aliases: true,
            emit_anchor_events: true,
        };
        options.set_emit_comments(false);
        let parser = Parser::new_from_str_with_options(text, options);
        Self {
            text,
            parser,
            repair: None,
        }
    }

    /// Returns the nodes of the next document; `None` after the last document.
    ///
    /// # Errors
    /// Fails with the message of Go's reader.
    pub(super) fn next(&mut self) -> Result<Option<Tree>, String> {
        let mut tree = Tree::default();
        // The indexes of the open lists and maps, and whether each is in brackets.
        let mut open: Vec<(usize, bool)> = Vec::new();
        while let Some(event) = self.parser.next_event() {
            let (event, span) = match event {
                Ok(event) => event,
                Err(error) => return Err(self.problem(&error)),
            };
            let line = span.start.line();
            let before = span.start.byte_offset().and_then(|at| self.text.get(..at));
            if event.is_node() && !open.iter().any(|(_, is_flow)| *is_flow) {
                problems::check_tab(before.unwrap_or_default(), line)?;
            }
            let mut is_flow = false;
            let added = match event {
                Event::StreamEnd => return Ok(None),
                // A document without content has one empty node.
                Event::DocumentEnd if !tree.nodes.is_empty() => return Ok(Some(tree)),
                Event::DocumentStart(_, Some(version)) if !is_known(version) => {
                    return Err("found incompatible YAML document".to_owned());
                }
                Event::Anchor(anchor, name) => {
                    problems::check_anchor(&name, line)?;
                    tree.names.insert(anchor, name.into_owned());
                    continue;
                }
                Event::UnresolvedAlias(name) => {
                    problems::check_anchor(&name, line)?;
                    return Err(format!("unknown anchor '{name}' referenced"));
                }
                Event::Alias(anchor) => {
                    let name = tree.names.get(&anchor).cloned().unwrap_or_default();
                    // The parser numbers an anchor when it reads the anchored node.
                    let target = tree.anchored.get(&anchor).copied().unwrap_or_default();
                    tree.add(YamlContent::Alias(target, name), (0, None, line))
                }
                Event::Scalar(text, style, anchor, tag) => {
                    if style == ScalarStyle::DoubleQuoted {
                        let quoted = span.byte_range().and_then(|bytes| self.text.get(bytes));
                        problems::check_escapes(quoted.unwrap_or_default(), line)?;
                    }
                    let is_plain = tag.is_none() && style == ScalarStyle::Plain;
                    let is_last = span.end.byte_offset() == Some(self.text.len());
                    let text = self.scalar_text(text.into_owned(), style, is_last);
                    let content = YamlContent::Scalar { text, is_plain };
                    tree.add(content, (anchor, tag.as_deref(), line))
                }
                Event::SequenceStart(style, anchor, tag) => {
                    is_flow = style == StructureStyle::Flow;
                    tree.add(
                        YamlContent::List(Vec::new()),
                        (anchor, tag.as_deref(), line),
                    )
                }
                Event::MappingStart(style, anchor, tag) => {
                    is_flow = style == StructureStyle::Flow;
                    tree.add(YamlContent::Map(Vec::new()), (anchor, tag.as_deref(), line))
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    open.pop();
                    continue;
                }
                _ => continue,
            };
            if let Some((parent, _)) = open.last() {
                tree.add_child(*parent, added);
            }
            if let YamlContent::List(_) | YamlContent::Map(_) = tree.nodes[added].content {
                open.push((added, is_flow));
                if open.len() > DEEPEST {
                    return Err(problems::too_deep(line));
                }
            }
        }
        Ok(None)
    }

    /// Returns the text of a scalar as Go's scanner does, without a line break at the end that the body does not have.
    fn scalar_text(&self, mut text: String, style: ScalarStyle, is_last: bool) -> String {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let is_open = is_last && !self.text.ends_with(['\n', '\r']);
        if is_block && is_open && text.ends_with('\n') {
            text.pop();
        }
        text
    }

    fn problem(&mut self, error: &ScanError) -> String {
        let marker = error.marker();
        self.repair = match error.kind() {
            ErrorKind::InvalidQuotedScalarIndent | ErrorKind::TabInIndentation => {
                Some(Repair::Indent(marker.line()))
            }
            ErrorKind::CommentNotSeparated => marker.byte_offset().map(Repair::Separate),
            _ => None,
        };
        problems::in_go_words(error, self.text)
    }
}

fn is_known(version: YamlVersion) -> bool {
    (version.major, version.minor) == (1, 1)
}
