//! Words: the history of a field or variant, read from its `#[versioned(…)]` attributes.

use proc_macro2::Span;
use quote::format_ident;
use syn::ext::IdentExt as _;
use syn::parse::{End, Parse, ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, Expr, ExprLit, Ident, Lit, LitStr, Meta, Result, Token, Type, parenthesized,
    parse_quote, token,
};

use crate::arguments::Arguments;

/// The version in which a field or variant appears or disappears.
#[derive(Clone, Debug)]
pub(crate) struct Appearance {
    pub(crate) at: usize,
    span: Span,
    /// The value of the field in an object that is converted from a version without the field.
    pub(crate) default: Option<Expr>,
    /// The variant that stands for this variant in a version without it.
    pub(crate) instead: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Rename {
    pub(crate) at: usize,
    pub(crate) from: Ident,
}

#[derive(Clone, Debug)]
pub(crate) struct TypeChange {
    pub(crate) at: usize,
    pub(crate) from: Type,
    pub(crate) upgrade: Expr,
    pub(crate) downgrade: Expr,
    span: Span,
}

/// The deprecation of a field or variant, which stays until it is removed.
#[derive(Clone, Debug)]
pub(crate) struct Deprecation {
    pub(crate) at: usize,
    pub(crate) note: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) added: Option<Appearance>,
    pub(crate) removed: Option<Appearance>,
    /// The former names of the field or variant, oldest first.
    pub(crate) renames: Vec<Rename>,
    /// The former types of the field, oldest first.
    pub(crate) changes: Vec<TypeChange>,
    pub(crate) deprecated: Option<Deprecation>,
}

/// An attribute that only some versions have.
#[derive(Clone, Debug)]
pub(crate) struct VersionedAttribute {
    /// The versions with the attribute; `None` for all versions.
    pub(crate) only: Option<Vec<usize>>,
    pub(crate) attribute: Attribute,
}

/// The kind of item that a history belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryOwner {
    Field,
    /// A tuple field, which has no name.
    Element,
    Variant,
    /// A struct or enum.
    Type,
}

/// The named arguments of a history entry, such as `default = 1`.
#[derive(Default)]
struct EntryParts {
    default: Option<Expr>,
    instead: Option<Expr>,
    from_name: Option<Ident>,
    from_type: Option<Type>,
    upgrade: Option<Expr>,
    downgrade: Option<Expr>,
    note: Option<String>,
}

