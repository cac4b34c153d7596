//! Machine: decides in which versions a type differs from the version before.

use std::collections::BTreeMap;

use syn::Ident;

use crate::declaration::{Declaration, VersionedType};
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
    pub(crate) fn of(module: &Declaration) -> Self {
        let names: Vec<&Ident> = module.types.iter().map(|ty| &ty.name).collect();
        let count = module.arguments.versions.len();
        let own = module
            .types
            .iter()
            .map(|ty| (ty.name.to_string(), own(ty, module)));
        let mut differs: BTreeMap<String, Vec<bool>> = own.collect();
        // A type also differs where a type that it mentions does.
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

    /// Returns for each version whether a type of the module differs from the version before.
    fn versions(&self, name: &Ident) -> &[bool] {
        let versions = self.differs.get(&name.to_string());
        versions.map_or(&[], Vec::as_slice)
    }

    /// Returns whether a type of the module differs in `version` from the version before.
    pub(crate) fn differs(&self, name: &Ident, version: usize) -> bool {
        self.versions(name).get(version) == Some(&true)
    }

    /// Returns whether a type is the same in all versions.
    pub(crate) fn is_constant(&self, name: &Ident) -> bool {
        !self.versions(name).contains(&true)
    }

    /// Returns the newest version that has the same type as `version`.
    pub(crate) fn home(&self, name: &Ident, version: usize) -> usize {
        let later = self.versions(name).iter().skip(version + 1);
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
    ty.field_lists().any(|(variant, list)| {
        let fields = list.fields.iter().map(|field| &field.history);
        let mut histories = variant.into_iter().chain(fields);
        histories.any(|history| history.changes_in(version))
    })
}

/// Returns the types of the module that the fields of a type mention in a version.
fn mentions<'a>(ty: &VersionedType, version: usize, names: &[&'a Ident]) -> Vec<&'a Ident> {
    let lists = ty.field_lists();
    let present = lists.filter(|(variant, _)| variant.is_none_or(|one| one.exists(version)));
    let fields = present.flat_map(|(_, list)| list.of(version));
    let types = fields.map(|field| field.history.ty(&field.ty, version));
    types.flat_map(|ty| mentioned(ty, names)).collect()
}
