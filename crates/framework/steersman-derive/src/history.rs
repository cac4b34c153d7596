//! Words: the history of a field or variant, as its `#[versioned(…)]` attributes state it.

use proc_macro2::Span;
use quote::format_ident;
use syn::ext::IdentExt as _;
use syn::parse::{End, Parse, ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, Expr, Ident, LitStr, Meta, Result, Token, Type, parenthesized, parse_quote,
    token,
};

use crate::arguments::Arguments;

/// The first or last appearance of a field or variant.
#[derive(Clone, Debug)]
pub(crate) struct Appearance {
    /// The version with the change.
    pub(crate) at: usize,
    span: Span,
    /// The value of the field in an object that comes from a version without the field.
    pub(crate) default: Option<Expr>,
    /// The variant that a version without this variant has instead.
    pub(crate) instead: Option<Expr>,
}

/// A former name.
#[derive(Clone, Debug)]
pub(crate) struct Rename {
    pub(crate) at: usize,
    pub(crate) from: Ident,
}

/// A former type.
#[derive(Clone, Debug)]
pub(crate) struct TypeChange {
    pub(crate) at: usize,
    pub(crate) from: Type,
    pub(crate) upgrade: Expr,
    pub(crate) downgrade: Expr,
    span: Span,
}

/// A field or variant that stays, and that users shall leave.
#[derive(Clone, Debug)]
pub(crate) struct Deprecation {
    pub(crate) at: usize,
    pub(crate) note: Option<String>,
}

/// The history of a field or variant.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) added: Option<Appearance>,
    pub(crate) removed: Option<Appearance>,
    /// The former names, oldest first.
    pub(crate) renames: Vec<Rename>,
    /// The former types, oldest first.
    pub(crate) changes: Vec<TypeChange>,
    pub(crate) deprecated: Option<Deprecation>,
}

/// An attribute, and the versions that have it.
#[derive(Clone, Debug)]
pub(crate) struct VersionedAttribute {
    /// `None` for all versions.
    pub(crate) only: Option<Vec<usize>>,
    pub(crate) attribute: Attribute,
}

/// The thing that has a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryOwner {
    Field,
    /// A field without a name.
    Element,
    Variant,
    /// A struct or enum.
    Type,
}

/// One entry of a `#[versioned(…)]` attribute.
enum HistoryEntry {
    Added(Appearance),
    Removed(Appearance),
    Renamed(Rename, Span),
    Changed(Box<TypeChange>),
    Deprecated(Deprecation, Span),
    Only(Vec<VersionedAttribute>),
}

/// The named parts of an entry, such as `default = 1`.
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
    /// Reads the history from the attributes of a field, variant or type, and returns the other attributes, too.
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
            let parser = |input: ParseStream<'_>| entries(input, subject, arguments);
            let listed = match &attribute.meta {
                Meta::List(list) => parser.parse2(list.tokens.clone())?,
                Meta::Path(_) | Meta::NameValue(_) => {
                    let text =
                        "the history is missing: write `#[versioned(added(v1))]`, for example";
                    return Err(Error::new_spanned(attribute, text));
                }
            };
            for entry in listed {
                history.add(entry, name, &mut rest)?;
            }
        }
        history.renames.sort_by_key(|rename| rename.at);
        history.changes.sort_by_key(|change| change.at);
        history.check(name, arguments)?;
        Ok((history, rest))
    }

    /// Returns whether the field or variant exists in a version.
    pub(crate) fn exists(&self, version: usize) -> bool {
        self.added.as_ref().is_none_or(|added| added.at <= version)
            && self
                .removed
                .as_ref()
                .is_none_or(|removed| version < removed.at)
    }

    /// Returns the name in a version.
    pub(crate) fn name<'a>(&'a self, newest: &'a Ident, version: usize) -> &'a Ident {
        let next = self.renames.iter().find(|rename| version < rename.at);
        next.map_or(newest, |rename| &rename.from)
    }

    /// Returns the type in a version.
    pub(crate) fn ty<'a>(&'a self, newest: &'a Type, version: usize) -> &'a Type {
        let next = self.changes.iter().find(|change| version < change.at);
        next.map_or(newest, |change| &change.from)
    }

    /// Returns the functions for the step to or from the version `at`, if the type changes there.
    pub(crate) fn change(&self, at: usize) -> Option<&TypeChange> {
        self.changes.iter().find(|change| change.at == at)
    }

    /// Returns whether an entry names the version.
    pub(crate) fn changes_in(&self, version: usize) -> bool {
        let is_here = |at: usize| at == version;
        self.added.as_ref().is_some_and(|added| is_here(added.at))
            || self
                .removed
                .as_ref()
                .is_some_and(|removed| is_here(removed.at))
            || self.renames.iter().any(|rename| is_here(rename.at))
            || self.changes.iter().any(|change| is_here(change.at))
    }

    fn add(
        &mut self,
        entry: HistoryEntry,
        name: &str,
        rest: &mut Vec<VersionedAttribute>,
    ) -> Result<()> {
        let twice = |span, what: &str| {
            let text = format!("`{name}` is {what} twice: remove one of the two entries");
            Err(Error::new(span, text))
        };
        match entry {
            HistoryEntry::Added(added) if self.added.is_some() => {
                return twice(added.span, "added");
            }
            HistoryEntry::Added(added) => self.added = Some(added),
            HistoryEntry::Removed(removed) if self.removed.is_some() => {
                return twice(removed.span, "removed");
            }
            HistoryEntry::Removed(removed) => self.removed = Some(removed),
            HistoryEntry::Renamed(rename, span) => {
                if self.renames.iter().any(|known| known.at == rename.at) {
                    return twice(span, "renamed in one version");
                }
                self.renames.push(rename);
            }
            HistoryEntry::Changed(change) => {
                if self.change(change.at).is_some() {
                    return twice(change.span, "changed in one version");
                }
                self.changes.push(*change);
            }
            HistoryEntry::Deprecated(_, span) if self.deprecated.is_some() => {
                return twice(span, "deprecated");
            }
            HistoryEntry::Deprecated(deprecated, _) => self.deprecated = Some(deprecated),
            HistoryEntry::Only(attributes) => rest.extend(attributes),
        }
        Ok(())
    }

    /// Checks the order of the entries.
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

