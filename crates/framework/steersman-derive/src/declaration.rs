//! Words: the types in the module of `versioned`, with the history of their fields and variants.

use syn::spanned::Spanned as _;
use syn::{
    Attribute, Error, Expr, Fields, Generics, Ident, Item, ItemMod, Result, Type, Visibility,
};

use crate::arguments::Arguments;
use crate::history::{History, HistoryOwner, VersionedAttribute};
use crate::kind::KindAttributes;

#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) arguments: Arguments,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) name: Ident,
    pub(crate) types: Vec<VersionedType>,
    /// The items that are neither structs nor enums.
    pub(crate) others: Vec<Item>,
}

#[derive(Debug)]
pub(crate) struct VersionedType {
    pub(crate) attributes: Vec<VersionedAttribute>,
    pub(crate) visibility: Visibility,
    pub(crate) name: Ident,
    pub(crate) shape: TypeContent,
    /// The kind attributes, if the type is the spec of a kind.
    pub(crate) kind: Option<KindAttributes>,
}

#[derive(Debug)]
pub(crate) enum TypeContent {
    Struct(FieldList),
    Enum(Vec<VersionedVariant>),
}

/// How the fields of a struct or variant are written: with names, as a tuple, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    Named,
    Tuple,
    Unit,
}

#[derive(Debug)]
pub(crate) struct FieldList {
    pub(crate) notation: Notation,
    pub(crate) fields: Vec<VersionedField>,
}

#[derive(Debug)]
pub(crate) struct VersionedField {
    pub(crate) attributes: Vec<VersionedAttribute>,
    pub(crate) visibility: Visibility,
    /// The newest name of the field; `None` in tuples.
    pub(crate) name: Option<Ident>,
    pub(crate) ty: Type,
    pub(crate) history: History,
}

#[derive(Debug)]
pub(crate) struct VersionedVariant {
    pub(crate) attributes: Vec<VersionedAttribute>,
    pub(crate) name: Ident,
    pub(crate) fields: FieldList,
    pub(crate) discriminant: Option<Expr>,
    pub(crate) history: History,
}

