//! Machine: decides in which versions a type differs from its form in the previous version.

use std::collections::BTreeMap;

use syn::Ident;

use crate::declaration::{Declaration, VersionedType};
use crate::render::{ModuleLevel, declaration};
use crate::scope::mentioned;

/// The versions in which each type differs from the previous version. Neighbouring versions without a difference share
/// one Rust type, so that code for the type is written once.
#[derive(Debug)]
pub(crate) struct Boundaries {
    /// For each type and each version, whether the type differs from the previous version.
    differs: BTreeMap<String, Vec<bool>>,
}

impl Boundaries {
    pub(crate) fn of(module: &Declaration) -> Self {
        let names: Vec<&Ident> = module.types.iter().map(|ty| &ty.name).collect();
        let count = module.arguments.versions.len();
        let own = module
            .types
            .iter()
            .map(|ty| (ty.name.to_string(), own(ty, module)));
        let mut differs: BTreeMap<String, Vec<bool>> = own.collect();
        // A type also differs if a type of one of its fields differs.
        let mut is_stable = false;
        while !is_stable {
            is_stable = true;
            for ty in &module.types {
                for version in 1..count {
                    let versions = [version - 1, version].into_iter();
                    let mut mentioned = versions.flat_map(|version| mentions(ty, version, &names));
                    let spreads = mentioned.any(|name| differs[&name.to_string()][version]);
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

    /// Returns for each version whether a type differs from the previous version.
    fn versions(&self, name: &Ident) -> &[bool] {
        let versions = self.differs.get(&name.to_string());
        versions.map_or(&[], Vec::as_slice)
    }

    /// Returns whether a type differs between `version` and the previous version.
    pub(crate) fn differs(&self, name: &Ident, version: usize) -> bool {
        self.versions(name).get(version) == Some(&true)
    }

    /// Returns whether a type is the same in all versions.
    pub(crate) fn is_constant(&self, name: &Ident) -> bool {
        !self.versions(name).contains(&true)
    }

    /// Returns the newest version that shares the Rust type of `version`.
    pub(crate) fn home(&self, name: &Ident, version: usize) -> usize {
        let later = self.versions(name).iter().skip(version + 1);
        version + later.take_while(|differs| !**differs).count()
    }
}

/// Returns for each version whether the declaration of a type itself changes.
fn own(ty: &VersionedType, module: &Declaration) -> Vec<bool> {
    let arguments = &module.arguments;
    let count = arguments.versions.len();
    let rendered: Vec<String> = (0..count)
        .map(|version| declaration(ty, version, ModuleLevel::Version, arguments).to_string())
        .collect();
    // A kind is a separate Rust type in each version, because it has its version. Even a single version of a kind has
    // to be in the submodule of its version.
    let is_kind = ty.kind.is_some();
    let differs = |version: usize| {
        version > 0 && (rendered[version - 1] != rendered[version] || has_entry(ty, version))
    };
    (0..count)
        .map(|version| is_kind || differs(version))
        .collect()
}

/// Returns whether a field or variant of a type has a history entry for the version.
fn has_entry(ty: &VersionedType, version: usize) -> bool {
    ty.field_lists().any(|(variant, list)| {
        let fields = list.fields.iter().map(|field| &field.history);
        let mut histories = variant.into_iter().chain(fields);
        histories.any(|history| history.changes_in(version))
    })
}

/// Returns the types of the module that the fields of a type use in a version.
fn mentions<'a>(ty: &VersionedType, version: usize, names: &[&'a Ident]) -> Vec<&'a Ident> {
    let lists = ty.field_lists();
    let present = lists.filter(|(variant, _)| variant.is_none_or(|one| one.exists(version)));
    let fields = present.flat_map(|(_, list)| list.of(version));
    let types = fields.map(|field| field.history.ty(&field.ty, version));
    types.flat_map(|ty| mentioned(ty, names)).collect()
}
