//! Machine: the approval that a definition in a group of the Kubernetes project needs.

use serde_json::Value;
use steersman_apimachinery::{conditions, go};

use crate::fields::FieldPath;

/// Groups that belong to the Kubernetes project.
const PROTECTED: &[&str] = &["k8s.io", "kubernetes.io"];

/// The annotation that a definition in a protected group needs.
const APPROVED: &str = "api-approved.kubernetes.io";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Approval {
    Missing,
    Invalid,
    Given,
    Bypassed,
}

impl Approval {
    pub(super) fn of(crd: &Value) -> Self {
        match annotation(crd) {
            "" => Self::Missing,
            found if found.starts_with("unapproved") => Self::Bypassed,
            found => {
                let url = found.split_once("://");
                let given = url.is_some_and(|(scheme, rest)| {
                    !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/')
                });
                if given { Self::Given } else { Self::Invalid }
            }
        }
    }

    /// Returns the reason and the message of the condition.
    fn words(self, crd: &Value) -> (&'static str, String) {
        const MORE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
        let annotation = annotation(crd);
        match self {
            Self::Missing => (
                "MissingAnnotation",
                format!("protected groups must have approval annotation \"{APPROVED}\", {MORE}"),
            ),
            Self::Invalid => (
                "InvalidAnnotation",
                format!(
                    "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason starting with \"unapproved\", {MORE}"
                ),
            ),
            Self::Given => ("ApprovedAnnotation", format!("approved in {annotation}")),
            Self::Bypassed => (
                "UnapprovedAnnotation",
                format!("not approved: {}", go::quote(annotation)),
            ),
        }
    }
}

/// Checks that a new definition, or one with another state of approval, has a valid annotation.
pub(super) fn check(root: &FieldPath<'_>, old: Option<&Value>) {
    let crd = root.value();
    let approval = Approval::of(crd);
    if !is_protected(crd) || old.is_some_and(|old| Approval::of(old) == approval) {
        return;
    }
    let note = root.down("metadata.annotations").key(APPROVED);
    let (_, detail) = approval.words(crd);
    match approval {
        Approval::Missing => note.required(&detail),
        Approval::Invalid => note.invalid_text(&detail),
        Approval::Given | Approval::Bypassed => {}
    }
}

/// Sets the condition about the approval of a definition in a protected group.
///
/// Source: `calculateCondition` of apiextensions-apiserver's `apiapproval` controller.
pub fn set_approval(crd: &mut Value, now: &str) {
    if !is_protected(crd) {
        return;
    }
    let approval = Approval::of(crd);
    let (reason, message) = approval.words(crd);
    let kind = "KubernetesAPIApprovalPolicyConformant";
    let is_given = approval == Approval::Given;
    conditions::set(crd, kind, is_given, (reason, &message), now);
}

fn annotation(crd: &Value) -> &str {
    let found = crd["metadata"]["annotations"][APPROVED].as_str();
    found.unwrap_or_default()
}

fn is_protected(crd: &Value) -> bool {
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    PROTECTED.iter().any(|owner| {
        group
            .strip_suffix(owner)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}
