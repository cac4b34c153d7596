//! Words: the functions and operators of expressions, and their signatures.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::authorizer;
use crate::types::Type;

/// One signature of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    /// The name of the overload, for instance `add_string`.
    pub id: &'static str,
    /// Whether the function is called as a method of its first argument.
    pub member: bool,
    pub args: Vec<Type>,
    pub result: Type,
}

/// Opaque types, and their letters in [`TABLE`].
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

/// Functions with their overloads: the overload's name, then its arguments and its result.
/// A dot stands between the target and the other arguments.
///
/// Types are letters: `s`tring, `i`nt, `u`int, `d`ouble, `b`ool, b`y`tes, `D`uration,
/// `T`imestamp, `n`ull, `*` dyn, `A` and `B` anything, `l` list of, `m` map of, `o` optional of,
/// `t` type of, and those of [`OPAQUE`].
///
/// Sources: cel-go's standard library and its extensions for strings, sets, optional values and
/// two-variable comprehensions; `apiserver/pkg/cel/library`.
const TABLE: &[(&str, &str)] = &[
    ("_?_:_", "conditional (bAA)A"),
    ("_&&_", "logical_and (bb)b"),
    ("_||_", "logical_or (bb)b"),
    ("!_", "logical_not (b)b"),
    ("@not_strictly_false", "not_strictly_false (b)b"),
    ("_==_", "equals (AA)b"),
    ("_!=_", "not_equals (AA)b"),
    (
        "_<_",
        "less_bool (bb)b less_int64 (ii)b less_int64_double (id)b less_int64_uint64 (iu)b less_uint64 (uu)b less_uint64_double (ud)b less_uint64_int64 (ui)b less_double (dd)b less_double_int64 (di)b less_double_uint64 (du)b less_string (ss)b less_bytes (yy)b less_timestamp (TT)b less_duration (DD)b",
    ),
    (
        "_<=_",
        "less_equals_bool (bb)b less_equals_int64 (ii)b less_equals_int64_double (id)b less_equals_int64_uint64 (iu)b less_equals_uint64 (uu)b less_equals_uint64_double (ud)b less_equals_uint64_int64 (ui)b less_equals_double (dd)b less_equals_double_int64 (di)b less_equals_double_uint64 (du)b less_equals_string (ss)b less_equals_bytes (yy)b less_equals_timestamp (TT)b less_equals_duration (DD)b",
    ),
    (
        "_>_",
        "greater_bool (bb)b greater_int64 (ii)b greater_int64_double (id)b greater_int64_uint64 (iu)b greater_uint64 (uu)b greater_uint64_double (ud)b greater_uint64_int64 (ui)b greater_double (dd)b greater_double_int64 (di)b greater_double_uint64 (du)b greater_string (ss)b greater_bytes (yy)b greater_timestamp (TT)b greater_duration (DD)b",
    ),
    (
        "_>=_",
        "greater_equals_bool (bb)b greater_equals_int64 (ii)b greater_equals_int64_double (id)b greater_equals_int64_uint64 (iu)b greater_equals_uint64 (uu)b greater_equals_uint64_double (ud)b greater_equals_uint64_int64 (ui)b greater_equals_double (dd)b greater_equals_double_int64 (di)b greater_equals_double_uint64 (du)b greater_equals_string (ss)b greater_equals_bytes (yy)b greater_equals_timestamp (TT)b greater_equals_duration (DD)b",
    ),
    (
        "_+_",
        "add_bytes (yy)y add_double (dd)d add_duration_duration (DD)D add_duration_timestamp (DT)T add_timestamp_duration (TD)T add_int64 (ii)i add_list (lAlA)lA add_string (ss)s add_uint64 (uu)u",
    ),
    (
        "_-_",
        "subtract_double (dd)d subtract_duration_duration (DD)D subtract_int64 (ii)i subtract_timestamp_duration (TD)T subtract_timestamp_timestamp (TT)D subtract_uint64 (uu)u",
    ),
    (
        "_*_",
        "multiply_double (dd)d multiply_int64 (ii)i multiply_uint64 (uu)u",
    ),
    (
        "_/_",
        "divide_double (dd)d divide_int64 (ii)i divide_uint64 (uu)u",
    ),
    ("_%_", "modulo_int64 (ii)i modulo_uint64 (uu)u"),
    ("-_", "negate_double (d)d negate_int64 (i)i"),
    ("@in", "in_list (AlA)b in_map (AmAB)b"),
    (
        "_[_]",
        "index_list (lAi)A index_map (mABA)B optional_list_index_int (olAi)oA optional_map_index_value (omABA)oB",
    ),
    (
        "_[?_]",
        "list_optindex_optional_int (lAi)oA optional_list_optindex_optional_int (olAi)oA map_optindex_optional_value (mABA)oB optional_map_optindex_optional_value (omABA)oB",
    ),
    (
        "size",
        "size_bytes (y)i bytes_size (y.)i size_list (lA)i list_size (lA.)i size_map (mAB)i map_size (mAB.)i size_string (s)i string_size (s.)i",
    ),
    ("type", "type (A)tA"),
    ("dyn", "to_dyn (A)*"),
    ("bool", "bool_to_bool (b)b string_to_bool (s)b"),
    ("bytes", "bytes_to_bytes (y)y string_to_bytes (s)y"),
    (
        "double",
        "double_to_double (d)d int64_to_double (i)d string_to_double (s)d uint64_to_double (u)d",
    ),
    (
        "duration",
        "duration_to_duration (D)D int64_to_duration (i)D string_to_duration (s)D",
    ),
    (
        "int",
        "int64_to_int64 (i)i double_to_int64 (d)i duration_to_int64 (D)i string_to_int64 (s)i timestamp_to_int64 (T)i uint64_to_int64 (u)i",
    ),
    (
        "string",
        "string_to_string (s)s bool_to_string (b)s bytes_to_string (y)s double_to_string (d)s duration_to_string (D)s int64_to_string (i)s timestamp_to_string (T)s uint64_to_string (u)s ip_to_string (P)s cidr_to_string (C)s",
    ),
    (
        "timestamp",
        "timestamp_to_timestamp (T)T int64_to_timestamp (i)T string_to_timestamp (s)T",
    ),
    (
        "uint",
        "uint64_to_uint64 (u)u double_to_uint64 (d)u int64_to_uint64 (i)u string_to_uint64 (s)u",
    ),
    ("contains", "contains_string (s.s)b"),
    ("endsWith", "ends_with_string (s.s)b"),
    ("startsWith", "starts_with_string (s.s)b"),
    ("matches", "matches (ss)b matches_string (s.s)b"),
    (
        "getFullYear",
        "timestamp_to_year (T.)i timestamp_to_year_with_tz (T.s)i",
    ),
    (
        "getMonth",
        "timestamp_to_month (T.)i timestamp_to_month_with_tz (T.s)i",
    ),
    (
        "getDayOfYear",
        "timestamp_to_day_of_year (T.)i timestamp_to_day_of_year_with_tz (T.s)i",
    ),
    (
        "getDayOfMonth",
        "timestamp_to_day_of_month (T.)i timestamp_to_day_of_month_with_tz (T.s)i",
    ),
    (
        "getDate",
        "timestamp_to_day_of_month_1_based (T.)i timestamp_to_day_of_month_1_based_with_tz (T.s)i",
    ),
    (
        "getDayOfWeek",
        "timestamp_to_day_of_week (T.)i timestamp_to_day_of_week_with_tz (T.s)i",
    ),
    (
        "getHours",
        "timestamp_to_hours (T.)i timestamp_to_hours_with_tz (T.s)i duration_to_hours (D.)i",
    ),
    (
        "getMinutes",
        "timestamp_to_minutes (T.)i timestamp_to_minutes_with_tz (T.s)i duration_to_minutes (D.)i",
    ),
    (
        "getSeconds",
        "timestamp_to_seconds (T.)i timestamp_to_seconds_with_tz (T.s)i duration_to_seconds (D.)i",
    ),
    (
        "getMilliseconds",
        "timestamp_to_milliseconds (T.)i timestamp_to_milliseconds_with_tz (T.s)i duration_to_milliseconds (D.)i",
    ),
    ("charAt", "string_char_at_int (s.i)s"),
    (
        "indexOf",
        "string_index_of_string (s.s)i string_index_of_string_int (s.si)i list_a_index_of_int (lA.A)i",
    ),
    (
        "lastIndexOf",
        "string_last_index_of_string (s.s)i string_last_index_of_string_int (s.si)i list_a_last_index_of_int (lA.A)i",
    ),
    ("join", "list_join (ls.)s list_join_string (ls.s)s"),
    ("lowerAscii", "string_lower_ascii (s.)s"),
    ("upperAscii", "string_upper_ascii (s.)s"),
    (
        "replace",
        "string_replace_string_string (s.ss)s string_replace_string_string_int (s.ssi)s",
    ),
    (
        "split",
        "string_split_string (s.s)ls string_split_string_int (s.si)ls",
    ),
    (
        "substring",
        "string_substring_int (s.i)s string_substring_int_int (s.ii)s",
    ),
    ("trim", "string_trim (s.)s"),
    ("format", "string_format (s.l*)s"),
    ("strings.quote", "strings_quote (s)s"),
    ("find", "string_find_string (s.s)s"),
    (
        "findAll",
        "string_find_all_string (s.s)ls string_find_all_string_int (s.si)ls",
    ),
    (
        "isSorted",
        "list_int_is_sorted_bool (li.)b list_uint_is_sorted_bool (lu.)b list_double_is_sorted_bool (ld.)b list_bool_is_sorted_bool (lb.)b list_string_is_sorted_bool (ls.)b list_bytes_is_sorted_bool (ly.)b list_timestamp_is_sorted_bool (lT.)b list_duration_is_sorted_bool (lD.)b",
    ),
    (
        "sum",
        "list_int_sum_int (li.)i list_uint_sum_uint (lu.)u list_double_sum_double (ld.)d list_duration_sum_duration (lD.)D",
    ),
    (
        "min",
        "list_int_min_int (li.)i list_uint_min_uint (lu.)u list_double_min_double (ld.)d list_bool_min_bool (lb.)b list_string_min_string (ls.)s list_bytes_min_bytes (ly.)y list_timestamp_min_timestamp (lT.)T list_duration_min_duration (lD.)D",
    ),
    (
        "max",
        "list_int_max_int (li.)i list_uint_max_uint (lu.)u list_double_max_double (ld.)d list_bool_max_bool (lb.)b list_string_max_string (ls.)s list_bytes_max_bytes (ly.)y list_timestamp_max_timestamp (lT.)T list_duration_max_duration (lD.)D",
    ),
    ("slice", "list_slice (lA.ii)lA"),
    ("flatten", "list_flatten (llA.)lA list_flatten_int (l*.i)l*"),
    (
        "sort",
        "list_int_sort (li.)li list_uint_sort (lu.)lu list_double_sort (ld.)ld list_bool_sort (lb.)lb list_duration_sort (lD.)lD list_timestamp_sort (lT.)lT list_string_sort (ls.)ls list_bytes_sort (ly.)ly",
    ),
    (
        "@sortByAssociatedKeys",
        "list_int_sortByAssociatedKeys (lA.li)lA list_uint_sortByAssociatedKeys (lA.lu)lA list_double_sortByAssociatedKeys (lA.ld)lA list_bool_sortByAssociatedKeys (lA.lb)lA list_duration_sortByAssociatedKeys (lA.lD)lA list_timestamp_sortByAssociatedKeys (lA.lT)lA list_string_sortByAssociatedKeys (lA.ls)lA list_bytes_sortByAssociatedKeys (lA.ly)lA",
    ),
    ("lists.range", "lists_range (i)li"),
    ("reverse", "list_reverse (lA.)lA"),
    ("distinct", "list_distinct (lA.)lA"),
    ("sets.contains", "list_sets_contains_list (lAlA)b"),
    ("sets.equivalent", "list_sets_equivalent_list (lAlA)b"),
    ("sets.intersects", "list_sets_intersects_list (lAlA)b"),
    (
        "cel.@mapInsert",
        "@mapInsert_map_key_value (mABAB)mAB @mapInsert_map_map (mABmAB)mAB",
    ),
    ("optional.of", "optional_of (A)oA"),
    ("optional.ofNonZeroValue", "optional_ofNonZeroValue (A)oA"),
    ("optional.none", "optional_none ()oA"),
    ("hasValue", "optional_hasValue (oA.)b"),
    ("value", "optional_value (oA.)A"),
    ("or", "optional_or_optional (oA.oA)oA"),
    ("orValue", "optional_orValue_value (oA.A)A"),
    ("first", "list_first (lA.)oA"),
    ("last", "list_last (lA.)oA"),
    ("optional.unwrap", "optional_unwrap (loA)lA"),
    ("unwrapOpt", "optional_unwrapOpt (loA.)lA"),
    ("url", "string_to_url (s)U"),
    ("isURL", "is_url_string (s)b"),
    ("getScheme", "url_get_scheme (U.)s"),
    ("getHost", "url_get_host (U.)s"),
    ("getHostname", "url_get_hostname (U.)s"),
    ("getPort", "url_get_port (U.)s"),
    ("getEscapedPath", "url_get_escaped_path (U.)s"),
    ("getQuery", "url_get_query (U.)msls"),
    ("ip", "string_to_ip (s)P cidr_ip (C.)P"),
    ("isIP", "is_ip (s)b"),
    ("ip.isCanonical", "ip_is_canonical (s)b"),
    ("family", "family (P.)i"),
    ("isUnspecified", "is_unspecified (P.)b"),
    ("isLoopback", "is_loopback (P.)b"),
    ("isLinkLocalMulticast", "is_link_local_multicast (P.)b"),
    ("isLinkLocalUnicast", "is_link_local_unicast (P.)b"),
    ("isGlobalUnicast", "is_global_unicast (P.)b"),
    ("cidr", "string_to_cidr (s)C"),
    ("isCIDR", "is_cidr (s)b"),
    (
        "containsIP",
        "cidr_contains_ip_string (C.s)b cidr_contains_ip_ip (C.P)b",
    ),
    (
        "containsCIDR",
        "cidr_contains_cidr_string (C.s)b cidr_contains_cidr (C.C)b",
    ),
    ("masked", "masked (C.)C"),
    ("prefixLength", "prefix_length (C.)i"),
    ("quantity", "string_to_quantity (s)Q"),
    ("isQuantity", "is_quantity_string (s)b"),
    ("sign", "quantity_sign (Q)i"),
    (
        "isGreaterThan",
        "quantity_is_greater_than (Q.Q)b semver_is_greater_than (V.V)b",
    ),
    (
        "isLessThan",
        "quantity_is_less_than (Q.Q)b semver_is_less_than (V.V)b",
    ),
    (
        "compareTo",
        "quantity_compare_to (Q.Q)i semver_compare_to (V.V)i",
    ),
    ("asApproximateFloat", "quantity_get_float (Q.)d"),
    ("asInteger", "quantity_get_int (Q.)i"),
    ("isInteger", "quantity_is_integer (Q.)b"),
    ("add", "quantity_add (Q.Q)Q quantity_add_int (Q.i)Q"),
    ("sub", "quantity_sub (Q.Q)Q quantity_sub_int (Q.i)Q"),
    (
        "semver",
        "string_to_semver (s)V string_bool_to_semver (sb)V",
    ),
    (
        "isSemver",
        "is_semver_string (s)b is_semver_string_bool (sb)b",
    ),
    ("major", "semver_major (V.)i"),
    ("minor", "semver_minor (V.)i"),
    ("patch", "semver_patch (V.)i"),
    ("format.named", "format_named (s)oF"),
    ("validate", "format_validate (F.s)ols"),
    ("format.dns1123Label", "format_dns1123Label ()F"),
    ("format.dns1123Subdomain", "format_dns1123Subdomain ()F"),
    ("format.dns1035Label", "format_dns1035Label ()F"),
    ("format.qualifiedName", "format_qualifiedName ()F"),
    ("format.dns1123LabelPrefix", "format_dns1123LabelPrefix ()F"),
    (
        "format.dns1123SubdomainPrefix",
        "format_dns1123SubdomainPrefix ()F",
    ),
    ("format.dns1035LabelPrefix", "format_dns1035LabelPrefix ()F"),
    ("format.labelValue", "format_labelValue ()F"),
    ("format.uri", "format_uri ()F"),
    ("format.uuid", "format_uuid ()F"),
    ("format.byte", "format_byte ()F"),
    ("format.date", "format_date ()F"),
    ("format.datetime", "format_datetime ()F"),
    ("path", "authorizer_path (Z.s)H"),
    ("group", "authorizer_group (Z.s)G"),
    ("serviceAccount", "authorizer_serviceaccount (Z.ss)Z"),
    ("resource", "groupcheck_resource (G.s)R"),
    ("subresource", "resourcecheck_subresource (R.s)R"),
    ("namespace", "resourcecheck_namespace (R.s)R"),
    ("name", "resourcecheck_name (R.s)R"),
    ("fieldSelector", "authorizer_fieldselector (R.s)R"),
    ("labelSelector", "authorizer_labelselector (R.s)R"),
    ("check", "pathcheck_check (H.s)X resourcecheck_check (R.s)X"),
    ("allowed", "decision_allowed (X.)b"),
    ("reason", "decision_reason (X.)s"),
    ("errored", "decision_errored (X.)b"),
    ("error", "decision_error (X.)s"),
    (
        "jsonpatch.escapeKey",
        "string_jsonpatch_escapeKey_string (s)s",
    ),
];

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let read = |signature: &'static str| {
        let words: Vec<&'static str> = signature.split(' ').collect();
        words
            .chunks_exact(2)
            .map(|pair| overload(pair[0], pair[1]))
            .collect()
    };
    TABLE
        .iter()
        .map(|(name, signature)| (*name, read(signature)))
        .collect()
});

