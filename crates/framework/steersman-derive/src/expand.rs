//! Words: generates the module that the attribute `versioned` stands for.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{AttrStyle, Error, Item, ItemMod, Result, Type};

use crate::arguments::Arguments;
use crate::boundaries::Boundaries;
use crate::convert::{ConversionStep, conversion_path};
use crate::declaration::{Declaration, Problems};
use crate::history::without_lints;
use crate::kind::KindAttributes;
use crate::render::{ModuleLevel, declaration};
use crate::scope::deeper;

/// Returns the generated module with one submodule per version.
pub(crate) fn expand(arguments: TokenStream, module: TokenStream) -> Result<TokenStream> {
    let arguments: Arguments = syn::parse2(arguments)?;
    let module: ItemMod = syn::parse2(module).map_err(|error| {
        let text = "`versioned` stands on a module with the types of a kind: write `mod name { … }` around them";
        Error::new(error.span(), text)
    })?;
    let module = Declaration::read(arguments, module)?;
    let boundaries = Boundaries::of(&module);
    check_impls(&module, &boundaries)?;

    let (outer, inner): (Vec<_>, Vec<_>) = module
        .attributes
        .iter()
        .partition(|attribute| matches!(attribute.style, AttrStyle::Outer));
    let (visibility, name) = (&module.visibility, &module.name);
    let others = &module.others;
    let constant = module
        .types
        .iter()
        .filter(|ty| boundaries.is_constant(&ty.name));
    let constant = constant.map(|ty| declaration(ty, 0, ModuleLevel::Module, &module.arguments));
    let versions = (0..module.arguments.versions.len())
        .map(|version| submodule(&module, &boundaries, version));
    let conversions = conversions(&module, &boundaries)?;
    let functions = functions(&module);
    let tests = tests(&module);
    Ok(quote! {
        #(#outer)* #visibility mod #name {
            #(#inner)*
            #(#others)*
            #(#constant)*
            #(#versions)*
            #conversions
            #functions
            #tests
        }
    })
}

/// Refuses an impl of a type that differs between versions, because no type in the module itself has its name.
fn check_impls(module: &Declaration, boundaries: &Boundaries) -> Result<()> {
    let mut problems = Problems::default();
    for item in &module.others {
        let Item::Impl(item) = item else { continue };
        let Type::Path(path) = &*item.self_ty else {
            continue;
        };
        let Some(name) = path.path.get_ident() else {
            continue;
        };
        let is_kind = module.kinds().any(|kind| kind.root == *name);
        let is_type = module.types.iter().any(|ty| ty.name == *name);
        if is_kind || is_type && !boundaries.is_constant(name) {
            let hub = module.arguments.name(module.arguments.hub);
            let text =
                format!("`{name}` is another type in each version: write `impl {hub}::{name}`");
            problems.add(Error::new(name.span(), text));
        }
    }
    problems.end()
}

fn submodule(module: &Declaration, boundaries: &Boundaries, version: usize) -> TokenStream {
    let arguments = &module.arguments;
    let name = &arguments.versions[version].ident;
    let visibility = deeper(&module.visibility);
    let lints = without_lints(&["unused_imports"]);
    let types = module.types.iter().map(|ty| {
        let home = boundaries.home(&ty.name, version);
        let (type_name, visibility) = (&ty.name, deeper(&ty.visibility));
        if boundaries.is_constant(&ty.name) {
            quote!(#lints #visibility use super::#type_name;)
        } else if home == version {
            declaration(ty, version, ModuleLevel::Version, arguments)
        } else {
            let home = &arguments.versions[home].ident;
            quote!(#lints #visibility use super::#home::#type_name;)
        }
    });
    let text = format!(" The types in version `{name}`.");
    quote! {
        #[doc = #text]
        #visibility mod #name {
            #lints
            use super::*;
            #(#types)*
        }
    }
}

/// Returns the conversions of all types between versions, and of kinds through the hub.
fn conversions(module: &Declaration, boundaries: &Boundaries) -> Result<TokenStream> {
    let mut made = TokenStream::new();
    let mut problems = Problems::default();
    for newer in 1..module.arguments.versions.len() {
        for (from, to) in [(newer - 1, newer), (newer, newer - 1)] {
            let step = ConversionStep {
                module,
                boundaries,
                from,
                to,
            };
            let differing = module
                .types
                .iter()
                .filter(|ty| boundaries.differs(&ty.name, newer));
            for ty in differing {
                match step.conversion(ty) {
                    Ok(conversion) => made.extend(conversion),
                    Err(error) => problems.add(error),
                }
                made.extend(ty.kind.as_ref().map(|kind| step.kind(kind)));
            }
        }
    }
    problems.end()?;
    let hub = module.arguments.hub;
    for kind in module.kinds() {
        let spokes = (0..module.arguments.versions.len()).filter(|version| *version != hub);
        made.extend(spokes.map(|version| spoke(&module.arguments, kind, version)));
    }
    Ok(made)
}

/// Returns the conversion of a kind between a version and the hub through all versions between.
fn spoke(arguments: &Arguments, kind: &KindAttributes, version: usize) -> TokenStream {
    let steersman = &arguments.steersman;
    let conversion = conversion_path(steersman);
    let name = |version: usize| &arguments.versions[version].ident;
    let root = &kind.root;
    let chain = |from: usize, to: usize, first: TokenStream| {
        let steps: Vec<usize> = if from < to {
            (from + 1..=to).collect()
        } else {
            (to..from).rev().collect()
        };
        let mut value = first;
        let mut made = TokenStream::new();
        for step in steps {
            let version = name(step);
            made.extend(quote! {
                let object: #version::#root = #conversion::ConvertTo::convert_to(#value)?;
            });
            value = quote!(&object);
        }
        quote!(#made ::core::result::Result::Ok(object))
    };
    let (own, hub) = (name(version), name(arguments.hub));
    let up = chain(version, arguments.hub, quote!(self));
    let down = chain(arguments.hub, version, quote!(hub));
    let error = quote!(#steersman::webhook::BoxError);
    quote! {
        #[automatically_derived]
        impl #steersman::webhook::Spoke for #own::#root {
            type Hub = #hub::#root;

            fn to_hub(&self) -> ::core::result::Result<Self::Hub, #error> {
                #up
            }

            fn from_hub(hub: &Self::Hub) -> ::core::result::Result<Self, #error> {
                #down
            }
        }
    }
}

