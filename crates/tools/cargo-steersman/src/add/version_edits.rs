//! Machine: adds a version to a kind in its source file without changing any other character.

use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::{
    Attribute, File, Ident, Item, ItemMod, ItemStruct, Meta, Token, Type, UseTree, Visibility,
};

use crate::api_kind::{ApiKind, kube, literal, metas, versioned};
use crate::edits::{Edited, end, end_of_line, parse, start_of_items};

/// Non-overlapping replacements of byte ranges in a source.
#[derive(Debug, Default)]
struct Replacements(Vec<(Range<usize>, String)>);

/// The text before the items of a `versioned` module.
const HEAD: &str = include_str!("../../templates/version/head.rs.tmpl");

/// Adds a version to a kind. Changes nothing if the kind has the version.
pub(crate) fn with_version(source: &str, kind: &ApiKind, version: &str) -> Edited {
    if kind.versions.iter().any(|known| known == version) {
        return Ok(source.to_owned());
    }
    let file = parse(source)?;
    match kind.is_versioned {
        true => appended(source, &file, kind, version),
        false => first(source, &file, kind, version),
    }
}

impl Replacements {
    fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.0.push((at..at, text.into()));
    }

    fn made(mut self, source: &str) -> String {
        self.0.sort_by_key(|(place, _)| place.start);
        let mut source = source.to_owned();
        for (place, text) in self.0.into_iter().rev() {
            source.replace_range(place, &text);
        }
        source
    }
}

/// Moves the items of a source into a module with the attribute `versioned`.
fn first(source: &str, file: &File, kind: &ApiKind, version: &str) -> Edited {
    let structs = file.items.iter().filter_map(|item| match item {
        Item::Struct(item) => Some((item, kube(&item.attrs))),
        _ => None,
    });
    let specs: Vec<(&ItemStruct, Vec<Meta>)> =
        structs.filter(|(_, metas)| !metas.is_empty()).collect();
    let [(spec, metas)] = &*specs else {
        return Err("it declares several kinds: move each one into a file of its own".to_owned());
    };
    check_items(file)?;
    if matches!(spec.vis, Visibility::Inherited) {
        return Err(format!("`{}` is private: write `pub struct`", spec.ident));
    }
    let mut changes = Replacements::default();
    let root = without_version(source, metas, kind, &mut changes)?;
    for item in &file.items {
        if let Item::Impl(item) = item
            && let Type::Path(path) = &*item.self_ty
            && (path.path.is_ident(&root) || path.path.is_ident(&spec.ident))
        {
            let at = path.span().byte_range().start;
            changes.insert(at, format!("{version}::"));
        }
    }
    let head = head(kind, version);
    changes.insert(start_of_items(source, file), head);
    let last = file.items.last();
    let last = last.map_or(source.len(), |last| end(last.span()));
    changes.insert(end_of_line(source, last), "\n}");
    Ok(changes.made(source))
}

fn head(kind: &ApiKind, version: &str) -> String {
    let head = HEAD
        .replace("{{kind}}", &kind.kind)
        .replace("{{former}}", kind.newest())
        .replace("{{version}}", version);
    head + "\n"
}

/// Removes the argument `version` of the kube attribute, which `versioned` adds. Returns the name of the kind's struct.
fn without_version(
    source: &str,
    metas: &[Meta],
    kind: &ApiKind,
    changes: &mut Replacements,
) -> Result<String, String> {
    let mut root = kind.kind.clone();
    for meta in metas {
        let name = meta.path().get_ident().map(Ident::to_string);
        let name = name.unwrap_or_default();
        match name.as_str() {
            "version" => {
                let place = argument(source, meta.span().byte_range());
                changes.0.push((place, String::new()));
            }
            "root" => {
                let named = meta.require_name_value().ok();
                root = named.and_then(|pair| literal(&pair.value)).unwrap_or(root);
            }
            "storage" | "served" | "deprecated" => {
                return Err(format!(
                    "line {} has `{name}`, which differs between versions: remove it, and write it behind the version in \
                     `#[steersman::versioned(…)]` afterwards",
                    meta.span().start().line
                ));
            }
            _ => {}
        }
    }
    Ok(root)
}

/// Returns the range of an argument and its comma, or of its line if the line has nothing else.
fn argument(source: &str, place: Range<usize>) -> Range<usize> {
    let rest = &source[place.end..];
    let spaces = rest.len() - rest.trim_start().len();
    let mut end = match rest[spaces..].starts_with(',') {
        true => place.end + spaces + 1,
        false => place.end,
    };
    let line = source[..place.start].rfind('\n').map_or(0, |at| at + 1);
    let tail = source[end..].split('\n').next().unwrap_or_default();
    if source[line..place.start].trim().is_empty() && tail.trim().is_empty() {
        return line..(end + tail.len() + 1).min(source.len());
    }
    end += tail.len() - tail.trim_start_matches(' ').len();
    place.start..end
}