/// Returns the overloads of a function, or `None` if there is no such function.
#[must_use]
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// Returns the names of all functions and operators.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

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

fn overload(id: &'static str, signature: &str) -> Overload {
    let (args, result) = signature.split_once(')').unwrap_or((signature, "*"));
    let mut args = args.trim_start_matches('(').chars();
    let mut types = Vec::new();
    let mut member = false;
    while !args.as_str().is_empty() {
        if args.as_str().starts_with('.') {
            member = true;
            args.next();
        } else {
            types.push(read_type(&mut args));
        }
    }
    Overload {
        id,
        member,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_overloads_is_parsed_completely() {
        let printed = |name: &str, id: &str| {
            let found = overloads(name).unwrap().iter().find(|one| one.id == id);
            let found = found.unwrap();
            let args: Vec<String> = found.args.iter().map(Type::to_string).collect();
            format!("{} ({}) {}", found.member, args.join(", "), found.result)
        };
        assert_eq!(
            printed("@in", "in_map"),
            "false (_var0, map(_var0, _var1)) bool"
        );
        assert_eq!(printed("size", "string_size"), "true (string) int");
        assert_eq!(
            printed("join", "list_join_string"),
            "true (list(string), string) string"
        );
        assert_eq!(
            printed("optional.none", "optional_none"),
            "false () optional_type(_var0)"
        );
        assert_eq!(
            printed("getQuery", "url_get_query"),
            "true (kubernetes.URL) map(string, list(string))"
        );
        for (name, signatures) in TABLE {
            assert_eq!(signatures.split(' ').count() % 2, 0, "{name}");
        }
    }

    #[test]
    fn the_guide_lists_every_function_with_its_version() {
        let page = include_str!("../../guide/expressions.md");
        for (name, _) in TABLE {
            let is_operator = name.starts_with(['_', '@', '!', '-']) || name.starts_with("cel.@");
            let listed = [format!("`{name}`"), format!("`.{name}`")];
            let found = listed.iter().any(|name| page.contains(name));
            assert!(is_operator || found, "{name}");
        }
    }
}
