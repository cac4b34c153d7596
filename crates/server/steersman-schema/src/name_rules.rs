//! Words: the rule that names of each built-in kind obey, with its source.

use steersman_apimachinery::names::NameRule;
use steersman_apimachinery::names::NameRule::{IpAddress, Label, PathSegment, Subdomain};

/// Returns the name rule of a built-in kind of a group (empty for core).
///
/// The source is a function below `pkg/apis/<group>/validation` of Kubernetes, unless it is given
/// with its path; `generateName` is checked by the same function. Most kinds have a function such
/// as `ValidateConfigMapName`, which is `NameIsDNSSubdomain`. Where upstream has no rule, as for
/// kinds without stored objects, `rest.BeforeCreate` wants a path segment.
pub(crate) fn name_rule(group: &str, kind: &str, is_stored: bool) -> NameRule {
    match (group, kind) {
        _ if !is_stored => PathSegment,
        // core/validation/events.go: ValidateEventCreate does not check names of core/v1.
        ("", "Event") => PathSegment,
        // core: ValidateNamespaceName.
        ("", "Namespace") => Label,
        // core: ValidateServiceName with RelaxedServiceNameValidation, on since 1.36.
        ("", "Service") => Label,
        // kube-aggregator/pkg/apis/apiregistration/validation: and "version.group".
        ("apiregistration.k8s.io", "APIService") => PathSegment,
        // apps: ValidateStatefulSetName.
        ("apps", "StatefulSet") => Label,
        // certificates: ValidateCertificateRequestName accepts every name.
        ("certificates.k8s.io", "CertificateSigningRequest") => PathSegment,
        // networking: ValidateIPAddressName.
        ("networking.k8s.io", "IPAddress") => IpAddress,
        // policy: ValidatePodDisruptionBudget checks only the spec.
        ("policy", "PodDisruptionBudget") => PathSegment,
        // rbac: ValidateRBACName.
        ("rbac.authorization.k8s.io", _) => PathSegment,
        // storage: ValidateCSIDriver has a rule of its own, and reports the field "name".
        ("storage.k8s.io", "CSIDriver") => PathSegment,
        // batch: for CronJobs with at most 52 characters. apiextensions: and "plural.group".
        _ => Subdomain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::built_in;
    use steersman_apimachinery::names;

    /// Returns whether objects of a core kind are created but not kept, or not created at all.
    fn is_nameless(kind: &str) -> bool {
        matches!(kind, "Binding" | "ComponentStatus") || kind.ends_with("Review")
    }

    #[test]
    fn kinds_without_stored_objects_take_path_segments_and_most_others_subdomains() {
        let all = built_in();
        for resource in all.iter().filter(|one| is_nameless(&one.kind)) {
            assert_eq!(resource.names, PathSegment, "{}", resource.kind);
        }
        let stored = all.iter().filter(|one| !is_nameless(&one.kind));
        let others = stored.filter(|one| one.names != Subdomain);
        let mut others: Vec<&str> = others.map(|one| &*one.kind).collect();
        others.sort_unstable();
        let expected = [
            "APIService", "CSIDriver", "CertificateSigningRequest", "ClusterRole",
            "ClusterRoleBinding", "Event", "IPAddress", "Namespace", "PodDisruptionBudget", "Role",
            "RoleBinding", "Service", "StatefulSet",
        ];
        assert_eq!(others, expected);
    }

    /// A text, the rules that accept it as a name, and the rules that accept it as a prefix.
    type Case<'a> = (&'a str, &'a [NameRule], &'a [NameRule]);

    #[test]
    fn each_rule_accepts_its_names_and_prefixes() {
        let long = "a".repeat(64);
        let cases: [Case<'_>; 10] = [
            (
                "shop",
                &[Subdomain, Label, PathSegment],
                &[Subdomain, Label, PathSegment],
            ),
            ("shop-", &[PathSegment], &[Subdomain, Label, PathSegment]),
            ("shop.", &[PathSegment], &[PathSegment]),
            (
                "shop.a",
                &[Subdomain, PathSegment],
                &[Subdomain, PathSegment],
            ),
            ("Shop_1", &[PathSegment], &[PathSegment]),
            (&long, &[Subdomain, PathSegment], &[Subdomain, PathSegment]),
            ("a%b", &[], &[]),
            ("..", &[], &[PathSegment]),
            (
                "2001:db8::1",
                &[PathSegment, IpAddress],
                &[PathSegment, IpAddress],
            ),
            (
                "10.0.0.1",
                &[Subdomain, PathSegment, IpAddress],
                &[Subdomain, PathSegment, IpAddress],
            ),
        ];
        for (name, good, good_prefix) in cases {
            for rule in [Subdomain, Label, PathSegment, IpAddress] {
                let wrong = names::check_name(rule, name);
                assert_eq!(
                    wrong.is_empty(),
                    good.contains(&rule),
                    "{rule:?} {name}: {wrong:?}"
                );
                let wrong = names::check_prefix(rule, name);
                let is_good = good_prefix.contains(&rule);
                assert_eq!(wrong.is_empty(), is_good, "{rule:?} {name}: {wrong:?}");
            }
        }
    }

    #[test]
    fn only_canonical_addresses_are_valid_names() {
        let message = |name: &str| names::check_name(IpAddress, name).join("");
        let invalid = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        assert_eq!(message("shop"), invalid);
        assert_eq!(message("10.0.0.256"), invalid);
        assert_eq!(message("010.0.0.1"), "must not have leading 0s");
        assert_eq!(
            message("::ffff:10.0.0.1"),
            "must not be an IPv4-mapped IPv6 address"
        );
        assert_eq!(
            message("2001:DB8::1"),
            "must be in canonical form (\"2001:db8::1\")"
        );
    }
}
