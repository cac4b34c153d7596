//! Machine: explains why a kind does not sync, and suggests a remedy.

use std::sync::{Arc, OnceLock};

use steersman_informer::{InformerState, Reason};

use crate::coverage::Coverage;
use crate::server_problem::ServerProblem;
use crate::settings::Settings;
use crate::unsynced::{Unsynced, UnsyncedReason};

/// The facts about one informer that the messages about its failures use. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Advice {
    pub(crate) coverage: Arc<Coverage>,
    pub(crate) namespace: Option<Arc<str>>,
    /// A description of the cache's credentials; set when the cache runs.
    pub(crate) credentials: Arc<OnceLock<String>>,
    /// The problem of the whole server. A failure of the informer's own requests takes precedence.
    pub(crate) server: ServerProblem,
    /// Whether this program itself installs the definition of the kind.
    pub(crate) is_installed: bool,
}

impl Advice {
    /// Builds the report of an unsynced informer in `state`.
    pub(crate) fn unsynced(&self, state: &InformerState) -> Unsynced {
        let problem = self.server.get();
        let (reason, why) = match (state, &problem) {
            (InformerState::Declared | InformerState::Syncing, Some((reason, text))) => {
                (UnsyncedReason::Failing(*reason), &**text)
            }
            (InformerState::Declared, None) => (
                UnsyncedReason::NotStarted,
                "its informer has not been started",
            ),
            (InformerState::Stopped, _) => (UnsyncedReason::Stopped, "its informer has stopped"),
            (
                InformerState::Degraded {
                    reason, message, ..
                },
                _,
            ) => (UnsyncedReason::Failing(*reason), message.as_str()),
            _ => (UnsyncedReason::Syncing, "its first list has not ended"),
        };
        let remedy = match reason {
            UnsyncedReason::Failing(reason) => self.remedy(reason),
            _ => None,
        };
        Unsynced {
            kind: self.coverage.kind().clone(),
            namespace: self.namespace.as_deref().map(Into::into),
            reason,
            why: why.to_owned(),
            remedy,
        }
    }

    pub(crate) fn remedy(&self, reason: Reason) -> Option<String> {
        let text = match reason {
            Reason::Forbidden => self.rule(),
            Reason::Unauthorized => match self.credentials.get() {
                Some(credentials) => format!("renew the credentials of {credentials}"),
                None => "renew the credentials of the connection".to_owned(),
            },
            Reason::NotServed => self.definition(),
            Reason::Rejected => self.selectors(),
            Reason::Network => {
                "check that the API server is reachable at this address".to_owned()
            }
            Reason::Server | Reason::ShortWatch => {
                "check the health of the API server (`kubectl get --raw '/readyz?verbose'`), and the conversion \
                 webhook if the message names one"
                    .to_owned()
            }
            Reason::Starting => {
                "wait: the request is repeated every one or two seconds until the server has started; if \
                 it does not start, check `kubectl get --raw '/readyz?verbose'`"
                    .to_owned()
            }
            Reason::Silent => {
                "check the network between this process and the API server: a component drops connections without \
                 closing them"
                    .to_owned()
            }
            Reason::Throttled => {
                "check which other clients send requests, and the server's flow control (API priority and \
                 fairness)"
                    .to_owned()
            }
            Reason::Decode => {
                "check that the address is that of an API server, without a proxy that changes \
                 its responses"
                    .to_owned()
            }
            _ => return None,
        };
        Some(text)
    }

    fn rule(&self) -> String {
        let kind = self.coverage.kind();
        let role = match &self.namespace {
            Some(namespace) => format!("a Role in namespace {namespace:?}"),
            None => "a ClusterRole".to_owned(),
        };
        let name = self.coverage.only_name(self.namespace.as_deref());
        let names = name.map_or_else(String::new, |name| format!(", resourceNames: [{name:?}]"));
        format!(
            "bind the operator's service account to {role} with the rule \
             {{apiGroups: [{:?}], resources: [{:?}]{names}, verbs: [get, list, watch]}}",
            kind.gvk().group(),
            kind.plural()
        )
    }

    fn definition(&self) -> String {
        let kind = self.coverage.kind();
        let group = kind.gvk().group();
        if self.is_installed {
            return format!(
                "wait: the leader of this operator installs the CustomResourceDefinition {}, and its log says if it cannot",
                kind.qualified_plural()
            );
        }
        if group.contains('.') && !group.ends_with(".k8s.io") {
            return format!(
                "install the CustomResourceDefinition {} with version {}",
                kind.qualified_plural(),
                kind.gvk().version()
            );
        }
        format!(
            "the server does not serve {}: use a server version that serves this kind",
            kind.gvk().api_version()
        )
    }

