//! Words: the `#[kube(…)]` attributes of a struct that is the spec of a kind.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Ident, Lit, Meta, Path, Result, Token};

use crate::arguments::Arguments;
use crate::history::VersionedAttribute;

/// The facts about a kind that its conversions need.
#[derive(Clone, Debug)]
pub(crate) struct KindAttributes {
    /// The name of the struct that kube generates.
    pub(crate) root: Ident,
    pub(crate) status: Option<Path>,
    /// Whether the attributes name the crates themselves.
    names_crates: bool,
    /// Whether the generated struct has rules of its own, for which kube derives another schema.
    has_rules: bool,
}

impl KindAttributes {
    /// Reads the attributes of a type. Returns `None` if the type is no spec of a kind.
    pub(crate) fn read(name: &Ident, attributes: &[VersionedAttribute]) -> Result<Option<Self>> {
        let mut kube = attributes
            .iter()
            .filter(|one| one.attribute.path().is_ident("kube"))
            .peekable();
        if kube.peek().is_none() {
            return Ok(None);
        }
        let (mut kind, mut root, mut status) = (None, None, None);
        let (mut names_crates, mut has_rules) = (false, false);
        for attribute in kube {
            let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
            for meta in attribute.attribute.parse_args_with(parser)? {
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
                    "crates" => names_crates = true,
                    "validation" | "cel" => has_rules = true,
                    _ => {}
                }
            }
        }
        let Some(kind) = root.or(kind) else {
            let text = format!("`{name}` has no kind: write `kind = \"…\"` in `#[kube(…)]`");
            return Err(Error::new(name.span(), text));
        };
        Ok(Some(Self {
            root: kind,
            status,
            names_crates,
            has_rules,
        }))
    }

    /// Returns the attributes that only the struct of one version has.
    pub(crate) fn tokens(&self, version: usize, arguments: &Arguments) -> TokenStream {
        let declared = &arguments.versions[version];
        let name = declared.ident.to_string();
        let own = &declared.kube;
        let own = (!own.is_empty()).then(|| quote!(#[kube(#own)]));
        let crates = (!self.names_crates).then(|| crates(&arguments.steersman));
        let rules = (self.has_rules && !self.names_crates).then(|| {
            let inner = schema_crates(&arguments.steersman).to_string();
            quote!(#[kube(attr = #inner)])
        });
        quote!(#[kube(version = #name)] #crates #rules #own)
    }
}

/// Returns the attribute that names the crates for kube's derive of a kind.
fn crates(steersman: &Path) -> TokenStream {
    let facade = steersman.to_token_stream().to_string().replace(' ', "");
    let path = |name: &str| format!("{facade}::{name}");
    let (core, openapi) = (path("kube_core"), path("k8s_openapi"));
    let (schemars, serde, json) = (path("schemars"), path("serde"), path("serde_json"));
    quote! {
        #[kube(crates(
            kube = #facade, kube_core = #core, k8s_openapi = #openapi, schemars = #schemars, serde = #serde,
            serde_json = #json
        ))]
    }
}

/// Returns the content of the attribute that names the crates for kube's derive of a schema with rules.
fn schema_crates(steersman: &Path) -> TokenStream {
    let facade = steersman.to_token_stream().to_string().replace(' ', "");
    let path = |name: &str| format!("{facade}::{name}");
    let (core, schemars) = (path("kube_core"), path("schemars"));
    let (serde, json) = (path("serde"), path("serde_json"));
    quote! {
        x_kube(crates(kube_core = #core, schemars = #schemars, serde = #serde, serde_json = #json))
    }
}

/// Returns the attribute that names the crates for a type that derives kube's schema with rules, unless the type names
/// the crates itself.
pub(crate) fn rule_crates(
    attributes: &[VersionedAttribute],
    steersman: &Path,
) -> Option<TokenStream> {
    let parser = Punctuated::<Path, Token![,]>::parse_terminated;
    let derives = attributes
        .iter()
        .filter(|one| one.attribute.path().is_ident("derive"))
        .filter_map(|one| one.attribute.parse_args_with(parser).ok())
        .flatten();
    let mut derives = derives.filter_map(|path| Some(path.segments.last()?.ident.to_string()));
    let has_rules = derives.any(|name| name == "KubeSchema");
    let names_crates = attributes.iter().any(|one| {
        let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
        one.attribute.path().is_ident("x_kube")
            && one
                .attribute
                .parse_args_with(parser)
                .is_ok_and(|list| list.iter().any(|meta| meta.path().is_ident("crates")))
    });
    (has_rules && !names_crates).then(|| {
        let inner = schema_crates(steersman);
        quote!(#[#inner])
    })
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
    match value(meta)? {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => text.parse(),
        other => Err(Error::new_spanned(
            other,
            "the value is no text: write `\"…\"`",
        )),
    }
}

fn path(meta: &Meta) -> Result<Path> {
    match value(meta)? {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => text.parse(),
        Expr::Path(path) => Ok(path.path.clone()),
        other => Err(Error::new_spanned(other, "the value is no path of a type")),
    }
}
