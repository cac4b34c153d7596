//! Machine: adds calls to the `main` of an operator without changing any other character.

use quote::ToTokens as _;
use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::{Expr, ExprCall, ExprMethodCall, Item, UseTree};

use crate::edits::{Edited, end, inserted, parse};

/// The calls in `main` that create and configure the `Program`.
#[derive(Default)]
struct ProgramCalls {
    /// The offset of the end of `Program::new(…)`.
    made: Option<usize>,
    /// The method calls after `Program::new(…)`: the name, the end, and the tokens of the arguments.
    links: Vec<(String, usize, String)>,
}

/// Registers `webhooks::add_all` with the program. Changes nothing if it is registered.
pub(crate) fn with_webhooks(source: &str, library: &str) -> Edited {
    let file = parse(source)?;
    let mut calls = ProgramCalls::default();
    calls.visit_file(&file);
    let Some(made) = calls.made else {
        return Err("it has no `Program::new(…)` that webhooks could be added to".to_owned());
    };
    let link = |name: &str| calls.links.iter().find(|(known, ..)| known == name);
    if let Some((_, _, arguments)) = link("webhooks") {
        return match arguments.replace(' ', "").contains("webhooks::add_all") {
            true => Ok(source.to_owned()),
            false => Err(format!(
                "its program has webhooks of its own: call `{library}::webhooks::add_all(server)` there"
            )),
        };
    }
    let at = link("crds").map_or(made, |(_, end, _)| *end);
    let import = group_end(&file.items, library);
    let path = match import {
        Some(_) => "webhooks".to_owned(),
        None => format!("{library}::webhooks"),
    };
    let call = format!("\n        .webhooks(|server, _| {path}::add_all(server))");
    let source = inserted(source, at, &call);
    // The import precedes the program in the file, so its edit shifts the position of the call.
    Ok(match import.filter(|import| *import < at) {
        Some(import) => inserted(&source, import, ", webhooks"),
        None => source,
    })
}

/// Returns the offset of the end of the last name in `use library::{…}`.
fn group_end(items: &[Item], library: &str) -> Option<usize> {
    items.iter().find_map(|item| {
        let Item::Use(item) = item else {
            return None;
        };
        match &item.tree {
            UseTree::Path(path) if path.ident == library => match &*path.tree {
                UseTree::Group(group) => Some(end(group.items.last()?.span())),
                _ => None,
            },
            _ => None,
        }
    })
}

fn is_made(call: &ExprCall) -> bool {
    let Expr::Path(path) = &*call.func else {
        return false;
    };
    let mut names = path.path.segments.iter().rev().map(|one| &one.ident);
    let is_new = names
        .next()
        .is_some_and(|name| name == "new" || name == "with_settings");
    is_new && names.next().is_some_and(|name| name == "Program")
}

impl<'a> Visit<'a> for ProgramCalls {
    fn visit_expr_call(&mut self, call: &'a ExprCall) {
        if is_made(call) {
            self.made = Some(end(call.span()));
        }
        syn::visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        let mut first = &*call.receiver;
        while let Expr::MethodCall(before) = first {
            first = &before.receiver;
        }
        if matches!(first, Expr::Call(made) if is_made(made)) {
            let arguments = call.args.to_token_stream().to_string();
            let link = (call.method.to_string(), end(call.span()), arguments);
            self.links.push(link);
        }
        syn::visit::visit_expr_method_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_are_registered_once() {
        let source = "use a::{api, controllers};\nfn main() {\n    // Here.\n    Program::new(N, V)\n        \
                      .crds(api::crds())\n        .run()\n}\n";
        let once = with_webhooks(source, "a").unwrap();
        let expected = source
            .replace("controllers}", "controllers, webhooks}")
            .replace(
                "crds())",
                "crds())\n        .webhooks(|server, _| webhooks::add_all(server))",
            );
        assert_eq!(once, expected);
        assert_eq!(with_webhooks(&once, "a").unwrap(), once);
        let plain = "fn main() { cli::Program::with_settings(N, V).run() }";
        let once = with_webhooks(plain, "a").unwrap();
        assert!(
            once.contains("V)\n        .webhooks(|server, _| a::webhooks::add_all(server)).run()")
        );
    }

    #[test]
    fn a_program_in_another_form_is_described() {
        for (source, expected) in [
            ("fn main() {}", "has no `Program::new(…)`"),
            (
                "fn main() { Program::new(N, V).webhooks(mine); }",
                "call `a::webhooks::add_all(server)` there",
            ),
        ] {
            let problem = with_webhooks(source, "a").unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
