//! Machine: additions to Rust sources, which keep every other character.

use proc_macro2::Span;
use quote::ToTokens as _;
use syn::spanned::Spanned as _;
use syn::{Expr, File, Item, ItemFn, Stmt};

/// A source with an addition, or the reason why it cannot be added.
pub(crate) type Edited = Result<String, String>;

/// Adds a module after the last one. A source that has it stays as it is.
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
    let Some(last) = modules.last() else {
        return Err(format!(
            "it has no line `mod …;` after which `mod {module};` could stand"
        ));
    };
    Ok(inserted(
        source,
        end(last.span()),
        &format!("\n{visibility}mod {module};"),
    ))
}

/// Adds `.with(PATH::crd())` to the value of the function `definitions`. A source that has it stays as it is.
pub(crate) fn with_definition(source: &str, path: &str) -> Edited {
    let file = parse(source)?;
    let function = function(&file, "definitions")?;
    if has(function, &format!("{path}::crd")) {
        return Ok(source.to_owned());
    }
    let value = value(function)?;
    Ok(inserted(
        source,
        end(value.span()),
        &format!(".with({path}::crd())"),
    ))
}

/// Adds a statement before the value of a function. A source that has its call stays as it is.
pub(crate) fn with_call(source: &str, name: &str, call: &str, arguments: &str) -> Edited {
    let file = parse(source)?;
    let function = function(&file, name)?;
    if has(function, call) {
        return Ok(source.to_owned());
    }
    let value = value(function)?;
    let start = value.span().byte_range().start;
    Ok(inserted(
        source,
        start,
        &format!("{call}{arguments};\n    "),
    ))
}

fn parse(source: &str) -> Result<File, String> {
    syn::parse_file(source).map_err(|problem| {
        let line = problem.span().start().line;
        format!("line {line} cannot be parsed: {problem}")
    })
}

fn function<'a>(file: &'a File, name: &str) -> Result<&'a ItemFn, String> {
    let mut functions = file.items.iter().filter_map(|item| match item {
        Item::Fn(function) => Some(function),
        _ => None,
    });
    let found = functions.find(|function| function.sig.ident == name);
    found.ok_or_else(|| format!("it has no function `{name}`"))
}

/// Returns the expression at the end of a function.
fn value(function: &ItemFn) -> Result<&Expr, String> {
    match function.block.stmts.last() {
        Some(Stmt::Expr(value, None)) => Ok(value),
        _ => Err(format!(
            "its function `{}` does not end with a value",
            function.sig.ident
        )),
    }
}

/// Returns whether a function has these tokens.
fn has(function: &ItemFn, tokens: &str) -> bool {
    let plain = |text: String| text.replace(char::is_whitespace, "");
    plain(function.block.to_token_stream().to_string()).contains(tokens)
}

fn end(span: Span) -> usize {
    span.byte_range().end
}

fn inserted(source: &str, at: usize, text: &str) -> String {
    let mut source = source.to_owned();
    source.insert_str(at, text);
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "//! Kinds.\n\n// One. ä\npub mod a; // Its comment.\n\npub fn definitions() -> D {\n    \
                       // Here.\n    D::new().with(a::A::crd())\n}\n";

    #[test]
    fn a_module_and_a_definition_are_added_once_and_all_else_stays() {
        let once = with_module(API, "b", "pub ").unwrap();
        let once = with_definition(&once, "b::B").unwrap();
        let expected = API
            .replace("pub mod a;", "pub mod a;\npub mod b;")
            .replace("A::crd())", "A::crd()).with(b::B::crd())");
        assert_eq!(once, expected);
        let twice = with_definition(&with_module(&once, "b", "pub ").unwrap(), "b::B").unwrap();
        assert_eq!(twice, once);
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
            (with_module("fn f() {}", "b", ""), "has no line `mod …;`"),
            (
                with_definition("fn f() {}", "b::B"),
                "has no function `definitions`",
            ),
            (
                with_definition("fn definitions() {}", "b::B"),
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