/// Returns the functions `conversions` and `crd` or `crds` of the module.
fn functions(module: &Declaration) -> TokenStream {
    let kinds: Vec<&KindAttributes> = module.kinds().collect();
    if kinds.is_empty() {
        return TokenStream::new();
    }
    let arguments = &module.arguments;
    let steersman = &arguments.steersman;
    let visibility = deeper(&module.visibility);
    let conversion = conversion_path(steersman);
    let definition = quote! {
        #steersman::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition
    };
    let versions = |kind: &KindAttributes, skipped: Option<usize>| -> Vec<TokenStream> {
        let listed = arguments.versions.iter().enumerate();
        let listed = listed.filter(|(at, _)| Some(*at) != skipped);
        let root = &kind.root;
        listed
            .map(|(_, version)| {
                let version = &version.ident;
                quote!(#version::#root)
            })
            .collect()
    };
    let hub = &arguments.versions[arguments.hub].ident;
    let registered = kinds.iter().map(|kind| {
        let (root, spokes) = (&kind.root, versions(kind, Some(arguments.hub)));
        quote!(.hub::<#hub::#root>() #(.spoke::<#spokes>())*)
    });
    let stored = arguments.name(arguments.stored);
    let merged = |kind: &KindAttributes| {
        let versions = versions(kind, None);
        quote! {
            #conversion::merged_definition(
                ::std::vec![#(<#versions as #steersman::kube_core::CustomResourceExt>::crd()),*],
                #stored,
            )
        }
    };
    let merged: Vec<TokenStream> = kinds.iter().map(|kind| merged(kind)).collect();
    let (name, nouns, result, value) = match &*merged {
        [one] => ("crd", "definition of the kind", definition, one.clone()),
        all => (
            "crds",
            "definitions of the kinds",
            quote!(::std::vec::Vec<#definition>),
            quote!(::std::vec![#(#all),*]),
        ),
    };
    let name = format_ident!("{name}");
    let text = format!(" Returns the {nouns} with all versions. The stored version is `{stored}`.");
    let lints = without_lints(&["dead_code"]);
    quote! {
        /// Returns the conversions between all versions.
        #lints
        #visibility fn conversions() -> #steersman::webhook::Conversions {
            #steersman::webhook::Conversions::new() #(#registered)*
        }

        #lints
        #[doc = #text]
        #visibility fn #name() -> #result {
            #value
        }
    }
}

fn tests(module: &Declaration) -> Option<TokenStream> {
    let objects = module.arguments.tests?;
    let harness = &module.arguments.harness;
    let count = module.kinds().count();
    let definitions = match count {
        0 => return None,
        1 => quote!([super::crd()]),
        _ => quote!(super::crds()),
    };
    Some(quote! {
        #[cfg(test)]
        mod versioned_tests {
            #[test]
            fn every_definition_is_valid() {
                for definition in #definitions {
                    if let ::core::result::Result::Err(error) = #harness::check_definition(&definition) {
                        ::core::panic!("{error}");
                    }
                }
            }

            #[test]
            fn objects_are_the_same_after_conversions_to_other_versions_and_back() {
                for definition in #definitions {
                    let round_trips = #harness::RoundTrips::new(&definition, &super::conversions());
                    if let ::core::result::Result::Err(error) = round_trips.objects(#objects).check() {
                        ::core::panic!("{error}");
                    }
                }
            }
        }
    })
}
