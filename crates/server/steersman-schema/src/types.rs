//! Words: `TypeRef`, the type of a value in an object: one view of Kubernetes' own types and of
//! custom schemas, for patches that merge by type.

mod table;
mod go;
mod base64;
mod decode;
mod zeros;
mod openapi;
mod descriptions;

use std::borrow::Cow;

use steersman_cel::structural::{Additional, Structural};

use super::resource::Resource;

pub use decode::{decode, decode_metadata};
pub use descriptions::Descriptions;
pub use go::{type_name, type_word};
pub use openapi::{describe, describe_named};
use table::{Type, TypeNode};
pub use zeros::{drop_zeros, has_empty, write_always};

/// The type of one value in an object. It borrows the schema and is cheap to copy.
#[derive(Debug, Clone, Copy)]
pub struct TypeRef<'a>(TypeForm<'a>);

#[derive(Debug, Clone, Copy)]
enum TypeForm<'a> {
    /// A built-in struct, and whether it has one owner.
    Struct(&'static Type, bool),
    /// A scalar, list or map in a built-in struct.
    Node(&'static TypeNode),
    /// A value that a custom schema describes. `root` marks the object itself or an embedded
    /// object, and `open` a value for which the schema, or one above it, preserves unknown fields.
    Custom {
        schema: &'a Structural,
        root: bool,
        open: bool,
    },
    Any {
        granular: bool,
    },
}

/// The shape of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueShape {
    /// A single value, replaced as a whole.
    Scalar(Scalar),
    /// Named fields, see [`TypeRef::field`].
    Struct,
    /// Free keys with values of one type, see [`TypeRef::field`].
    Map,
    /// A list of values of one type, see [`TypeRef::items`] and [`TypeRef::list`].
    List,
    /// No type is known: maps merge unless [`TypeRef::is_atomic_map`], lists are atomic.
    Any,
}

/// The type of a single value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A string. Times and quantities of built-in types have shapes of their own.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// Base64 text.
    Bytes,
    /// RFC 3339 text.
    Time,
    /// A quantity: a string or a number.
    Quantity,
    /// A string or a whole number.
    IntOrString,
}

/// How the elements of a list are identified when several managers share the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind<'a> {
    /// The list has one owner and is replaced as a whole.
    Atomic,
    /// Each element is its own identity.
    Set,
    /// Elements are identified by these fields, in the schema's order.
    Map(&'a [String]),
}

/// How a strategic merge patch changes a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListPatch<'a> {
    /// The list of the patch replaces the list.
    Replace,
    /// Elements with the same value of this field are merged.
    MergeBy(&'a str),
    /// Elements are single values; values that are not in the list are added.
    Union,
}

impl<'a> TypeRef<'a> {
    /// Returns the type of a resource's objects.
    #[must_use]
    pub fn of(resource: &'a Resource) -> Self {
        if let Some(schema) = resource.structural() {
            return Self::custom(schema, true);
        }
        let found = table::kind(&resource.api_version(), &resource.kind);
        found.map_or(Self::untyped(), Self::built_in_struct)
    }

