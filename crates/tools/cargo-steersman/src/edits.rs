//! Machine: adds to Rust sources without changing any other character.

pub(crate) mod program_edits;

use proc_macro2::Span;
use quote::ToTokens as _;
use syn::spanned::Spanned;
use syn::{Expr, File, Item, ItemFn, ItemUse, Stmt};

/// The edited source, or the reason that the edit is not possible.
pub(crate) type Edited = Result<String, String>;

/// Declares a module after the last module, or else after the imports. Changes nothing if the module is declared.
pub(crate) fn with_module(source: &str, module: &str, visibility: &str) -> Edited {
    let file = parse(source)?;
    let modules = file.items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() => Some(module),
        _ => None,
    });
    let modules: Vec<_> = modules.collect();
    if modules.iter().any(|known| known.ident == module) {
        return Ok(source.to_owned());
    }
    let last = modules.last().map(Spanned::span);
    let gap = if last.is_some() { "\n" } else { "\n\n" };
    let last = last.or_else(|| imports(&file).last().map(Spanned::span));
    let line = format!("{visibility}mod {module};");
    Ok(with_line(source, &file, last, gap, &line))
}

/// Appends a method call, such as `.with(a::A::crd())`, to the value of a function, unless the function has the call.
pub(crate) fn with_link(source: &str, name: &str, link: &str) -> Edited {
    let file = parse(source)?;
    let function = function(&file, name)?;
    if has(function, link) {
        return Ok(source.to_owned());
    }
    Ok(inserted(source, end(value(function)?.span()), link))
}

/// Replaces the argument of a call in a function, such as `a::A::crd()` in `.with(a::A::crd())`, or appends the call if
/// it is missing. Changes nothing if the function has the new call.
pub(crate) fn with_argument_instead(
    source: &str,
    name: &str,
    method: &str,
    (former, argument): (&str, &str),
) -> Edited {
    let file = parse(source)?;
    let mut link = value(function(&file, name)?)?;
    while let Expr::MethodCall(call) = link {
        let mut arguments = call.args.iter();
        if call.method == method
            && let (Some(only), None) = (arguments.next(), arguments.next())
            && plain(&only.to_token_stream().to_string()) == plain(former)
        {
            let mut source = source.to_owned();
            source.replace_range(only.span().byte_range(), argument);
            return Ok(source);
        }
        link = &call.receiver;
    }
    with_link(source, name, &format!(".{method}({argument})"))
}

/// Adds a statement before the last expression of a function. Changes nothing if the function has the call.
pub(crate) fn with_call(source: &str, name: &str, call: &str, arguments: &str) -> Edited {
    let file = parse(source)?;
    let function = function(&file, name)?;
    if has(function, call) {
        return Ok(source.to_owned());
    }
    let start = value(function)?.span().byte_range().start;
    let statement = format!("{call}{arguments};\n    ");
    Ok(inserted(source, start, &statement))
}

/// Adds an import after the last import. Changes nothing if the source has the import.
pub(crate) fn with_import(source: &str, import: &str) -> Edited {
    let file = parse(source)?;
    if imports(&file).any(|known| written(known) == plain(import)) {
        return Ok(source.to_owned());
    }
    let last = imports(&file).last();
    let is_of_crate = |text: &str| text.starts_with("crate::");
    // The imports of the crate itself form a group, which follows a blank line.
    let begins_group = is_of_crate(import) && last.is_some_and(|last| !is_of_crate(&written(last)));
    let gap = if begins_group { "\n\n" } else { "\n" };
    let last = last.map(Spanned::span);
    let line = format!("use {import};");
    Ok(with_line(source, &file, last, gap, &line))
}

/// Adds a line and `gap` after the line of `item`, or before the first item if `item` is `None`.
fn with_line(source: &str, file: &File, item: Option<Span>, gap: &str, line: &str) -> String {
    let (at, text) = match item {
        Some(item) => (end_of_line(source, end(item)), format!("{gap}{line}")),
        None => (start_of_items(source, file), format!("{line}\n\n")),
    };
    inserted(source, at, &text)
}

