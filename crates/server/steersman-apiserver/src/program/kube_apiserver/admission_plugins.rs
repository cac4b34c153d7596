//! Machine: the admission plugins that flags switch on and off.

use crate::program::command_line::{CommandLine, FlagProblem};

/// The only admission plugin that flags can switch off.
const SERVICE_ACCOUNT: &str = "ServiceAccount";

const ENABLE: &str = "enable-admission-plugins";
const DISABLE: &str = "disable-admission-plugins";
const EXACT: &str = "admission-control";

/// The plugins of kube-apiserver 1.36 that this server has.
const PRESENT: &[&str] = &[
    "CertificateSigning", "DefaultIngressClass", "DefaultStorageClass", "LimitRanger",
    "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NamespaceLifecycle",
    "PersistentVolumeClaimResize", "PodSecurity", "Priority", "ResourceQuota", "RuntimeClass",
    SERVICE_ACCOUNT, "StorageObjectInUseProtection", "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

const ABSENT: &[&str] = &[
    "AlwaysDeny",
    "AlwaysPullImages",
    "CertificateApproval",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultTolerationSeconds",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeDeclaredFeatureValidator",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "PodTopologyLabels",
    "TaintNodesByCondition",
];

/// A plugin that is known but has no effect, not even in kube-apiserver, so no warning says that it is missing.
const NO_EFFECT: &str = "AlwaysAdmit";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct AdmissionPlugins {
    /// Whether Pods need and mount ServiceAccounts, if the controller of accounts is simulated.
    pub(super) service_account: bool,
    pub(super) warnings: Vec<String>,
}

impl AdmissionPlugins {
    pub(super) fn of(line: &CommandLine) -> Result<Self, FlagProblem> {
        for flag in [ENABLE, DISABLE, EXACT] {
            let unknown = line.entries(flag).find(|name| !is_known(name));
            if let Some(name) = unknown {
                let why = "kube-apiserver 1.36 has no such admission plugin";
                return Err(FlagProblem::invalid(flag, name, why));
            }
        }
        let mut warnings = Vec::new();
        for flag in [ENABLE, EXACT] {
            let absent = line.entries(flag).filter(|name| ABSENT.contains(name));
            warnings.extend(absent.map(|name| {
                format!("--{flag}={name} has no effect: this server does not have the plugin")
            }));
        }
        let kept = line.entries(DISABLE);
        let kept = kept.filter(|name| PRESENT.contains(name) && *name != SERVICE_ACCOUNT);
        warnings.extend(kept.map(|name| {
            format!("--{DISABLE}={name} has no effect: the plugin cannot be switched off")
        }));
        let names = |flag, plugin: &str| line.entries(flag).any(|name| name == plugin);
        let mut service_account = !names(DISABLE, SERVICE_ACCOUNT);
        if line.last(EXACT).is_some() {
            service_account = names(EXACT, SERVICE_ACCOUNT);
            let mut left_out = PRESENT.to_vec();
            left_out.retain(|name| *name != SERVICE_ACCOUNT && !names(EXACT, name));
            if !left_out.is_empty() {
                warnings.push(format!(
                    "--{EXACT} cannot switch off these plugins, which stay on: {}",
                    left_out.join(", ")
                ));
            }
        }
        Ok(Self {
            service_account,
            warnings,
        })
    }
}

fn is_known(name: &str) -> bool {
    PRESENT.contains(&name) || ABSENT.contains(&name) || name == NO_EFFECT
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::program::kube_apiserver::options::flags;

    fn plugins(arguments: &[&str]) -> Result<AdmissionPlugins, FlagProblem> {
        let line = flags().parse(arguments.iter().map(OsString::from));
        AdmissionPlugins::of(&line.unwrap())
    }

    #[test]
    fn service_accounts_can_be_switched_off() {
        assert!(plugins(&[]).unwrap().service_account);
        let off = plugins(&["--disable-admission-plugins=ServiceAccount"]).unwrap();
        assert!(!off.service_account && off.warnings.is_empty());
        let only = plugins(&["--admission-control=NamespaceLifecycle,AlwaysAdmit"]).unwrap();
        assert!(!only.service_account);
        assert!(
            only.warnings[0].ends_with("ValidatingAdmissionPolicy, ValidatingAdmissionWebhook")
        );
        assert!(!only.warnings[0].contains("NamespaceLifecycle"));
    }

    #[test]
    fn a_plugin_without_effect_is_named() {
        let given = plugins(&[
            "--enable-admission-plugins=NodeRestriction,LimitRanger",
            "--disable-admission-plugins=PodSecurity,NodeRestriction",
        ]);
        assert_eq!(
            given.unwrap().warnings,
            [
                "--enable-admission-plugins=NodeRestriction has no effect: this server does not have the plugin",
                "--disable-admission-plugins=PodSecurity has no effect: the plugin cannot be switched off",
            ]
        );
    }

    #[test]
    fn an_unknown_plugin_is_refused() {
        let problem = plugins(&["--enable-admission-plugins=Priority,Priorty"]).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "--enable-admission-plugins=Priorty is refused: kube-apiserver 1.36 has no such admission plugin"
        );
    }
}