    /// Returns the type of a built-in kind, for instance `autoscaling/v1` and `Scale`.
    #[must_use]
    pub fn built_in(api_version: &str, kind: &str) -> Option<TypeRef<'static>> {
        table::kind(api_version, kind).map(TypeRef::built_in_struct)
    }

    /// Returns the type that a custom schema describes. `root` marks the object itself or an embedded object.
    #[must_use]
    pub fn custom(schema: &'a Structural, root: bool) -> Self {
        Self::below(schema, root, false)
    }

    /// Returns the type of a value inside one for which a schema preserves unknown fields, if `open`
    /// is set. Typed merges preserve them at every level below, although pruning does not.
    ///
    /// Source: `visitSpec` of kube-openapi's `schemaconv`, which passes the flag on.
    fn below(schema: &'a Structural, root: bool, open: bool) -> Self {
        let open = open || schema.preserve_unknown;
        Self(TypeForm::Custom { schema, root, open })
    }

    /// Returns the type of a value without a schema: maps merge by key, lists are atomic.
    #[must_use]
    pub const fn untyped() -> Self {
        Self(TypeForm::Any { granular: true })
    }

    /// Returns the last part of a built-in struct's name, for instance `PodSpec`; `None` for other types.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self.0 {
            TypeForm::Struct(found, _) => found.name.rsplit('.').next(),
            _ => None,
        }
    }

    /// Returns whether the type comes from a custom schema or is unknown, so that no built-in type describes the value.
    #[must_use]
    pub fn is_custom(self) -> bool {
        matches!(
            self.0,
            TypeForm::Custom { .. } | TypeForm::Any { granular: true }
        )
    }

    /// Returns the shape of the value.
    #[must_use]
    pub fn shape(self) -> ValueShape {
        match self.0 {
            TypeForm::Struct(..) => ValueShape::Struct,
            TypeForm::Node(TypeNode::Scalar(scalar)) => ValueShape::Scalar(*scalar),
            TypeForm::Node(TypeNode::Int32) => ValueShape::Scalar(Scalar::Integer),
            TypeForm::Node(TypeNode::List { .. }) => ValueShape::List,
            TypeForm::Node(TypeNode::Map { .. }) => ValueShape::Map,
            TypeForm::Node(TypeNode::Ref(_) | TypeNode::Any) | TypeForm::Any { .. } => {
                ValueShape::Any
            }
            TypeForm::Custom { schema, root, .. } => custom_shape(schema, root),
        }
    }

    /// Returns the type of the field with this name, or of the value under a free key; `None` for an undeclared field.
    #[must_use]
    pub fn field(self, name: &str) -> Option<Self> {
        match self.0 {
            TypeForm::Struct(found, _) => found.fields.get(name).map(Self::node),
            TypeForm::Node(TypeNode::Map { values, .. }) => Some(Self::node(values)),
            TypeForm::Any { .. } => Some(self),
            TypeForm::Node(_) => None,
            TypeForm::Custom { schema, root, open } => custom_field(schema, (root, open), name),
        }
    }

    /// Returns whether the type declares this field by name. Free keys do not count.
    #[must_use]
    pub fn declares(self, name: &str) -> bool {
        match self.0 {
            TypeForm::Struct(found, _) => found.fields.contains_key(name),
            TypeForm::Custom { schema, root, .. } => {
                schema.properties.contains(name)
                    || (root && matches!(name, "apiVersion" | "kind" | "metadata"))
            }
            _ => false,
        }
    }

    /// Returns the type of a list's elements; untyped if this type is not a list.
    #[must_use]
    pub fn items(self) -> Self {
        match self.0 {
            TypeForm::Node(TypeNode::List { items, .. }) => Self::node(items),
            TypeForm::Custom { schema, open, .. } => match schema.items.as_deref() {
                Some(items) => Self::below(items, items.embedded, open),
                None => Self::untyped(),
            },
            _ => Self::untyped(),
        }
    }

    /// Returns how the elements of a list are identified; atomic if this type is not a list.
    #[must_use]
    pub fn list(self) -> ListKind<'a> {
        match self.0 {
            TypeForm::Node(TypeNode::List { kind, .. }) => *kind,
            TypeForm::Custom { schema, .. } => match schema.rules.list_type.as_str() {
                "set" => ListKind::Set,
                "map" => ListKind::Map(&schema.rules.list_map_keys),
                _ => ListKind::Atomic,
            },
            _ => ListKind::Atomic,
        }
    }

    /// Returns whether a struct or map has one owner and is replaced as a whole. Otherwise each member has an owner.
    #[must_use]
    pub fn is_atomic_map(self) -> bool {
        match self.0 {
            TypeForm::Struct(_, atomic) => atomic,
            TypeForm::Node(TypeNode::Map { atomic, .. }) => *atomic,
            TypeForm::Node(_) => true,
            TypeForm::Any { granular } => !granular,
            TypeForm::Custom { schema, .. } => schema.rules.map_type == "atomic",
        }
    }

    /// Returns the default of a key field that an element of this list omits, such as `TCP` for a port's protocol.
    #[must_use]
    pub fn key_default(self, key: &str) -> Option<Cow<'a, serde_json::Value>> {
        match self.0 {
            TypeForm::Node(TypeNode::List { defaults, .. }) => {
                let (_, default) = defaults.iter().find(|(one, _)| *one == key)?;
                Some(Cow::Owned((*default).into()))
            }
            TypeForm::Custom { schema, .. } => {
                let items = schema.items.as_deref()?;
                let default = items.properties.get(key)?.default.as_ref()?;
                Some(Cow::Borrowed(default))
            }
            _ => None,
        }
    }

    /// Returns how a strategic merge patch changes this list.
    #[must_use]
    pub fn list_patch(self) -> ListPatch<'static> {
        match self.0 {
            TypeForm::Node(TypeNode::List { patch, .. }) => *patch,
            _ => ListPatch::Replace,
        }
    }

    fn built_in_struct(found: &'static Type) -> Self {
        Self(TypeForm::Struct(found, found.atomic))
    }

    fn node(node: &'static TypeNode) -> Self {
        match node {
            TypeNode::Ref(named) => match named.ty() {
                Some(found) => Self(TypeForm::Struct(found, found.atomic && !named.granular)),
                None => Self(TypeForm::Any { granular: false }),
            },
            TypeNode::Any => Self(TypeForm::Any { granular: false }),
            other => Self(TypeForm::Node(other)),
        }
    }
}

