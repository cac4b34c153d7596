//! Words: generates the conversions of a type between two neighbouring versions.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Error, Expr, Ident, Index, Path, Result};

use crate::boundaries::Boundaries;
use crate::declaration::{
    Declaration, FieldList, TypeContent, VersionedField, VersionedType, VersionedVariant,
};
use crate::history::{VersionedAttribute, without_lints};
use crate::kind::KindAttributes;
use crate::render::field_name;
use crate::scope::mentioned;
use crate::wire_name;

/// A conversion step between two neighbouring versions.
#[derive(Clone, Copy)]
pub(crate) struct ConversionStep<'a> {
    pub(crate) module: &'a Declaration,
    pub(crate) boundaries: &'a Boundaries,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl ConversionStep<'_> {
    /// Returns the first value in a step to a newer version, and the second in a step to an older version.
    fn by_direction<'v, T: ?Sized>(self, upgrade: &'v T, downgrade: &'v T) -> &'v T {
        if self.from < self.to {
            upgrade
        } else {
            downgrade
        }
    }

    /// Returns the newer one of the two versions.
    fn at(self) -> usize {
        self.from.max(self.to)
    }

    /// Returns the conversion of a type that differs between the two versions of this step.
    pub(crate) fn conversion(self, ty: &VersionedType) -> Result<TokenStream> {
        let name = &ty.name;
        let body = match &ty.shape {
            TypeContent::Struct(list) => {
                let value = |field: &VersionedField, at: usize| {
                    let member = member(field, at, self.from);
                    quote!(&self.#member)
                };
                let members = self.members(list, &ty.attributes, "", &value);
                let to = self.name(self.to);
                quote!(::core::result::Result::Ok(#to::#name { #members }))
            }
            TypeContent::Enum(variants) => self.arms(ty, variants)?,
        };
        Ok(self.implementation(name, &body))
    }

    /// Returns the conversion of a kind: the metadata is copied, spec and status are converted.
    pub(crate) fn kind(self, kind: &KindAttributes) -> TokenStream {
        let conversion = self.conversion_path();
        let (root, to) = (&kind.root, self.name(self.to));
        let names = self.type_names();
        let status = kind.status.as_ref().map(|status| {
            let is_versioned = status
                .get_ident()
                .is_some_and(|status| names.contains(&status) && self.differs(status));
            let value = if is_versioned {
                quote!(#conversion::nested("status", &self.status)?)
            } else {
                quote!(::core::clone::Clone::clone(&self.status))
            };
            quote!(status: #value,)
        });
        let body = quote! {
            ::core::result::Result::Ok(#to::#root {
                metadata: ::core::clone::Clone::clone(&self.metadata),
                spec: #conversion::nested("spec", &self.spec)?,
                #status
            })
        };
        self.implementation(root, &body)
    }

    fn implementation(self, name: &Ident, body: &TokenStream) -> TokenStream {
        let conversion = self.conversion_path();
        let (from, to) = (self.name(self.from), self.name(self.to));
        let lints = without_lints(&["deprecated", "unused_variables"]);
        quote! {
            #[automatically_derived]
            #lints
            impl #conversion::ConvertTo<#to::#name> for #from::#name {
                fn convert_to(
                    &self,
                ) -> ::core::result::Result<#to::#name, #conversion::FieldConversionError> {
                    #body
                }
            }
        }
    }

    fn members(
        self,
        list: &FieldList,
        container: &[VersionedAttribute],
        prefix: &str,
        value: &dyn Fn(&VersionedField, usize) -> TokenStream,
    ) -> TokenStream {
        let members = list.of(self.to).enumerate().map(|(at, field)| {
            let member = member(field, at, self.to);
            let value = self.value(field, at, container, prefix, value);
            quote!(#member: #value)
        });
        quote!(#(#members),*)
    }

    fn value(
        self,
        field: &VersionedField,
        at: usize,
        container: &[VersionedAttribute],
        prefix: &str,
        value: &dyn Fn(&VersionedField, usize) -> TokenStream,
    ) -> TokenStream {
        if !field.history.exists(self.from) {
            let appearance = self.by_direction(&field.history.added, &field.history.removed);
            let given = appearance.as_ref().and_then(|one| one.default.as_ref());
            return given.map_or_else(
                || quote_spanned!(field.ty.span()=> ::core::default::Default::default()),
                Expr::to_token_stream,
            );
        }
        let conversion = self.conversion_path();
        let value = value(field, at);
        let path = match field_name(field, self.from) {
            Some(name) => {
                let name = wire_name::field(name, &field.attributes, container);
                let dot = if prefix.is_empty() { "" } else { "." };
                format!("{prefix}{dot}{name}")
            }
            None => prefix.to_owned(),
        };
        if let Some(change) = field.history.change(self.at()) {
            let function = self.by_direction(&change.upgrade, &change.downgrade);
            return quote_spanned!(function.span()=> #conversion::changed(#path, (#function)(#value))?);
        }
        let names = self.type_names();
        let ty = field.history.ty(&field.ty, self.to);
        if mentioned(ty, &names)
            .into_iter()
            .any(|name| self.differs(name))
        {
            return quote_spanned!(ty.span()=> #conversion::nested(#path, #value)?);
        }
        quote!(::core::clone::Clone::clone(#value))
    }

    fn arms(self, ty: &VersionedType, variants: &[VersionedVariant]) -> Result<TokenStream> {
        let name = &ty.name;
        let (from, to) = (self.name(self.from), self.name(self.to));
        let present = variants.iter().filter(|one| one.history.exists(self.from));
        let arms = present.map(|variant| {
            let here = variant.history.name(&variant.name, self.from);
            if !variant.history.exists(self.to) {
                let instead = self.instead(ty, variants, variant)?;
                return Ok(quote!(#from::#name::#here { .. } => #instead));
            }
            let there = variant.history.name(&variant.name, self.to);
            let bound = variant.fields.of(self.from).enumerate().map(|(at, field)| {
                let member = member(field, at, self.from);
                let variable = self.variable(field, at);
                quote!(#member: #variable)
            });
            let value =
                |field: &VersionedField, at: usize| self.variable(field, at).to_token_stream();
            let prefix = if wire_name::is_member(&ty.attributes) {
                wire_name::variant(here, &variant.attributes, &ty.attributes)
            } else {
                String::new()
            };
            let members = self.members(&variant.fields, &variant.attributes, &prefix, &value);
            Ok(quote!(#from::#name::#here { #(#bound,)* .. } => #to::#name::#there { #members }))
        });
        let arms: Vec<TokenStream> = arms.collect::<Result<_>>()?;
        if arms.is_empty() {
            return Ok(quote!(match *self {}));
        }
        Ok(quote!(::core::result::Result::Ok(match self { #(#arms),* })))
    }

    /// Returns the value that stands in the other version for a variant that the other version lacks.
    fn instead(
        self,
        ty: &VersionedType,
        variants: &[VersionedVariant],
        variant: &VersionedVariant,
    ) -> Result<TokenStream> {
        let (name, to) = (&ty.name, self.name(self.to));
        let appearance = self.by_direction(&variant.history.removed, &variant.history.added);
        let given = appearance.as_ref().and_then(|one| one.instead.as_ref());
        let lacks = &variant.name;
        let Some(given) = given else {
            if derives_default(&ty.attributes) {
                return Ok(quote!(<#to::#name as ::core::default::Default>::default()));
            }
            let entry = self.by_direction("removed", "added");
            let at = self.module.arguments.name(self.at());
            let text = format!(
                "`{to}` has no `{lacks}`, and nothing says which variant it shows: write `{entry}({at}, instead = Variant)`, or derive `Default`"
            );
            return Err(Error::new(lacks.span(), text));
        };
        let other = match given {
            Expr::Path(path) => path.path.get_ident(),
            _ => None,
        };
        let Some(other) = other else {
            return Ok(given.to_token_stream());
        };
        let found = variants.iter().find(|one| {
            one.history.exists(self.to)
                && (one.name == *other || one.history.name(&one.name, self.to) == other)
        });
        let Some(found) = found else {
            let text = format!(
                "`{to}` has no variant `{other}` that it can show instead of `{lacks}`: write a variant of `{to}`, or an expression"
            );
            return Err(Error::new(other.span(), text));
        };
        if !found.fields.fields.is_empty() {
            let text = format!(
                "`{other}` has fields: write the whole value, such as `{to}::{name}::{other}(…)`"
            );
            return Err(Error::new(other.span(), text));
        }
        let other = found.history.name(&found.name, self.to);
        Ok(quote!(#to::#name::#other {}))
    }

    /// Returns the variable to which a pattern binds a field.
    fn variable(self, field: &VersionedField, at: usize) -> Ident {
        match field_name(field, self.from) {
            Some(name) => format_ident!("field_{name}"),
            None => format_ident!("field_{at}"),
        }
    }

    fn differs(self, name: &Ident) -> bool {
        self.boundaries.differs(name, self.at())
    }

    fn name(&self, version: usize) -> &Ident {
        &self.module.arguments.versions[version].ident
    }

    fn type_names(&self) -> Vec<&Ident> {
        self.module.types.iter().map(|ty| &ty.name).collect()
    }

    fn conversion_path(self) -> TokenStream {
        conversion_path(&self.module.arguments.steersman)
    }
}

/// Returns the path of the module with the functions that conversions call.
pub(crate) fn conversion_path(steersman: &Path) -> TokenStream {
    quote!(#steersman::webhook::conversion)
}

fn member(field: &VersionedField, at: usize, version: usize) -> TokenStream {
    match field_name(field, version) {
        Some(name) => name.to_token_stream(),
        None => Index::from(at).to_token_stream(),
    }
}

fn derives_default(attributes: &[VersionedAttribute]) -> bool {
    let derives = attributes
        .iter()
        .filter(|one| one.attribute.path().is_ident("derive"));
    derives.into_iter().any(|one| {
        let text = one.attribute.meta.to_token_stream().to_string();
        text.split(|char: char| !char.is_alphanumeric())
            .any(|word| word == "Default")
    })
}
