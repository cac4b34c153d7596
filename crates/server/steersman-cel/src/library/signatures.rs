//! Words: the signatures of functions, and their notation in the tables of the library: `size_string (s)i`.

use crate::authorizer;
use crate::types::Type;

#[derive(Debug)]
pub(crate) struct Overload {
    /// The name of the overload in cel-go, for instance `add_string`.
    pub id: &'static str,
    pub args: Vec<Type>,
    pub result: Type,
}

/// The types without type parameters, each with its letter in the notation of signatures.
const TYPES: &[(char, Type)] = &[
    ('*', Type::Dyn),
    ('n', Type::Null),
    ('b', Type::Bool),
    ('i', Type::Int),
    ('u', Type::Uint),
    ('d', Type::Double),
    ('s', Type::String),
    ('y', Type::Bytes),
    ('D', Type::Duration),
    ('T', Type::Timestamp),
    ('Q', Type::Opaque("kubernetes.Quantity")),
    ('U', Type::Opaque("kubernetes.URL")),
    ('P', Type::Opaque("net.IP")),
    ('C', Type::Opaque("net.CIDR")),
    ('V', Type::Opaque("kubernetes.Semver")),
    ('F', Type::Opaque("kubernetes.NamedFormat")),
    ('Z', Type::Opaque(authorizer::AUTHORIZER)),
    ('H', Type::Opaque(authorizer::PATH_CHECK)),
    ('G', Type::Opaque(authorizer::GROUP_CHECK)),
    ('R', Type::Opaque(authorizer::RESOURCE_CHECK)),
    ('X', Type::Opaque(authorizer::DECISION)),
];

pub(crate) fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "optional_type" => Type::optional(Type::Dyn),
        name => {
            let (_, found) = TYPES.iter().find(|(_, known)| known.name() == name)?;
            found.clone()
        }
    })
}

/// Reads a function's overloads: name, arguments in parentheses, and result. A dot follows the target of a method.
///
/// Each type is a letter: those of [`TYPES`], `A` and `B` for type parameters, `l` for a list of the next type, `m` for
/// a map, `o` for an optional, and `t` for a type as a value.
pub(super) fn overloads(signatures: &'static str) -> Vec<Overload> {
    let words: Vec<&'static str> = signatures.split(' ').collect();
    let pairs = words.chunks_exact(2);
    pairs.map(|pair| overload(pair[0], pair[1])).collect()
}

fn overload(id: &'static str, signature: &str) -> Overload {
    let (args, result) = signature.split_once(')').unwrap_or((signature, "*"));
    let args = args.replace(['(', '.'], "");
    let mut args = args.chars();
    let mut types = Vec::new();
    while !args.as_str().is_empty() {
        types.push(read_type(&mut args));
    }
    Overload {
        id,
        args: types,
        result: read_type(&mut result.chars()),
    }
}

fn read_type(letters: &mut std::str::Chars<'_>) -> Type {
    match letters.next().unwrap_or('*') {
        'A' => Type::Param(0),
        'B' => Type::Param(1),
        'l' => Type::list(read_type(letters)),
        'o' => Type::optional(read_type(letters)),
        't' => Type::Of(read_type(letters).into()),
        'm' => {
            let key = read_type(letters);
            Type::map(key, read_type(letters))
        }
        letter => {
            let found = TYPES.iter().find(|(known, _)| *known == letter);
            found.map_or(Type::Dyn, |(_, kind)| kind.clone())
        }
    }
}
