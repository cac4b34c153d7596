//! Words: rewrites paths and visibilities of the module for its submodules.

use proc_macro2::TokenStream;
use quote::quote;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Ident, Path, PathArguments, PathSegment, Type, Visibility, parse_quote};

/// Returns the visibility that has the same extent in a submodule as `visibility` in the module.
pub(crate) fn deeper(visibility: &Visibility) -> TokenStream {
    match visibility {
        Visibility::Inherited => quote!(pub(super)),
        Visibility::Public(public) => quote!(#public),
        Visibility::Restricted(restricted) => {
            let path = &restricted.path;
            match path.segments.first() {
                Some(first) if first.ident == "self" => quote!(pub(super)),
                Some(first) if first.ident == "super" => quote!(pub(in super::#path)),
                _ => quote!(#visibility),
            }
        }
    }
}

/// Returns a type for use in a submodule: paths from `self` or `super` lead one module further up.
pub(crate) fn deeper_type(ty: &Type) -> Type {
    let mut ty = ty.clone();
    Deepen.visit_type_mut(&mut ty);
    ty
}

/// Returns which of these type names a type mentions.
pub(crate) fn mentioned<'a>(ty: &Type, names: &[&'a Ident]) -> Vec<&'a Ident> {
    let mut mentions = Mentions {
        names,
        found: Vec::new(),
    };
    mentions.visit_type(ty);
    mentions.found
}

struct Deepen;

impl VisitMut for Deepen {
    fn visit_path_mut(&mut self, path: &mut Path) {
        let up: PathSegment = parse_quote!(super);
        match path.segments.first_mut() {
            Some(first) if first.ident == "self" => *first = up,
            Some(first) if first.ident == "super" => path.segments.insert(0, up),
            _ => {}
        }
        visit_mut::visit_path_mut(self, path);
    }
}

struct Mentions<'a, 'b> {
    names: &'b [&'a Ident],
    found: Vec<&'a Ident>,
}

impl<'ast> Visit<'ast> for Mentions<'_, '_> {
    fn visit_path(&mut self, path: &'ast Path) {
        if path.segments.len() == 1
            && let Some(segment) = path.segments.first()
            && matches!(segment.arguments, PathArguments::None)
        {
            let named = self.names.iter().find(|name| ***name == segment.ident);
            self.found.extend(named);
        }
        visit::visit_path(self, path);
    }
}
