//! Words: generates the declaration of a type in one version.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};
use syn::{Ident, Visibility};

use crate::arguments::Arguments;
use crate::declaration::{
    FieldList, Notation, TypeContent, VersionedField, VersionedType, VersionedVariant,
};
use crate::history::{Deprecation, VersionedAttribute};
use crate::kind::KindAttributes;
use crate::scope::{deeper, deeper_type};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModuleLevel {
    Module,
    Version,
}

pub(crate) fn declaration(
    ty: &VersionedType,
    version: usize,
    level: ModuleLevel,
    arguments: &Arguments,
) -> TokenStream {
    let rendering = Rendering {
        version,
        level,
        arguments,
    };
    let name = &ty.name;
    let visibility = rendering.visibility(&ty.visibility);
    let attributes = rendering.attributes(&ty.attributes, None);
    let kind = ty
        .kind
        .as_ref()
        .map(|_| KindAttributes::tokens(version, arguments));
    let head = quote!(#attributes #kind #visibility);
    match &ty.shape {
        TypeContent::Struct(list) => {
            let fields = rendering.fields(list, true);
            let end = (list.notation != Notation::Named).then(|| quote!(;));
            quote!(#head struct #name #fields #end)
        }
        TypeContent::Enum(variants) => {
            let present = variants.iter().filter(|one| one.history.exists(version));
            let variants = present.map(|variant| rendering.variant(variant));
            quote!(#head enum #name { #(#variants),* })
        }
    }
}

/// Returns the name of a field in a version; `None` in tuples.
pub(crate) fn field_name(field: &VersionedField, version: usize) -> Option<&Ident> {
    let newest = field.name.as_ref()?;
    Some(field.history.name(newest, version))
}

/// The version for which declarations are generated, and its module.
struct Rendering<'a> {
    version: usize,
    level: ModuleLevel,
    arguments: &'a Arguments,
}

impl Rendering<'_> {
    fn visibility(&self, visibility: &Visibility) -> TokenStream {
        match self.level {
            ModuleLevel::Module => visibility.to_token_stream(),
            ModuleLevel::Version => deeper(visibility),
        }
    }

    /// Returns the attributes of this version, including the note of a deprecation.
    fn attributes(
        &self,
        attributes: &[VersionedAttribute],
        deprecated: Option<&Deprecation>,
    ) -> TokenStream {
        let here = attributes.iter().filter(|one| {
            let only = one.only.as_ref();
            only.is_none_or(|versions| versions.contains(&self.version))
        });
        let here = here.map(|one| &one.attribute);
        let deprecated = deprecated.filter(|deprecated| deprecated.at <= self.version);
        let deprecated = deprecated.map(|deprecated| {
            let since = self.arguments.name(deprecated.at);
            let note = deprecated.note.as_ref().map(|note| format!(": {note}"));
            let text = format!(" Deprecated since {since}{}.", note.unwrap_or_default());
            quote!(#[doc = ""] #[doc = #text])
        });
        quote!(#(#here)* #deprecated)
    }

    fn fields(&self, list: &FieldList, with_visibility: bool) -> TokenStream {
        let fields = list.of(self.version).map(|field| {
            let deprecated = field.history.deprecated.as_ref();
            let attributes = self.attributes(&field.attributes, deprecated);
            let visibility = with_visibility.then(|| self.visibility(&field.visibility));
            let ty = field.history.ty(&field.ty, self.version);
            let ty = match self.level {
                ModuleLevel::Module => ty.clone(),
                ModuleLevel::Version => deeper_type(ty),
            };
            let name = field_name(field, self.version).map(|name| quote!(#name:));
            quote!(#attributes #visibility #name #ty)
        });
        match list.notation {
            Notation::Named => quote!({ #(#fields),* }),
            Notation::Tuple => quote!((#(#fields),*)),
            Notation::Unit => TokenStream::new(),
        }
    }

    fn variant(&self, variant: &VersionedVariant) -> TokenStream {
        let deprecated = variant.history.deprecated.as_ref();
        let attributes = self.attributes(&variant.attributes, deprecated);
        let name = variant.history.name(&variant.name, self.version);
        let fields = self.fields(&variant.fields, false);
        let value = variant.discriminant.as_ref().map(|value| quote!(= #value));
        quote!(#attributes #name #fields #value)
    }
}