fn entries(
    input: ParseStream<'_>,
    subject: HistoryOwner,
    arguments: &Arguments,
) -> Result<Vec<HistoryEntry>> {
    let mut found = Vec::new();
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
        found.push(if kind == "only" {
            HistoryEntry::Only(only(&content, arguments)?)
        } else {
            entry(&keyword, &kind, subject, &content, arguments)?
        });
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(found)
}

/// Checks that the entry exists for the subject.
fn check_subject(keyword: &Ident, kind: &str, subject: HistoryOwner) -> Result<()> {
    let (known, thing): (&[&str], &str) = match subject {
        HistoryOwner::Field => (
            &[
                "added",
                "removed",
                "renamed",
                "changed",
                "deprecated",
                "only",
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

fn entry(
    keyword: &Ident,
    kind: &str,
    subject: HistoryOwner,
    content: ParseStream<'_>,
    arguments: &Arguments,
) -> Result<HistoryEntry> {
    let span = keyword.span();
    let version: Ident = content.parse()?;
    let at = arguments.position(&version)?;
    let mut parts = EntryParts::default();
    while !content.is_empty() {
        content.parse::<Token![,]>()?;
        if !content.is_empty() {
            part(kind, subject, content, &mut parts)?;
        }
    }
    let appearance = |parts: EntryParts| Appearance {
        at,
        span,
        default: parts.default,
        instead: parts.instead,
    };
    Ok(match kind {
        "added" if at == 0 => {
            let text = format!(
                "`{version}` is the first version: a field or variant without `added` exists from there, so remove the entry"
            );
            return Err(Error::new(span, text));
        }
        "removed" if at == 0 => {
            let text = format!(
                "`{version}` is the first version: delete the field or variant, because no version has it"
            );
            return Err(Error::new(span, text));
        }
        "added" => HistoryEntry::Added(appearance(parts)),
        "removed" => HistoryEntry::Removed(appearance(parts)),
        "renamed" => {
            let Some(from) = parts.from_name else {
                let text = format!(
                    "the former name is missing: write `renamed({version}, from = former_name)`"
                );
                return Err(Error::new(span, text));
            };
            HistoryEntry::Renamed(Rename { at, from }, span)
        }
        "changed" => {
            let (Some(from), Some(upgrade), Some(downgrade)) =
                (parts.from_type, parts.upgrade, parts.downgrade)
            else {
                let text = format!(
                    "a changed type needs the former type and a function for each direction: write `changed({version}, from = FormerType, upgrade = function, downgrade = function)`"
                );
                return Err(Error::new(span, text));
            };
            HistoryEntry::Changed(Box::new(TypeChange {
                at,
                from,
                upgrade,
                downgrade,
                span,
            }))
        }
        _ => {
            let note = parts.note;
            HistoryEntry::Deprecated(Deprecation { at, note }, span)
        }
    })
}

fn part(
    kind: &str,
    subject: HistoryOwner,
    content: ParseStream<'_>,
    parts: &mut EntryParts,
) -> Result<()> {
    let name = content.call(Ident::parse_any)?;
    content.parse::<Token![=]>()?;
    let is_variant = subject == HistoryOwner::Variant;
    match (kind, name.to_string().as_str()) {
        ("added" | "removed", "default") if !is_variant => parts.default = Some(content.parse()?),
        ("added" | "removed", "instead") if is_variant => parts.instead = Some(content.parse()?),
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
    Ok(())
}

/// Reads `only(v1, v1beta1, attribute, …)`: the versions, then the attributes that they have.
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

/// Returns the attribute that silences lints for generated items. Whether an item has the lint depends on the types of
/// the user, so `expect` would warn where the lint is absent.
pub(crate) fn without_lints(lints: &[&str]) -> proc_macro2::TokenStream {
    let name = format_ident!("allow");
    let lints = lints.iter().map(|lint| Ident::new(lint, Span::call_site()));
    quote::quote!(#[#name(#(#lints),*)])
}