/// Refuses items that would have another meaning inside a module.
fn check_items(file: &File) -> Result<(), String> {
    for item in &file.items {
        let line = item.span().start().line;
        match item {
            Item::Mod(item) if item.content.is_none() => {
                let name = &item.ident;
                return Err(format!(
                    "line {line} has `mod {name};`: declare it in src/api.rs"
                ));
            }
            Item::Fn(item) if item.sig.ident == "conversions" || item.sig.ident == "definition" => {
                let name = &item.sig.ident;
                return Err(format!(
                    "line {line} has a function `{name}`, which is generated: rename it"
                ));
            }
            // In a module in braces, `super` still means the module of this file.
            Item::Mod(_) => {}
            item => {
                if let Some(line) = super_line(item.to_token_stream()) {
                    return Err(format!(
                        "line {line} has `super`, which is another module afterwards: write the path from `crate` on"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn super_line(tokens: TokenStream) -> Option<usize> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(name) if name == "super" => Some(name.span().start().line),
        TokenTree::Group(group) => super_line(group.stream()),
        _ => None,
    })
}

/// Adds a version to the attribute `versioned`, and updates the mentions of the newest version.
fn appended(source: &str, file: &File, kind: &ApiKind, version: &str) -> Edited {
    let former = kind.newest();
    let modules = file.items.iter().filter_map(|item| match item {
        Item::Mod(item) => Some((item, versioned(item)?)),
        _ => None,
    });
    let declares = |item: &ItemMod| {
        let mut items = item.content.iter().flat_map(|(_, items)| items);
        items.any(|item| matches!(item, Item::Struct(item) if !kube(&item.attrs).is_empty()))
    };
    let mut modules = modules.filter(|(item, _)| declares(item));
    let (Some((module, attribute)), None) = (modules.next(), modules.next()) else {
        return Err(
            "it has several modules with `versioned`: move each one into a file of its own"
                .to_owned(),
        );
    };
    let mut changes = Replacements::default();
    let arguments = metas(attribute).map_err(|error| error.to_string())?;
    let value = |name: &str| {
        let found = arguments.iter().find(|meta| meta.path().is_ident(name))?;
        let pair = found.require_name_value().ok()?;
        Some(pair.value.to_token_stream().to_string())
    };
    let last = arguments.iter().find(|meta| meta.path().is_ident(former));
    let Some(last) = last else {
        return Err(format!("its `versioned` does not list {former}"));
    };
    let stored = match (value("stored"), value("hub")) {
        (Some(_), _) => String::new(),
        // Objects stay stored in the same version.
        (None, hub) => format!(", stored = {}", hub.as_deref().unwrap_or(former)),
    };
    changes.insert(end(last.span()), format!(", {version}{stored}"));
    let mut newest = NewestNames {
        former,
        version,
        module: &module.ident,
        changes,
    };
    newest.visit_file(file);
    Ok(newest.changes.made(source))
}

/// Replaces the newest version's name in imports and implementations, and adds the new version to lists.
struct NewestNames<'a> {
    former: &'a str,
    version: &'a str,
    module: &'a Ident,
    changes: Replacements,
}

impl NewestNames<'_> {
    /// Visits an import in the module `parent`, because other modules, such as those of Kubernetes, have names of
    /// versions, too.
    fn import(&mut self, tree: &UseTree, parent: Option<&Ident>) {
        let is_own = parent.is_none_or(|parent| parent == self.module || parent == "self");
        match tree {
            UseTree::Path(path) => {
                if is_own && path.ident == self.former {
                    let place = path.ident.span().byte_range();
                    self.changes.0.push((place, self.version.to_owned()));
                }
                self.import(&path.tree, Some(&path.ident));
            }
            UseTree::Name(name) if is_own && name.ident == self.former => {
                let at = end(name.ident.span());
                self.changes.insert(at, format!(", {}", self.version));
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, parent);
                }
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for NewestNames<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&item.tree, None);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Type::Path(path) = &*item.self_ty
            && let Some(first) = path.path.segments.first()
            && path.path.segments.len() == 2
            && first.ident == self.former
        {
            let place = first.ident.span().byte_range();
            self.changes.0.push((place, self.version.to_owned()));
        }
        syn::visit::visit_item_impl(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let is_versioned = attribute.path().is_ident("versioned");
        let entries = metas(attribute).into_iter().flatten();
        for entry in entries.filter(|_| is_versioned) {
            if let Meta::List(list) = &entry
                && list.path.is_ident("only")
                && let Ok(arguments) =
                    list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            {
                for argument in arguments {
                    if argument.path().is_ident(self.former) {
                        let at = end(argument.span());
                        self.changes.insert(at, format!(", {}", self.version));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "\
//! The kind.

use a::Condition;

/// A spec. ä
#[derive(CustomResource)]
#[kube(group = \"a.b\", version = \"v1alpha1\", kind = \"A\", crates(kube_core = \"::k\"))]
pub struct ASpec {
    /// A field.
    #[own(  x )]
    pub message:   String, // Mine.
}

impl ASpec { fn a(&self) -> A { todo() } } // The end.
// After it.
";

    fn kind(versions: &[&str], is_versioned: bool) -> ApiKind {
        ApiKind {
            module: "a".to_owned(),
            kind: "A".to_owned(),
            group: "a.b".to_owned(),
            plural: String::new(),
            versions: versions.iter().map(|&version| version.to_owned()).collect(),
            is_versioned,
            is_namespaced: true,
            has_message: true,
        }
    }

    #[test]
    fn a_plain_kind_keeps_its_text_in_the_versioned_form() {
        let made = with_version(PLAIN, &kind(&["v1alpha1"], false), "v1").unwrap();
        let attribute = "#[steersman::versioned(v1alpha1, v1, stored = v1alpha1, tests)]\npub mod versions {\n    \
                         pub use self::v1::*;\n\n";
        let (head, body) = made.split_once(attribute).unwrap();
        assert!(
            head.starts_with("//! The kind.\n\npub use self::versions::*;\n\n/// "),
            "{head}"
        );
        let expected = PLAIN
            .split_once("\n\n")
            .unwrap()
            .1
            .replace("version = \"v1alpha1\", ", "")
            .replace("impl ASpec", "impl v1::ASpec")
            .replace("// The end.", "// The end.\n}");
        assert_eq!(body, expected);
        let long = PLAIN.replace(
            "version = \"v1alpha1\", ",
            "\n    version = \"v1alpha1\",\n    ",
        );
        let made = with_version(&long, &kind(&["v1alpha1"], false), "v1").unwrap();
        assert!(made.contains("\"a.b\", \n    kind"), "{made}");
    }

    #[test]
    fn a_version_is_appended_where_the_newest_one_is_named() {
        let source = "use k::v1::B;\nuse k::{v1, c::v1::D};\npub use self::versions::v1::{A, ASpec};\npub use self::versions::{v1, v1alpha1};\n\
                      #[steersman::versioned(v1alpha1(served = false), v1, tests = 9)]\npub mod versions {\n    \
                      #[kube(kind = \"A\")]\n    #[versioned(only(v1, kube(x)))]\n    #[versioned(only(v1alpha1, kube(y)))]\n    \
                      pub struct ASpec {\n        #[versioned(renamed(v1, from = b))]\n        pub a: u8,\n    }\n    \
                      impl v1::A {}\n}\n";
        let made = with_version(source, &kind(&["v1alpha1", "v1"], true), "v2").unwrap();
        let expected = source
            .replace("versions::v1::{", "versions::v2::{")
            .replace("::{v1, v1alpha1}", "::{v1, v2, v1alpha1}")
            .replace("v1, tests", "v1, v2, stored = v1, tests")
            .replace("only(v1, kube", "only(v1, v2, kube")
            .replace("impl v1::A", "impl v2::A");
        assert_eq!(made, expected);
        let again = with_version(&made, &kind(&["v1alpha1", "v1", "v2"], true), "v2").unwrap();
        assert_eq!(again, made);
        let made = with_version(&made, &kind(&["v1alpha1", "v1", "v2"], true), "v3").unwrap();
        assert!(made.contains("v1, v2, v3, stored = v1, tests"), "{made}");
    }

    #[test]
    fn a_form_that_cannot_be_edited_is_described() {
        let with = |from: &str, to: &str| PLAIN.replace(from, to);
        for (source, expected) in [
            (with("use a::", "use super::"), "line 3 has `super`"),
            (
                with("use a::Condition;", "mod more;"),
                "line 3 has `mod more;`",
            ),
            (with("pub struct", "struct"), "`ASpec` is private"),
            (
                with("impl ASpec { fn", "fn definition() {} impl ASpec { fn"),
                "line 14 has a function `definition`",
            ),
            (
                with("kind = \"A\",", "kind = \"A\", storage = true,"),
                "line 7 has `storage`",
            ),
            (
                with(
                    "impl ASpec {",
                    "#[kube(kind = \"B\")] struct B; impl ASpec {",
                ),
                "several kinds",
            ),
        ] {
            let problem = with_version(&source, &kind(&["v1alpha1"], false), "v1").unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