impl Declaration {
    pub(crate) fn read(arguments: Arguments, module: ItemMod) -> Result<Self> {
        let Some((_, items)) = module.content else {
            let text =
                "the types are missing: write them in the braces of this module, `mod name { … }`";
            return Err(Error::new(module.ident.span(), text));
        };
        let mut types = Vec::new();
        let mut others = Vec::new();
        let mut problems = Problems::default();
        for item in items {
            match item {
                Item::Struct(item) => problems.keep(&mut types, || {
                    check_generics(&item.ident, &item.generics)?;
                    let fields = fields(item.fields, &arguments)?;
                    let head = (item.attrs, item.vis, item.ident);
                    versioned_type(head, TypeContent::Struct(fields), &arguments)
                }),
                Item::Enum(item) => problems.keep(&mut types, || {
                    check_generics(&item.ident, &item.generics)?;
                    let variants = variants(item.variants.into_iter().collect(), &arguments)?;
                    let head = (item.attrs, item.vis, item.ident);
                    versioned_type(head, TypeContent::Enum(variants), &arguments)
                }),
                item => others.push(item),
            }
        }
        problems.end()?;
        Ok(Self {
            arguments,
            attributes: module.attrs,
            visibility: module.vis,
            name: module.ident,
            types,
            others,
        })
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &KindAttributes> {
        self.types.iter().filter_map(|ty| ty.kind.as_ref())
    }
}

impl VersionedType {
    /// Returns the field list of a struct, or the field list of each variant with the variant's history.
    pub(crate) fn field_lists(&self) -> impl Iterator<Item = (Option<&History>, &FieldList)> {
        let (list, variants) = match &self.shape {
            TypeContent::Struct(list) => (Some((None, list)), &[][..]),
            TypeContent::Enum(variants) => (None, &variants[..]),
        };
        let variants = variants.iter().map(|one| (Some(&one.history), &one.fields));
        list.into_iter().chain(variants)
    }
}

impl FieldList {
    /// Returns the fields that exist in a version.
    pub(crate) fn of(&self, version: usize) -> impl Iterator<Item = &VersionedField> {
        let fields = self.fields.iter();
        fields.filter(move |field| field.history.exists(version))
    }
}

#[derive(Default)]
pub(crate) struct Problems(Option<Error>);

impl Problems {
    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(known) => known.combine(error),
            none => *none = Some(error),
        }
    }

    /// Adds the value that `make` returns to a list, or keeps its error.
    pub(crate) fn keep<T>(&mut self, list: &mut Vec<T>, make: impl FnOnce() -> Result<T>) {
        match make() {
            Ok(made) => list.push(made),
            Err(error) => self.add(error),
        }
    }

    pub(crate) fn end(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

fn check_generics(name: &Ident, generics: &Generics) -> Result<()> {
    if generics.params.is_empty() && generics.where_clause.is_none() {
        return Ok(());
    }
    let text = format!(
        "`{name}` is generic, and a versioned type cannot be: name the types, or move `{name}` out of the module"
    );
    Err(Error::new(generics.span(), text))
}

fn versioned_type(
    (attributes, visibility, name): (Vec<Attribute>, Visibility, Ident),
    shape: TypeContent,
    arguments: &Arguments,
) -> Result<VersionedType> {
    let label = name.to_string();
    let (_, attributes) = History::read(&attributes, &label, HistoryOwner::Type, arguments)?;
    let kind = KindAttributes::read(&name, &attributes)?;
    let made = VersionedType {
        attributes,
        visibility,
        name,
        shape,
        kind,
    };
    check_names(&made, arguments)?;
    Ok(made)
}

fn fields(fields: Fields, arguments: &Arguments) -> Result<FieldList> {
    let notation = match &fields {
        Fields::Named(_) => Notation::Named,
        Fields::Unnamed(_) => Notation::Tuple,
        Fields::Unit => Notation::Unit,
    };
    let mut list = Vec::new();
    let mut problems = Problems::default();
    for field in fields {
        problems.keep(&mut list, || {
            let subject = match field.ident {
                Some(_) => HistoryOwner::Field,
                None => HistoryOwner::Element,
            };
            let name = field.ident.as_ref().map(Ident::to_string);
            let name = name.unwrap_or_else(|| "this field".to_owned());
            let (history, attributes) = History::read(&field.attrs, &name, subject, arguments)?;
            Ok(VersionedField {
                attributes,
                visibility: field.vis,
                name: field.ident,
                ty: field.ty,
                history,
            })
        });
    }
    problems.end()?;
    Ok(FieldList {
        notation,
        fields: list,
    })
}

fn variants(variants: Vec<syn::Variant>, arguments: &Arguments) -> Result<Vec<VersionedVariant>> {
    let mut list = Vec::new();
    let mut problems = Problems::default();
    for variant in variants {
        problems.keep(&mut list, || {
            let name = variant.ident.to_string();
            let (history, attributes) =
                History::read(&variant.attrs, &name, HistoryOwner::Variant, arguments)?;
            Ok(VersionedVariant {
                attributes,
                name: variant.ident,
                fields: fields(variant.fields, arguments)?,
                discriminant: variant.discriminant.map(|(_, value)| value),
                history,
            })
        });
    }
    problems.end()?;
    Ok(list)
}

/// Checks that no version has two fields or variants with one name.
fn check_names(made: &VersionedType, arguments: &Arguments) -> Result<()> {
    for version in 0..arguments.versions.len() {
        let mut names: Vec<&Ident> = Vec::new();
        let mut check = |name| check_name(&mut names, name, &arguments.name(version));
        match &made.shape {
            TypeContent::Struct(list) => field_names(list, version).try_for_each(&mut check)?,
            TypeContent::Enum(variants) => {
                let present = variants.iter().filter(|one| one.history.exists(version));
                for variant in present {
                    check(variant.history.name(&variant.name, version))?;
                    let mut names = Vec::new();
                    field_names(&variant.fields, version).try_for_each(|name| {
                        check_name(&mut names, name, &arguments.name(version))
                    })?;
                }
            }
        }
    }
    Ok(())
}

fn field_names(list: &FieldList, version: usize) -> impl Iterator<Item = &Ident> {
    list.of(version)
        .filter_map(move |field| Some(field.history.name(field.name.as_ref()?, version)))
}

fn check_name<'a>(names: &mut Vec<&'a Ident>, name: &'a Ident, version: &str) -> Result<()> {
    if names.contains(&name) {
        let text = format!(
            "`{name}` is the name of two fields or variants in `{version}`: rename or remove one of the two in its history"
        );
        return Err(Error::new(name.span(), text));
    }
    names.push(name);
    Ok(())
}
