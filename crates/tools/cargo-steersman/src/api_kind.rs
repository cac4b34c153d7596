//! Driver: finds the kinds that the sources of an operator declare.

use std::fs;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Fields, Item, ItemMod, ItemStruct, Lit, Meta, Token};

use crate::edits::parse;
use crate::error::Error;

/// A kind that a file in `src/api` declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiKind {
    /// The name of the module of the kind, equal to the name of its file.
    pub(crate) module: String,
    pub(crate) kind: String,
    pub(crate) group: String,
    /// The plural name, such as `greetings`; empty if the source leaves it to the derive.
    pub(crate) plural: String,
    /// The versions, oldest first; there is at least one.
    pub(crate) versions: Vec<String>,
    pub(crate) is_versioned: bool,
    pub(crate) is_namespaced: bool,
    /// Whether the spec has a field `message` of the type `String`, as the spec of a new kind.
    pub(crate) has_message: bool,
}

impl ApiKind {
    pub(crate) fn newest(&self) -> &str {
        self.versions.last().map_or("", String::as_str)
    }

    pub(crate) fn path(&self) -> PathBuf {
        Path::new("src/api").join(format!("{}.rs", self.module))
    }
}

/// Returns the kinds of an operator, ordered by file. A file that is not valid Rust declares no kind.
pub(crate) fn all(folder: &Path) -> Result<Vec<ApiKind>, Error> {
    let place = folder.join("src/api");
    let entries = fs::read_dir(&place).map_err(Error::file(&place, "read"))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect();
    paths.sort();
    let mut kinds = Vec::new();
    for path in paths {
        let source = fs::read_to_string(&path).map_err(Error::file(&path, "read"))?;
        let module = path.file_stem().unwrap_or_default().to_string_lossy();
        kinds.extend(declared(&source, &module));
    }
    Ok(kinds)
}

pub(crate) fn find(folder: &Path, name: &str) -> Result<ApiKind, Error> {
    let known = all(folder)?;
    let names: Vec<String> = known.iter().map(|kind| kind.kind.clone()).collect();
    let found = known.into_iter().find(|kind| kind.kind == name);
    found.ok_or_else(|| Error::UnknownKind {
        kind: name.to_owned(),
        known: names,
    })
}

fn declared(source: &str, module: &str) -> Vec<ApiKind> {
    let Ok(file) = parse(source) else {
        return Vec::new();
    };
    let mut kinds = Vec::new();
    for item in &file.items {
        match item {
            Item::Struct(item) => kinds.extend(of_struct(item, module, None)),
            Item::Mod(item) => {
                let versions = versions(item);
                for item in item.content.iter().flat_map(|(_, items)| items) {
                    if let (Item::Struct(item), Some(versions)) = (item, &versions) {
                        kinds.extend(of_struct(item, module, Some(versions)));
                    }
                }
            }
            _ => {}
        }
    }
    kinds
}

fn of_struct(item: &ItemStruct, module: &str, versions: Option<&Vec<String>>) -> Option<ApiKind> {
    let metas = kube(&item.attrs);
    let text = |name: &str| {
        let found = metas.iter().find(|meta| meta.path().is_ident(name))?;
        literal(&found.require_name_value().ok()?.value)
    };
    let given = versions.cloned();
    let has_message = match &item.fields {
        Fields::Named(fields) => fields.named.iter().any(|field| {
            field.ident.as_ref().is_some_and(|name| name == "message")
                && matches!(&field.ty, syn::Type::Path(path) if path.path.is_ident("String"))
        }),
        _ => false,
    };
    Some(ApiKind {
        module: module.to_owned(),
        kind: text("kind")?,
        group: text("group")?,
        plural: text("plural").unwrap_or_default(),
        is_versioned: given.is_some(),
        versions: given.or_else(|| Some(vec![text("version")?]))?,
        is_namespaced: metas.iter().any(|meta| meta.path().is_ident("namespaced")),
        has_message,
    })
}

pub(crate) fn kube(attributes: &[Attribute]) -> Vec<Meta> {
    let attributes = attributes.iter().filter(|one| one.path().is_ident("kube"));
    attributes
        .filter_map(|one| metas(one).ok())
        .flatten()
        .collect()
}

pub(crate) fn metas(attribute: &Attribute) -> syn::Result<Vec<Meta>> {
    let arguments = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
    Ok(arguments.into_iter().collect())
}

pub(crate) fn versioned(item: &ItemMod) -> Option<&Attribute> {
    item.attrs.iter().find(|attribute| {
        let last = attribute.path().segments.last();
        last.is_some_and(|last| last.ident == "versioned")
    })
}

fn versions(item: &ItemMod) -> Option<Vec<String>> {
    let arguments = metas(versioned(item)?).ok()?;
    let names = arguments.iter().filter_map(|meta| match meta {
        Meta::Path(path) if !path.is_ident("tests") => path.get_ident(),
        Meta::List(list) if !list.path.is_ident("crates") => list.path.get_ident(),
        _ => None,
    });
    let names: Vec<String> = names.map(ToString::to_string).collect();
    (!names.is_empty()).then_some(names)
}

pub(crate) fn literal(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_in_both_forms() {
        let plain = "#[kube(group = \"a.b\", version = \"v1\", kind = \"A\", plural = \"as\")]\n#[kube(namespaced)]\n\
                     struct ASpec { message: String }\nstruct Other;\n";
        let kind = ApiKind {
            module: "a".to_owned(),
            kind: "A".to_owned(),
            group: "a.b".to_owned(),
            plural: "as".to_owned(),
            versions: vec!["v1".to_owned()],
            is_versioned: false,
            is_namespaced: true,
            has_message: true,
        };
        assert_eq!(declared(plain, "a"), std::slice::from_ref(&kind));
        let versioned = "#[steersman::versioned(v1alpha1(deprecated = \"x\"), v1, stored = v1alpha1, tests = 3)]\n\
                         pub mod versions { #[kube(group = \"a.b\", kind = \"A\")] struct ASpec(u8); }\n";
        let expected = ApiKind {
            versions: vec!["v1alpha1".to_owned(), "v1".to_owned()],
            plural: String::new(),
            is_versioned: true,
            is_namespaced: false,
            has_message: false,
            ..kind
        };
        assert_eq!(declared(versioned, "a"), [expected]);
        for other in [
            "no rust", "mod m { struct A; }", "#[kube(kind = A)] struct A;",
        ] {
            assert_eq!(declared(other, "a"), []);
        }
    }
}