/// Returns the shape of a value with a custom schema, as typed merges see it. A schema without a type accepts every
/// value there, and so does a string of a format every scalar: validation refuses what does not fit.
///
/// Source: `parseSchema` and `convertPrimitive` of kube-openapi's `schemaconv`.
fn custom_shape(schema: &Structural, root: bool) -> ValueShape {
    match &*schema.kind {
        "string" if matches!(&*schema.format, "" | "byte") => ValueShape::Scalar(Scalar::String),
        "string" => ValueShape::Scalar(Scalar::IntOrString),
        "integer" => ValueShape::Scalar(Scalar::Integer),
        "number" => ValueShape::Scalar(Scalar::Number),
        "boolean" => ValueShape::Scalar(Scalar::Boolean),
        "array" => ValueShape::List,
        _ if root => ValueShape::Struct,
        "object" if is_map(schema) => ValueShape::Map,
        "object" => ValueShape::Struct,
        _ => ValueShape::Any,
    }
}

/// Returns whether the schema of an object declares no field by name.
fn is_map(schema: &Structural) -> bool {
    schema.properties.is_empty() && !schema.embedded
}

fn custom_field<'a>(
    schema: &'a Structural,
    (root, open): (bool, bool),
    name: &str,
) -> Option<TypeRef<'a>> {
    if root || schema.embedded {
        match name {
            "metadata" => return table::named("meta.v1.ObjectMeta").map(TypeRef::built_in_struct),
            "apiVersion" | "kind" => {
                return Some(TypeRef(TypeForm::Node(&TypeNode::Scalar(Scalar::String))));
            }
            _ => {}
        }
    }
    if let Some(field) = schema.properties.get(name) {
        return Some(TypeRef::below(field, field.embedded, open));
    }
    match &schema.additional {
        Additional::Schema(values) => Some(TypeRef::below(values, values.embedded, open)),
        Additional::Any => Some(TypeRef::untyped()),
        // An object of which the schema declares no field is free-form.
        Additional::None if open || (!root && is_map(schema)) => Some(TypeRef::untyped()),
        Additional::None => None,
    }
}

#[cfg(test)]
mod tests;
