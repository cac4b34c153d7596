//! Machine: decides in which versions a type differs from the version before.

use std::collections::BTreeMap;

use syn::Ident;

use crate::declaration::{Declaration, FieldList, TypeContent, VersionedType};
use crate::render::{ModuleLevel, declaration};
use crate::scope::mentioned;

/// The versions in which each type of a module differs from the version before. A type that does not differ between
/// two versions is one Rust type for both, so that code for it is written once.
#[derive(Debug)]
pub(crate) struct Boundaries {
    /// For each type and version, whether the type differs from the version before.
    differs: BTreeMap<String, Vec<bool>>,
}

impl Boundaries {
    /// Compares the versions of all types.
    pub(crate) fn of(module: &Declaration) -> Self {
        let names: Vec<&Ident> = module.types.iter().map(|ty| &ty.name).collect();
        let count = module.arguments.versions.len();
        let mut differs: BTreeMap<String, Vec<bool>> = module
            .types
            .iter()
            .map(|ty| (ty.name.to_string(), own(ty, module)))
            .collect();
        // A type also differs where a type that it mentions does.
        let mut is_stable = false;
        while !is_stable {
            is_stable = true;
            for ty in &module.types {
                for version in 1..count {
                    let mentioned = [version - 1, version]
                        .into_iter()
                        .flat_map(|version| mentions(ty, version, &names));
                    let spreads = mentioned
                        .into_iter()
                        .any(|name| differs[&name.to_string()][version]);
                    if let Some(own) = differs.get_mut(&ty.name.to_string())
                        && spreads
                        && !own[version]
                    {
                        own[version] = true;
                        is_stable = false;
                    }
                }
            }
        }
        Self { differs }
    }

    /// Returns whether a type of the module differs in `version` from the version before.
    pub(crate) fn differs(&self, name: &Ident, version: usize) -> bool {
        let versions = self.differs.get(&name.to_string());
        versions.is_some_and(|versions| versions[version])
    }

    /// Returns whether a type is the same in all versions.
    pub(crate) fn is_constant(&self, name: &Ident) -> bool {
        let versions = self.differs.get(&name.to_string());
        versions.is_some_and(|versions| !versions.contains(&true))
    }

    /// Returns the newest version that has the same type as `version`.
    pub(crate) fn home(&self, name: &Ident, version: usize) -> usize {
        let versions = self.differs.get(&name.to_string());
        let later = versions.into_iter().flatten().skip(version + 1);
        version + later.take_while(|differs| !**differs).count()
    }
}

/// Returns in which versions a type differs by its own declaration.
fn own(ty: &VersionedType, module: &Declaration) -> Vec<bool> {
    let arguments = &module.arguments;
    let count = arguments.versions.len();
    let rendered: Vec<String> = (0..count)
        .map(|version| declaration(ty, version, ModuleLevel::Version, arguments).to_string())
        .collect();
    // A kind is another Rust type in each version, because its version belongs to its type. With one version only it
    // must still stand in the submodule of its version.
    let is_kind = ty.kind.is_some();
    let differs = |version: usize| {
        version > 0 && (rendered[version - 1] != rendered[version] || has_entry(ty, version))
    };
    (0..count)
        .map(|version| is_kind || differs(version))
        .collect()
}

/// Returns whether the history of a field or variant names the version.
fn has_entry(ty: &VersionedType, version: usize) -> bool {
    let in_list = |list: &FieldList| {
        let mut fields = list.fields.iter();
        fields.any(|field| field.history.changes_in(version))
    };
    match &ty.shape {
        TypeContent::Struct(list) => in_list(list),
        TypeContent::Enum(variants) => variants
            .iter()
            .any(|variant| variant.history.changes_in(version) || in_list(&variant.fields)),
    }
}

/// Returns the types of the module that the fields of a type mention in a version.
fn mentions<'a>(ty: &VersionedType, version: usize, names: &[&'a Ident]) -> Vec<&'a Ident> {
    let of_list = |list: &FieldList| -> Vec<&'a Ident> {
        let types = list
            .of(version)
            .map(|field| field.history.ty(&field.ty, version));
        types.flat_map(|ty| mentioned(ty, names)).collect()
    };
    match &ty.shape {
        TypeContent::Struct(list) => of_list(list),
        TypeContent::Enum(variants) => variants
            .iter()
            .filter(|variant| variant.history.exists(version))
            .flat_map(|variant| of_list(&variant.fields))
            .collect(),
    }
}