impl History {
    /// Reads the history from the attributes of a field, variant or type, and returns the remaining attributes.
    pub(crate) fn read(
        attributes: &[Attribute],
        name: &str,
        subject: HistoryOwner,
        arguments: &Arguments,
    ) -> Result<(Self, Vec<VersionedAttribute>)> {
        let mut history = Self::default();
        let mut rest = Vec::new();
        for attribute in attributes {
            if attribute.path().is_ident("cfg") {
                let text = format!(
                    "`{name}` cannot depend on `cfg`, because its conversions exist always: remove `cfg`, or put it on the module"
                );
                return Err(Error::new_spanned(attribute, text));
            }
            if !attribute.path().is_ident("versioned") {
                rest.push(VersionedAttribute {
                    only: None,
                    attribute: attribute.clone(),
                });
                continue;
            }
            let Meta::List(list) = &attribute.meta else {
                let text = "the history is missing: write `#[versioned(added(v1))]`, for example";
                return Err(Error::new_spanned(attribute, text));
            };
            let parser = |input: ParseStream<'_>| {
                history.read_entries(input, name, subject, arguments, &mut rest)
            };
            parser.parse2(list.tokens.clone())?;
        }
        history.renames.sort_by_key(|rename| rename.at);
        history.changes.sort_by_key(|change| change.at);
        history.check(name, arguments)?;
        Ok((history, rest))
    }

    /// Returns whether the field or variant exists in a version.
    pub(crate) fn exists(&self, version: usize) -> bool {
        let is_added = self.added.as_ref().is_none_or(|added| added.at <= version);
        let removed = self.removed.as_ref();
        is_added && removed.is_none_or(|removed| version < removed.at)
    }

    pub(crate) fn name<'a>(&'a self, newest: &'a Ident, version: usize) -> &'a Ident {
        let next = self.renames.iter().find(|rename| version < rename.at);
        next.map_or(newest, |rename| &rename.from)
    }

    pub(crate) fn ty<'a>(&'a self, newest: &'a Type, version: usize) -> &'a Type {
        let next = self.changes.iter().find(|change| version < change.at);
        next.map_or(newest, |change| &change.from)
    }

    /// Returns the functions for the step to or from the version `at`, if the type changes there.
    pub(crate) fn change(&self, at: usize) -> Option<&TypeChange> {
        self.changes.iter().find(|change| change.at == at)
    }

    /// Returns whether the history has an entry for the version.
    pub(crate) fn changes_in(&self, version: usize) -> bool {
        let appearances = self.added.iter().chain(&self.removed).map(|one| one.at);
        let renames = self.renames.iter().map(|one| one.at);
        let changes = self.changes.iter().map(|one| one.at);
        let mut all = appearances.chain(renames).chain(changes);
        all.any(|at| at == version)
    }

    /// Parses the entries of one attribute. Adds the attributes in `only(…)` to `rest`.
    fn read_entries(
        &mut self,
        input: ParseStream<'_>,
        name: &str,
        subject: HistoryOwner,
        arguments: &Arguments,
        rest: &mut Vec<VersionedAttribute>,
    ) -> Result<()> {
        while !input.is_empty() {
            let keyword = input.call(Ident::parse_any)?;
            let kind = keyword.to_string();
            check_subject(&keyword, &kind, subject)?;
            if !input.peek(token::Paren) {
                let text = format!("the version is missing: write `{kind}(v1)`, for example");
                return Err(Error::new(keyword.span(), text));
            }
            let content;
            parenthesized!(content in input);
            if kind == "only" {
                rest.extend(only(&content, arguments)?);
            } else {
                let version: Ident = content.parse()?;
                let at = arguments.position(&version)?;
                let parts = EntryParts::read(&kind, subject, &content)?;
                let added = self.add(&kind, name, (at, &version), parts, keyword.span());
                added.map_err(|text| Error::new(keyword.span(), text))?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }

    /// Adds an entry to the history; an error if it contradicts the others.
    fn add(
        &mut self,
        kind: &str,
        name: &str,
        (at, version): (usize, &Ident),
        parts: EntryParts,
        span: Span,
    ) -> std::result::Result<(), String> {
        let is_renamed = self.renames.iter().any(|known| known.at == at);
        let (is_known, what) = match kind {
            "added" => (self.added.is_some(), "added"),
            "removed" => (self.removed.is_some(), "removed"),
            "renamed" => (is_renamed, "renamed in one version"),
            "changed" => (self.change(at).is_some(), "changed in one version"),
            _ => (self.deprecated.is_some(), "deprecated"),
        };
        let appearance = |parts: EntryParts| Appearance {
            at,
            span,
            default: parts.default,
            instead: parts.instead,
        };
        match kind {
            "added" if at == 0 => {
                return Err(format!(
                    "`{version}` is the first version: a field or variant without `added` exists from there, so remove the entry"
                ));
            }
            "removed" if at == 0 => {
                return Err(format!(
                    "`{version}` is the first version: delete the field or variant, because no version has it"
                ));
            }
            "added" => self.added = Some(appearance(parts)),
            "removed" => self.removed = Some(appearance(parts)),
            "renamed" => {
                let missing = || {
                    format!(
                        "the former name is missing: write `renamed({version}, from = former_name)`"
                    )
                };
                let from = parts.from_name.ok_or_else(missing)?;
                self.renames.push(Rename { at, from });
            }
            "changed" => {
                let (Some(from), Some(upgrade), Some(downgrade)) =
                    (parts.from_type, parts.upgrade, parts.downgrade)
                else {
                    return Err(format!(
                        "a changed type needs the former type and a function for each direction: write `changed({version}, from = FormerType, upgrade = function, downgrade = function)`"
                    ));
                };
                self.changes.push(TypeChange {
                    at,
                    from,
                    upgrade,
                    downgrade,
                    span,
                });
            }
            _ => {
                let note = parts.note;
                self.deprecated = Some(Deprecation { at, note });
            }
        }
        match is_known {
            true => Err(format!(
                "`{name}` is {what} twice: remove one of the two entries"
            )),
            false => Ok(()),
        }
    }

    fn check(&self, name: &str, arguments: &Arguments) -> Result<()> {
        let version = |at: usize| arguments.name(at);
        let first = self.added.as_ref().map_or(0, |added| added.at);
        if let (Some(added), Some(removed)) = (&self.added, &self.removed)
            && removed.at <= added.at
        {
            let (added, gone) = (version(added.at), version(removed.at));
            let text = format!(
                "`{name}` is removed in `{gone}`, but added only in `{added}`: remove it in a later version"
            );
            return Err(Error::new(removed.span, text));
        }
        let renames = self
            .renames
            .iter()
            .map(|one| (one.at, one.from.span(), "renamed"));
        let changes = self.changes.iter().map(|one| (one.at, one.span, "changed"));
        for (at, span, what) in renames.chain(changes) {
            let here = version(at);
            if at <= first {
                let text = if self.added.is_some() {
                    let added = version(first);
                    format!(
                        "`{name}` is {what} in `{here}`, but added only in `{added}`: an entry after `added` names a later version"
                    )
                } else {
                    format!(
                        "`{name}` is {what} in `{here}`, the first version: there is no older version, so remove the entry"
                    )
                };
                return Err(Error::new(span, text));
            }
            if let Some(removed) = &self.removed
                && removed.at <= at
            {
                let gone = version(removed.at);
                let text = format!(
                    "`{name}` is {what} in `{here}`, but removed in `{gone}`: name a version before `{gone}`"
                );
                return Err(Error::new(span, text));
            }
        }
        Ok(())
    }
}

fn check_subject(keyword: &Ident, kind: &str, subject: HistoryOwner) -> Result<()> {
    let (known, thing): (&[&str], &str) = match subject {
        HistoryOwner::Field => (
            &[
                "added", "removed", "renamed", "changed", "deprecated", "only",
            ],
            "a field",
        ),
        HistoryOwner::Element => (&["changed", "only"], "a field without a name"),
        HistoryOwner::Variant => (
            &["added", "removed", "renamed", "deprecated", "only"],
            "a variant",
        ),
        HistoryOwner::Type => (&["only"], "a type"),
    };
    if known.contains(&kind) {
        return Ok(());
    }
    let known: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    let text = format!(
        "`{kind}` is no entry for {thing}: write one of {}",
        known.join(", ")
    );
    Err(Error::new(keyword.span(), text))
}

impl EntryParts {
    /// Parses the named arguments of an entry, which follow commas.
    fn read(kind: &str, subject: HistoryOwner, content: ParseStream<'_>) -> Result<Self> {
        let mut parts = Self::default();
        let is_variant = subject == HistoryOwner::Variant;
        while !content.is_empty() {
            content.parse::<Token![,]>()?;
            if content.is_empty() {
                break;
            }
            let name = content.call(Ident::parse_any)?;
            content.parse::<Token![=]>()?;
            match (kind, name.to_string().as_str()) {
                ("added" | "removed", "default") if !is_variant => {
                    parts.default = Some(content.parse()?);
                }
                ("added" | "removed", "instead") if is_variant => {
                    parts.instead = Some(content.parse()?);
                }
                ("renamed", "from") => parts.from_name = Some(content.call(Ident::parse_any)?),
                ("changed", "from") => parts.from_type = Some(content.parse()?),
                ("changed", "upgrade") => parts.upgrade = Some(content.parse()?),
                ("changed", "downgrade") => parts.downgrade = Some(content.parse()?),
                ("deprecated", "note") => parts.note = Some(content.parse::<LitStr>()?.value()),
                (_, other) => {
                    let known = match kind {
                        "added" | "removed" if is_variant => "`instead`",
                        "added" | "removed" => "`default`",
                        "renamed" => "`from`",
                        "changed" => "`from`, `upgrade` and `downgrade`",
                        _ => "`note`",
                    };
                    let text = format!("`{other}` is no part of `{kind}`, which has {known}");
                    return Err(Error::new(name.span(), text));
                }
            }
        }
        Ok(parts)
    }
}

/// Parses `only(v1, v1beta1, attribute, …)`: versions, and the attributes that only these versions have.
fn only(content: ParseStream<'_>, arguments: &Arguments) -> Result<Vec<VersionedAttribute>> {
    let span = content.span();
    let mut versions = Vec::new();
    let mut attributes = Vec::new();
    for meta in Punctuated::<OnlyPart, Token![,]>::parse_terminated(content)? {
        match meta {
            OnlyPart::Version(version) if attributes.is_empty() => {
                versions.push(arguments.position(&version)?);
            }
            OnlyPart::Version(version) => {
                let text = "`only` names its versions before its attributes";
                return Err(Error::new(version.span(), text));
            }
            OnlyPart::Attribute(meta) => attributes.push(meta),
        }
    }
    if versions.is_empty() || attributes.is_empty() {
        let text = "`only` names versions and the attributes that only these have: write `only(v1, serde(default))`, for example";
        return Err(Error::new(span, text));
    }
    let attributes = attributes.into_iter().map(|meta| VersionedAttribute {
        only: Some(versions.clone()),
        attribute: parse_quote!(#[#meta]),
    });
    Ok(attributes.collect())
}

enum OnlyPart {
    Version(Ident),
    Attribute(Meta),
}

impl Parse for OnlyPart {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let is_alone = input.peek(Ident) && (input.peek2(Token![,]) || input.peek2(End));
        if is_alone {
            return input.parse().map(Self::Version);
        }
        input.parse().map(Self::Attribute)
    }
}

pub(crate) fn metas(attribute: &Attribute) -> Result<Vec<Meta>> {
    let arguments = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
    Ok(arguments.into_iter().collect())
}

pub(crate) fn literal(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

/// Returns the attribute that silences lints for generated items. `expect` would warn when a lint does not apply, which
/// depends on the user's types.
pub(crate) fn without_lints(lints: &[&str]) -> proc_macro2::TokenStream {
    let name = format_ident!("allow");
    let lints = lints.iter().map(|lint| Ident::new(lint, Span::call_site()));
    quote::quote!(#[#name(#(#lints),*)])
}
