//! Words: the arguments of the attribute `versioned` on a module.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, LitInt, Path, Result, Token, parenthesized, parse_quote};

use crate::version_name::VersionName;

/// The number of objects that a generated test converts by default.
const OBJECTS: u64 = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct DeclaredVersion {
    pub(crate) ident: Ident,
    /// The kube attributes that the structs of all kinds have in this version.
    pub(crate) kube: TokenStream,
}

/// The arguments of the attribute `versioned`. Other types refer to a version by its index in `versions`.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    /// The versions, oldest first. There is at least one.
    pub(crate) versions: Vec<DeclaredVersion>,
    pub(crate) hub: usize,
    pub(crate) stored: usize,
    /// The number of objects that a generated test converts; `None` generates no tests.
    pub(crate) tests: Option<u64>,
    pub(crate) steersman: Path,
    /// The path of the harness crate, which generated tests call.
    pub(crate) harness: Path,
}

impl Arguments {
    /// Returns the index of a version in `versions`.
    pub(crate) fn position(&self, name: &Ident) -> Result<usize> {
        position(&self.versions, name)
    }

    pub(crate) fn name(&self, at: usize) -> String {
        self.versions[at].ident.to_string()
    }
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let start = input.span();
        let mut versions: Vec<DeclaredVersion> = Vec::new();
        let (mut hub, mut stored, mut tests) = (None, None, None);
        let mut steersman: Path = parse_quote!(::steersman);
        let mut harness: Path = parse_quote!(::steersman_harness);
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            match name.to_string().as_str() {
                "hub" => hub = Some(assigned(input)?),
                "stored" => stored = Some(assigned(input)?),
                "tests" if input.peek(Token![=]) => {
                    input.parse::<Token![=]>()?;
                    tests = Some(input.parse::<LitInt>()?.base10_parse()?);
                }
                "tests" => tests = Some(OBJECTS),
                "crates" => {
                    let content;
                    parenthesized!(content in input);
                    let paths = content.parse_terminated(crate_path, Token![,])?;
                    for (name, path) in paths {
                        match name.to_string().as_str() {
                            "steersman" => steersman = path,
                            "harness" => harness = path,
                            other => {
                                let text = format!(
                                    "`{other}` is no crate of the generated code: write `steersman` or `harness`"
                                );
                                return Err(Error::new(name.span(), text));
                            }
                        }
                    }
                }
                _ => {
                    let version = version(name, input)?;
                    check_order(versions.last(), &version)?;
                    versions.push(version);
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let Some(last) = versions.len().checked_sub(1) else {
            let text = "the module has no versions: list them, oldest first, as in `#[versioned(v1alpha1, v1)]`";
            return Err(Error::new(start, text));
        };
        let listed = |name: Option<Ident>| name.map(|name| position(&versions, &name)).transpose();
        let hub = listed(hub)?.unwrap_or(last);
        let stored = listed(stored)?.unwrap_or(hub);
        Ok(Self {
            versions,
            hub,
            stored,
            tests,
            steersman,
            harness,
        })
    }
}

/// Parses an entry of the argument `crates`.
fn crate_path(input: ParseStream<'_>) -> Result<(Ident, Path)> {
    let name = input.parse()?;
    input.parse::<Token![=]>()?;
    Ok((name, input.call(Path::parse_mod_style)?))
}

fn assigned(input: ParseStream<'_>) -> Result<Ident> {
    input.parse::<Token![=]>()?;
    input.parse()
}

fn version(ident: Ident, input: ParseStream<'_>) -> Result<DeclaredVersion> {
    let mut kube = TokenStream::new();
    if input.peek(syn::token::Paren) {
        let content;
        parenthesized!(content in input);
        kube = content.parse()?;
    }
    Ok(DeclaredVersion { ident, kube })
}

fn check_order(before: Option<&DeclaredVersion>, version: &DeclaredVersion) -> Result<()> {
    let (name, span) = (version.ident.to_string(), version.ident.span());
    let Some(parsed) = VersionName::parse(&name) else {
        let text = format!(
            "`{name}` is neither a version, such as `v1` or `v1beta1`, nor one of the arguments `hub`, `stored`, `tests`, `crates`"
        );
        return Err(Error::new(span, text));
    };
    let Some(before) = before else { return Ok(()) };
    let before = before.ident.to_string();
    if before == name {
        let text = format!("`{name}` is listed twice: remove one of the two");
        return Err(Error::new(span, text));
    }
    if VersionName::parse(&before).is_some_and(|before| before > parsed) {
        let text = format!("`{name}` is older than `{before}`: list the versions oldest first");
        return Err(Error::new(span, text));
    }
    Ok(())
}

fn position(versions: &[DeclaredVersion], name: &Ident) -> Result<usize> {
    let found = versions.iter().position(|version| version.ident == *name);
    found.ok_or_else(|| {
        let known: Vec<String> = versions.iter().map(|one| format!("`{}`", one.ident)).collect();
        let known = known.join(", ");
        let text = format!("`{name}` is not a version of this module: write one of {known}, or add it to `#[versioned(…)]` on the module");
        Error::new(name.span(), text)
    })
}
