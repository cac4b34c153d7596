//! The rule `banners`: a comment such as `// === impl Queue ===` names the type, trait or macro of the item behind it.

use super::lexer::{Source, Token, is_word, tokens};
use super::tree::{Tree, Violation};

/// The keywords of the items that a banner may name.
const ITEMS: &[&str] = &[
    "impl", "struct", "enum", "union", "trait", "type", "macro_rules",
];

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let source = Source::of(&file.text);
        let mut named = banners(&source.comments).peekable();
        if named.peek().is_none() {
            continue;
        }
        let list = tokens(&source.code);
        for (at, name) in named.filter(|(at, name)| !heads(&list, *at, name)) {
            let problem = format!("the banner names `{name}`, and the item behind it does not");
            let remedy = "name the type, trait or macro of that item";
            found.push(file.violation(at, problem, remedy));
        }
    }
    found
}

/// Returns each name behind `impl` in a banner, with the offset of the banner. Banners with other words are headings.
fn banners(comments: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = comments.match_indices("// ").map(|(at, _)| at);
    starts.filter_map(|at| {
        let text = comments[at..].lines().next()?.strip_prefix("// ")?.trim();
        let inner = text.trim_matches(['=', '-']);
        let is_banner = text.starts_with(['=', '-']) && text.ends_with(['=', '-']);
        let name = inner.trim().strip_prefix("impl ").filter(|_| is_banner)?;
        let end = name.find(|char| !is_word(char)).unwrap_or(name.len());
        Some((at, &name[..end]))
    })
}

/// Returns whether the head of the first item behind an offset has a name.
fn heads(list: &[Token<'_>], at: usize, name: &str) -> bool {
    let behind = list.iter().filter(|token| token.at > at);
    behind
        .skip_while(|token| !ITEMS.contains(&token.text))
        .take_while(|token| !["{", ";"].contains(&token.text))
        .any(|token| token.text == name)
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    fn messages(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/framework/steersman-x/src/a.rs", text)]);
        check(&tree)
            .iter()
            .map(|violation| violation.of_rule("banners"))
            .collect()
    }

    #[test]
    fn a_banner_that_names_the_item_behind_it_passes() {
        for text in [
            "// === impl Queue ===\n/// Text.\nstruct Queue;",
            "// ===== impl Queue =====\n#[derive(Debug)]\nimpl super::Queue {}",
            "// ===== impl Queue<K> =====\nimpl<K> Drop for Queue<K> {}",
            "// ----- impl queue -----\nmacro_rules! queue { () => {} }",
            "// ===== reads =====\nstruct Queue;",
            "// impl Machine, not a banner\nstruct Queue;",
        ] {
            assert_eq!(messages(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_banner_that_names_another_item_fails() {
        for text in [
            "// === impl Machine ===\nimpl Queue {}",
            "struct Machine;\n    // ===== impl Machine =====\nimpl Queue {}",
            "// ----- impl Machine -----\nimpl Queue { fn f() { Machine } }",
            "// ----- impl Machine -----",
        ] {
            let said = messages(text);
            assert_eq!(said.len(), 1, "{text}: {said:?}");
            assert!(said[0].contains("`Machine`"), "{said:?}");
        }
    }
}
