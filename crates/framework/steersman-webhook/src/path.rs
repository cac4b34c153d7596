//! Words: the paths of webhooks, as kubebuilder writes them into configurations.

use steersman_object::Gvk;

/// Returns the path of the defaulter of a kind: `/mutate-batch-v1-cronjob`, `/mutate--v1-pod`.
#[must_use]
pub fn mutate_path(kind: &Gvk) -> String {
    path("mutate", kind)
}

/// Returns the path of the validator of a kind: `/validate-apps-example-com-v1-website`.
#[must_use]
pub fn validate_path(kind: &Gvk) -> String {
    path("validate", kind)
}

fn path(verb: &str, kind: &Gvk) -> String {
    let group = kind.group().replace('.', "-");
    let (version, name) = (kind.version(), kind.kind().to_lowercase());
    format!("/{verb}-{group}-{version}-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_kubebuilder() {
        let website = Gvk::new("apps.example.com", "v1", "Website");
        assert_eq!(mutate_path(&website), "/mutate-apps-example-com-v1-website");
        assert_eq!(
            validate_path(&Gvk::new("", "v1", "Pod")),
            "/validate--v1-pod"
        );
    }
}
