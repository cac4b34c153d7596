//! Handle: the method of a builder that declares rules of RBAC.

use steersman_object::PolicyRule;

use super::{ControllerBuilder, Subject};
use crate::controller::declaration::NeededRule;

impl<P: Subject> ControllerBuilder<P> {
    /// Declares a rule of RBAC that the reconciler needs, with the reason. It sends no request and grants nothing:
    /// `cargo steersman generate` adds the rule to the role of the program, and `cargo steersman doctor` checks that the
    /// cluster grants it.
    ///
    /// The rules that follow from the declaration need no call: to read the watched kinds, to create, patch and delete
    /// objects of the owned kinds, to write the status and the finalizers of a primary kind that the program defines, and
    /// to record Events. `needs_rule` is for what the code does besides: other writes, subresources such as
    /// `pods/eviction`, and verbs that are in no request, such as `bind`, `escalate` and `impersonate`.
    ///
    /// ```
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// use steersman_controller::Controller;
    /// use steersman_object::PolicyRule;
    ///
    /// let controller = Controller::builder::<Deployment>().needs_rule(
    ///     PolicyRule::new("apps", &["deployments/scale"], &["patch"]),
    ///     "scales Deployments at night",
    /// );
    /// # let _ = controller;
    /// ```
    pub fn needs_rule(mut self, rule: PolicyRule, reason: impl Into<String>) -> Self {
        self.needed_rules.push(NeededRule::new(rule, reason.into()));
        self
    }
}
