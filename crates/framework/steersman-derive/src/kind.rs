//! Words: the `#[kube(…)]` attributes of a struct that is the spec of a kind.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Expr, Ident, Meta, Path, Result};

use crate::arguments::Arguments;
use crate::history::{VersionedAttribute, literal, metas};

/// The facts that the conversions of a kind need.
#[derive(Clone, Debug)]
pub(crate) struct KindAttributes {
    /// The name of the kind's struct, which kube generates.
    pub(crate) root: Ident,
    pub(crate) status: Option<Path>,
}

impl KindAttributes {
    /// Reads the kube attributes of a type; `None` if the type is not the spec of a kind.
    pub(crate) fn read(name: &Ident, attributes: &[VersionedAttribute]) -> Result<Option<Self>> {
        let attributes = attributes.iter().map(|one| &one.attribute);
        let mut kube = attributes
            .filter(|one| one.path().is_ident("kube"))
            .peekable();
        if kube.peek().is_none() {
            return Ok(None);
        }
        let (mut kind, mut root, mut status) = (None, None, None);
        for attribute in kube {
            for meta in metas(attribute)? {
                let Some(key) = meta.path().get_ident().map(Ident::to_string) else {
                    continue;
                };
                match key.as_str() {
                    "version" => {
                        let text =
                            "`versioned` fills in the version: remove `version` from `#[kube(…)]`";
                        return Err(Error::new_spanned(meta, text));
                    }
                    "storage" => {
                        let text = "`versioned` fills in the stored version: remove `storage`, and write `stored = …` on the module if it is not the hub";
                        return Err(Error::new_spanned(meta, text));
                    }
                    "kind" => kind = Some(type_name(&meta)?),
                    "root" => root = Some(type_name(&meta)?),
                    "status" => status = Some(path(&meta)?),
                    _ => {}
                }
            }
        }
        let Some(kind) = root.or(kind) else {
            let text = format!("`{name}` has no kind: write `kind = \"…\"` in `#[kube(…)]`");
            return Err(Error::new(name.span(), text));
        };
        Ok(Some(Self { root: kind, status }))
    }

    /// Returns the kube attributes that differ between the versions of the kind.
    pub(crate) fn tokens(version: usize, arguments: &Arguments) -> TokenStream {
        let declared = &arguments.versions[version];
        let name = declared.ident.to_string();
        let own = &declared.kube;
        let own = (!own.is_empty()).then(|| quote!(#[kube(#own)]));
        quote!(#[kube(version = #name)] #own)
    }
}

fn value(meta: &Meta) -> Result<&Expr> {
    match meta {
        Meta::NameValue(pair) => Ok(&pair.value),
        Meta::Path(_) | Meta::List(_) => {
            let text = "the value is missing: write `= \"…\"`";
            Err(Error::new_spanned(meta, text))
        }
    }
}

fn type_name(meta: &Meta) -> Result<Ident> {
    let value = value(meta)?;
    let wrong = || Error::new_spanned(value, "the value is no text: write `\"…\"`");
    literal(value).ok_or_else(wrong)?.parse()
}

fn path(meta: &Meta) -> Result<Path> {
    match value(meta)? {
        Expr::Path(path) => Ok(path.path.clone()),
        other => {
            let wrong = || Error::new_spanned(other, "the value is no path of a type");
            literal(other).ok_or_else(wrong)?.parse()
        }
    }
}