    fn selectors(&self) -> String {
        let kind = self.coverage.kind().gvk().kind();
        let settings = self.coverage.settings(self.namespace.as_deref());
        if let Some(fields) = settings.and_then(Settings::sent_fields) {
            return format!(
                "{fields:?} comes from `fields(…)` of `by_object::<{kind}>()`: name a field that \
                 the server supports, or select by labels or by an index of the cache"
            );
        }
        if let Some(labels) = settings.and_then(Settings::sent_labels) {
            return format!(
                "{labels:?} comes from `labels(…)` of `by_object::<{kind}>()`: correct it there"
            );
        }
        "check that the address is that of an API server of a supported version".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use steersman_object::{Gvk, Kind, Scope};

    use super::*;
    use crate::options::{ByObject, CacheOptions};

    fn advice(kind: &Kind, namespace: Option<&str>) -> Advice {
        with(kind, namespace, &CacheOptions::new())
    }

    fn with(kind: &Kind, namespace: Option<&str>, options: &CacheOptions) -> Advice {
        Advice {
            coverage: Arc::new(Coverage::of(kind, options, &options.namespaces)),
            namespace: namespace.map(Into::into),
            credentials: Arc::default(),
            server: ServerProblem::default(),
            is_installed: false,
        }
    }

    #[test]
    fn the_remedy_for_a_forbidden_kind_is_the_missing_rule() {
        let kind = Kind::of::<Deployment>();
        let text = advice(&kind, None).remedy(Reason::Forbidden).unwrap();
        assert!(text.contains("a ClusterRole"), "{text}");
        assert!(
            text.contains(
                r#"{apiGroups: ["apps"], resources: ["deployments"], verbs: [get, list, watch]}"#
            ),
            "{text}"
        );
        let narrow = advice(&kind, Some("web"));
        let text = narrow.remedy(Reason::Forbidden).unwrap();
        assert!(text.contains("a Role in namespace \"web\""), "{text}");
    }

    /// CACHE-14
    #[test]
    fn a_forbidden_kind_that_is_cached_by_name_needs_a_rule_for_that_object_alone() {
        let kind = Kind::of::<Deployment>();
        let rule = |fields: &str| {
            let by_fields = ByObject::new().namespaces(["web"]).fields(fields);
            let options = CacheOptions::new().by_object::<Deployment>(by_fields);
            let advice = with(&kind, Some("web"), &options);
            advice.remedy(Reason::Forbidden).unwrap()
        };
        let named = r#"{apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["shop"], verbs: [get, list, watch]}"#;
        for fields in ["metadata.name=shop", "a!=b,metadata.name==shop"] {
            let text = rule(fields);
            assert!(text.contains(named), "{fields}: {text}");
            assert!(text.contains("a Role in namespace \"web\""), "{text}");
        }
        for fields in [
            "metadata.name!=shop", "metadata.name=", "metadata.name=a/b", "a=b",
        ] {
            assert!(!rule(fields).contains("resourceNames"), "{fields}");
        }
    }

    #[test]
    fn the_remedy_for_rejected_credentials_names_them() {
        let advice = advice(&Kind::of::<Deployment>(), None);
        let text = advice.remedy(Reason::Unauthorized).unwrap();
        assert_eq!(text, "renew the credentials of the connection");
        let credentials = "the user \"me\" in kubeconfig /a/b".to_owned();
        advice.credentials.set(credentials).unwrap();
        let text = advice.remedy(Reason::Unauthorized).unwrap();
        assert_eq!(
            text,
            "renew the credentials of the user \"me\" in kubeconfig /a/b"
        );
    }

    #[test]
    fn the_remedy_for_a_rejected_selector_names_its_option() {
        let kind = Kind::of::<Deployment>();
        let by_fields = ByObject::new().labels("app=web").fields("spec.colour=red");
        let options = CacheOptions::new().by_object::<Deployment>(by_fields);
        let text = with(&kind, None, &options)
            .remedy(Reason::Rejected)
            .unwrap();
        assert!(
            text.starts_with(
                "\"spec.colour=red\" comes from `fields(…)` of `by_object::<Deployment>()`: "
            ),
            "{text}"
        );
        let by_labels = ByObject::new().labels("app=web");
        let options = CacheOptions::new().by_object::<Deployment>(by_labels);
        let text = with(&kind, None, &options)
            .remedy(Reason::Rejected)
            .unwrap();
        assert!(text.contains("\"app=web\" comes from `labels("), "{text}");
    }

    #[test]
    fn every_failure_reason_has_a_remedy() {
        let advice = advice(&Kind::of::<Deployment>(), None);
        for reason in [
            Reason::Forbidden,
            Reason::Unauthorized,
            Reason::NotServed,
            Reason::Rejected,
            Reason::Throttled,
            Reason::Network,
            Reason::Server,
            Reason::Starting,
            Reason::ShortWatch,
            Reason::Silent,
            Reason::Decode,
        ] {
            assert!(advice.remedy(reason).is_some(), "{reason}");
        }
    }

    #[test]
    fn the_remedy_for_a_kind_that_is_not_served_names_its_definition() {
        let gvk = Gvk::new("web.example.com", "v1", "Website");
        let kind = Kind::new(gvk, "websites", Scope::Namespaced);
        let text = advice(&kind, None).remedy(Reason::NotServed).unwrap();
        assert_eq!(
            text,
            "install the CustomResourceDefinition websites.web.example.com with version v1"
        );
        let mut own = advice(&kind, None);
        own.is_installed = true;
        let text = own.remedy(Reason::NotServed).unwrap();
        assert!(
            text.starts_with("wait: the leader of this operator installs "),
            "{text}"
        );
        let built_in = advice(&Kind::of::<Deployment>(), None);
        let text = built_in.remedy(Reason::NotServed).unwrap();
        assert!(text.contains("does not serve apps/v1"), "{text}");
    }

    #[test]
    fn a_kind_in_its_first_list_is_reported_as_such() {
        let advice = advice(&Kind::of::<Deployment>(), Some("a"));
        assert_eq!(
            advice.unsynced(&InformerState::Syncing).to_string(),
            "deployments.apps could not be cached in namespace \"a\": its first list has not ended"
        );
    }
}