/// Removes the line of an import. Changes nothing if the source has no such line.
pub(crate) fn without_import(source: &str, import: &str) -> Edited {
    let file = parse(source)?;
    let mut imports = imports(&file);
    let Some(found) = imports.find(|known| written(known) == plain(import)) else {
        return Ok(source.to_owned());
    };
    let place = found.span().byte_range();
    let end = end_of_line(source, place.end);
    let end = end + usize::from(source[end..].starts_with('\n'));
    let mut source = source.to_owned();
    source.replace_range(place.start..end, "");
    Ok(source)
}

/// Appends a function to a source. Changes nothing if the source has a function of this name.
pub(crate) fn with_function(source: &str, name: &str, text: &str) -> Edited {
    let file = parse(source)?;
    if function(&file, name).is_ok() {
        return Ok(source.to_owned());
    }
    Ok(format!("{}\n\n{text}", source.trim_end()))
}

pub(crate) fn calls(source: &str, name: &str, tokens: &str) -> Result<bool, String> {
    let file = parse(source)?;
    Ok(has(function(&file, name)?, tokens))
}

pub(crate) fn parse(source: &str) -> Result<File, String> {
    syn::parse_file(source).map_err(|problem| {
        let line = problem.span().start().line;
        format!("line {line} cannot be parsed: {problem}")
    })
}

fn function<'a>(file: &'a File, name: &str) -> Result<&'a ItemFn, String> {
    let found = file.items.iter().find_map(|item| match item {
        Item::Fn(function) if function.sig.ident == name => Some(function),
        _ => None,
    });
    found.ok_or_else(|| format!("it has no function `{name}`"))
}

fn value(function: &ItemFn) -> Result<&Expr, String> {
    let Some(Stmt::Expr(value, None)) = function.block.stmts.last() else {
        let name = &function.sig.ident;
        return Err(format!("its function `{name}` does not end with a value"));
    };
    Ok(value)
}

/// Returns whether a function contains these tokens, not merely as part of a longer name.
fn has(function: &ItemFn, tokens: &str) -> bool {
    let text = plain(&function.block.to_token_stream().to_string());
    let tokens = plain(tokens);
    let is_name = |letter: Option<char>| letter.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut found = text.match_indices(&*tokens);
    found.any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + tokens.len()..]);
        let is_whole = !is_name(before.chars().next_back()) || tokens.starts_with('.');
        is_whole && (!is_name(after.chars().next()) || tokens.ends_with(')'))
    })
}

fn plain(text: &str) -> String {
    text.replace(char::is_whitespace, "")
}

fn imports(file: &File) -> impl Iterator<Item = &ItemUse> {
    file.items.iter().filter_map(|item| match item {
        Item::Use(item) => Some(item),
        _ => None,
    })
}

/// Returns the text of an import without spaces, for comparisons.
fn written(import: &ItemUse) -> String {
    // The text loses the spaces around `as`, which is harmless, because it is only compared.
    plain(&import.tree.to_token_stream().to_string())
}

/// Returns the offset of the first item, including the comments before the item.
pub(crate) fn start_of_items(source: &str, file: &File) -> usize {
    let inner = file.attrs.iter().map(|one| end(one.span()));
    let Some(header) = inner.max() else {
        return 0;
    };
    let after = end_of_line(source, header);
    let rest = &source[after..];
    after + (rest.len() - rest.trim_start_matches('\n').len())
}

/// Returns the end of the line at `at` if only a comment follows; otherwise `at`.
pub(crate) fn end_of_line(source: &str, at: usize) -> usize {
    let line = source[at..].split('\n').next().unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    let rest = line.trim_start();
    let is_comment = rest.starts_with("//")
        || rest.starts_with("/*") && rest.find("*/") == rest.len().checked_sub(2);
    match rest.is_empty() || is_comment {
        true => at + line.len(),
        false => at,
    }
}

