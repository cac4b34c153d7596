//! The modules that a file declares, the names that it re-exports, and the paths that it uses.

use crate::tidy::lexer::{Source, Token, close, tokens};

/// A path in the code that starts with `crate`, `self` or `super`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The inline modules around it, outermost first.
    pub(crate) from: Vec<String>,
    /// The parts of the path as written.
    pub(crate) to: Vec<String>,
    pub(crate) at: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Modules with a file of their own, test modules included.
    pub(crate) children: Vec<String>,
    /// Modules outside tests, in the order of their declaration.
    pub(crate) declared: Vec<String>,
    /// Names re-exported from a child, as pairs of name and child.
    pub(crate) exports: Vec<(String, String)>,
    /// Paths used outside tests.
    pub(crate) references: Vec<Reference>,
}

impl Names {
    pub(crate) fn of(source: &Source) -> Self {
        let production = source.production();
        let all = tokens(&source.code);
        let list = tokens(&production);
        let with_file = modules(&all).filter(|(_, has_file)| *has_file);
        let mut names = Self {
            children: with_file.map(|(name, _)| name).collect(),
            declared: modules(&list).map(|(name, _)| name).collect(),
            ..Self::default()
        };
        names.walk(&list);
        names
            .exports
            .retain(|(_, child)| names.declared.contains(child));
        names
    }

    fn walk(&mut self, list: &[Token<'_>]) {
        let text = |index: usize| list.get(index).map_or("", |token| token.text);
        // Inline modules around the current token, each with the index after its last token.
        let mut open: Vec<(String, usize)> = Vec::new();
        let mut at = 0;
        while at < list.len() {
            open.retain(|(_, end)| at < *end);
            if text(at) == "mod" && text(at + 2) == "{" {
                open.push((text(at + 1).to_owned(), close(list, at + 2)));
                at += 3;
                continue;
            }
            let is_start = matches!(text(at), "crate" | "self" | "super")
                && text(at + 1) == "::"
                && (at == 0 || !matches!(text(at - 1), "$" | "::"));
            let is_use = text(at) == "use" && open.is_empty();
            if is_use {
                let (leaves, _) = leaves(list, at + 1, &[]);
                self.exports.extend(leaves.into_iter().filter_map(export));
            }
            if is_start {
                let (leaves, end) = leaves(list, at, &[]);
                let from: Vec<String> = open.iter().map(|(name, _)| name.clone()).collect();
                self.references
                    .extend(leaves.into_iter().map(|leaf| Reference {
                        from: from.clone(),
                        to: leaf.path,
                        at: list[at].at,
                    }));
                at = end.max(at + 1);
            } else {
                at += 1;
            }
        }
    }
}

struct Leaf {
    path: Vec<String>,
    alias: Option<String>,
}

/// Reads a path or use tree at `at` and returns its leaves and the index after it.
fn leaves(list: &[Token<'_>], mut at: usize, prefix: &[String]) -> (Vec<Leaf>, usize) {
    let text = |index: usize| list.get(index).map_or("", |token| token.text);
    let mut path = prefix.to_vec();
    loop {
        if text(at) == "{" {
            let end = close(list, at);
            let mut found = Vec::new();
            at += 1;
            while at < end.saturating_sub(1) {
                let (inner, behind) = leaves(list, at, &path);
                found.extend(inner);
                at = behind;
                while at < end && text(at) != "," {
                    at += 1;
                }
                at += 1;
            }
            return (found, end);
        }
        if is_name(text(at)) {
            path.push(text(at).to_owned());
            at += 1;
        }
        if text(at) != "::" || !(text(at + 1) == "{" || is_name(text(at + 1))) {
            break;
        }
        at += 1;
    }
    let alias = (text(at) == "as").then(|| text(at + 1).to_owned());
    (vec![Leaf { path, alias }], at)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|char: char| char == '_' || char.is_alphabetic())
}

/// Returns the name and the child of a re-export such as `use child::…::Name`.
fn export(leaf: Leaf) -> Option<(String, String)> {
    let mut parts = leaf.path.into_iter().skip_while(|part| part == "self");
    let child = parts.next()?;
    let name = leaf.alias.or_else(|| parts.last())?;
    Some((name, child))
}

/// Returns the `mod` declarations at the top level: the name, and whether the module has a file.
fn modules<'a>(list: &'a [Token<'_>]) -> impl Iterator<Item = (String, bool)> + 'a {
    let mut depth = 0_usize;
    list.iter().enumerate().filter_map(move |(at, token)| {
        match token.text {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "mod" if depth == 0 => {
                let name = list.get(at + 1)?.text;
                return Some((name.to_owned(), list.get(at + 2)?.text == ";"));
            }
            _ => {}
        }
        None
    })
}
