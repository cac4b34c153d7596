//! Words: the declaration of a controller: its name, its kinds and the RBAC rules that it needs.

use steersman_object::{Kind, PolicyRule};

/// The declaration of a controller, from which its rules of RBAC follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerDeclaration {
    /// The name of the controller, as in logs and metrics.
    pub name: String,
    /// The kind of the objects that the requests are about; `None` for [`Controller::keyed`](crate::Controller::keyed).
    pub primary: Option<Kind>,
    /// The kinds declared as owned, with [`owns`](crate::ControllerBuilder::owns),
    /// [`Watch::owned`](crate::Watch::owned) or [`Watch::owned_kind`](crate::Watch::owned_kind).
    pub owned: Vec<Kind>,
    /// Every kind that the controller watches in the cluster of the manager, owned and optional kinds included.
    pub watched: Vec<Kind>,
    /// The RBAC rules that the controller's own code needs, declared with
    /// [`needs_rule`](crate::ControllerBuilder::needs_rule).
    pub needed_rules: Vec<NeededRule>,
}

/// A rule of RBAC that the code of a controller needs, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NeededRule {
    /// The permission, as a rule of a Role or ClusterRole.
    pub rule: PolicyRule,
    /// Why the controller needs the rule, as in "scales Deployments at night".
    pub reason: String,
}