pub(crate) fn end(span: Span) -> usize {
    span.byte_range().end
}

pub(crate) fn inserted(source: &str, at: usize, text: &str) -> String {
    let mut source = source.to_owned();
    source.insert_str(at, text);
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "//! Kinds.\n\n// One. ä\npub mod a; // Its comment.\n\npub fn crds() -> D {\n    \
                       // Here.\n    D::new().with(a::A::crd())\n}\n";

    #[test]
    fn a_module_and_a_definition_are_added_once_and_all_else_stays() {
        let once = with_module(API, "b", "pub ").unwrap();
        let link = ".with(b::B::crd())";
        let once = with_link(&once, "crds", link).unwrap();
        let expected = API
            .replace(
                "pub mod a; // Its comment.",
                "pub mod a; // Its comment.\npub mod b;",
            )
            .replace("A::crd())", "A::crd()).with(b::B::crd())");
        assert_eq!(once, expected);
        let twice = with_module(&once, "b", "pub ").unwrap();
        assert_eq!(with_link(&twice, "crds", link).unwrap(), once);
        // Different white space than rustfmt's does not hide the call.
        let once = once.replace("b::B::crd()", "b::B\n::crd( )");
        let change = ("b::B::crd()", "b::crd()");
        let instead = with_argument_instead(&once, "crds", "with", change).unwrap();
        assert!(instead.contains("A::crd()).with(b::crd())\n"), "{instead}");
        let twice = with_argument_instead(&instead, "crds", "with", change).unwrap();
        assert_eq!(twice, instead);
    }

    #[test]
    fn the_first_module_stands_after_the_imports() {
        for (source, expected) in [
            (
                "use a; // A.\nfn f() {}\n",
                "use a; // A.\n\nmod b;\nfn f() {}\n",
            ),
            (
                "//! D.\n\n// F.\nfn f() {}\n",
                "//! D.\n\nmod b;\n\n// F.\nfn f() {}\n",
            ),
            ("mod a; mod c;\n", "mod a; mod c;\nmod b;\n"),
            (
                "mod a; /* A. */ fn f() {}\n",
                "mod a;\nmod b; /* A. */ fn f() {}\n",
            ),
        ] {
            assert_eq!(with_module(source, "b", "").unwrap(), expected);
        }
    }

    #[test]
    fn an_import_is_added_and_removed() {
        let source = "//! D.\n\nuse a::B as _;\nfn f() {}\n";
        let added = with_import(source, "c::D").unwrap();
        assert_eq!(added, source.replace("as _;", "as _;\nuse c::D;"));
        assert_eq!(with_import(&added, "c::D").unwrap(), added);
        assert_eq!(without_import(&added, "c::D").unwrap(), source);
        let removed = without_import(source, "a::B as _").unwrap();
        assert_eq!(removed, "//! D.\n\nfn f() {}\n");
        assert_eq!(without_import(&removed, "a::B as _").unwrap(), removed);
    }

    #[test]
    fn a_call_is_added_before_the_value() {
        let source = "fn add_all(m: &M) -> R {\n    a::add(m)?;\n    Ok(())\n}\n";
        let once = with_call(source, "add_all", "b::add", "(m)?").unwrap();
        assert_eq!(once, source.replace("    Ok", "    b::add(m)?;\n    Ok"));
        assert_eq!(with_call(&once, "add_all", "b::add", "(m)?").unwrap(), once);
    }

    #[test]
    fn a_source_that_cannot_be_edited_is_described() {
        for (edited, expected) in [
            (with_module("fn f() {", "b", ""), "line 1 cannot be parsed"),
            (
                with_link("fn f() {}", "crds", ".b()"),
                "has no function `crds`",
            ),
            (
                with_link("fn crds() {}", "crds", ".b()"),
                "does not end with a value",
            ),
            (
                with_call("fn add() { a(); }", "add", "b", "()"),
                "does not end with a value",
            ),
        ] {
            let problem = edited.unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
