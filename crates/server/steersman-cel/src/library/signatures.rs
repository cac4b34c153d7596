//! Words: the signatures of functions, and their compact notation in the table of the library.

use crate::authorizer;
use crate::types::Type;

/// One signature of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    /// The name of the overload, for instance `add_string`.
    pub id: &'static str,
    pub args: Vec<Type>,
    pub result: Type,
}

/// Opaque types, and their letters in signatures.
const OPAQUE: &[(char, &str)] = &[
    ('Q', "kubernetes.Quantity"),
    ('U', "kubernetes.URL"),
    ('P', "net.IP"),
    ('C', "net.CIDR"),
    ('V', "kubernetes.Semver"),
    ('F', "kubernetes.NamedFormat"),
    ('Z', authorizer::AUTHORIZER),
    ('H', authorizer::PATH_CHECK),
    ('G', authorizer::GROUP_CHECK),
    ('R', authorizer::RESOURCE_CHECK),
    ('X', authorizer::DECISION),
];

/// Returns the type with this name, or `None` if there is no such type.
#[must_use]
pub(crate) fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "dyn" => Type::Dyn,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        name => Type::Opaque(OPAQUE.iter().find(|(_, known)| *known == name)?.1),
    })
}

/// Reads the overloads of a function: the name of each overload, then its arguments and its result.
/// A dot stands between the target of a method and the other arguments.
///
/// Types are letters: `s`tring, `i`nt, `u`int, `d`ouble, `b`ool, b`y`tes, `D`uration,
/// `T`imestamp, `n`ull, `*` dyn, `A` and `B` anything, `l` list of, `m` map of, `o` optional of,
/// `t` type of, and those of [`OPAQUE`].
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
        's' => Type::String,
        'i' => Type::Int,
        'u' => Type::Uint,
        'd' => Type::Double,
        'b' => Type::Bool,
        'y' => Type::Bytes,
        'D' => Type::Duration,
        'T' => Type::Timestamp,
        'n' => Type::Null,
        'A' => Type::Param(0),
        'B' => Type::Param(1),
        'l' => Type::list(read_type(letters)),
        'o' => Type::optional(read_type(letters)),
        't' => Type::Of(read_type(letters).into()),
        'm' => {
            let key = read_type(letters);
            Type::map(key, read_type(letters))
        }
        letter => OPAQUE
            .iter()
            .find(|(known, _)| *known == letter)
            .map_or(Type::Dyn, |(_, name)| Type::Opaque(name)),
    }
}
