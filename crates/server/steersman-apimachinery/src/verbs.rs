//! Words: the verbs of permissions, in the order in which rules list them.

/// The verbs on objects, in the order in which rules of permissions list them. Other verbs follow alphabetically.
pub const VERBS: [&str; 8] = [
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
];

/// Returns the position of a verb in a rule. All verbs that are not in [`VERBS`] share the position behind these.
///
/// ```
/// use steersman_apimachinery::verbs::position;
///
/// let mut verbs = ["bind", "watch", "get"];
/// verbs.sort_by_key(|verb| (position(verb), *verb));
/// assert_eq!(verbs, ["get", "watch", "bind"]);
/// ```
pub fn position(verb: &str) -> usize {
    let known = VERBS.iter().position(|known| *known == verb);
    known.unwrap_or(VERBS.len())
}
