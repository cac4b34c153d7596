//! Machine: what to say, and to do, about a kind that does not sync.

use steersman_informer::{Reason, State};
use steersman_object::Kind;

use crate::error::Unsynced;

/// What an informer's state says of a kind that has not synced.
pub(crate) fn unsynced(kind: &Kind, namespace: Option<&str>, state: &State) -> Unsynced {
    let (why, way_out) = match state {
        State::Declared => ("its informer has not been started".to_owned(), None),
        State::Stopped => ("its informer has stopped".to_owned(), None),
        State::Degraded {
            reason, message, ..
        } => (message.clone(), way_out(kind, namespace, *reason)),
        _ => ("its first list has not ended".to_owned(), None),
    };
    Unsynced {
        kind: kind.clone(),
        namespace: namespace.map(Into::into),
        why,
        way_out,
    }
}

fn way_out(kind: &Kind, namespace: Option<&str>, reason: Reason) -> Option<String> {
    let group = kind.gvk().group();
    let text = match reason {
        Reason::Forbidden => {
            let role = match namespace {
                Some(namespace) => format!("a Role in namespace {namespace:?}"),
                None => "a ClusterRole".to_owned(),
            };
            format!(
                "bind the operator's service account to {role} with the rule \
                 {{apiGroups: [{group:?}], resources: [{:?}], verbs: [get, list, watch]}}",
                kind.plural()
            )
        }
        Reason::NotServed if group.contains('.') && !group.ends_with(".k8s.io") => format!(
            "install the CustomResourceDefinition {} with version {}",
            kind.qualified_plural(),
            kind.gvk().version()
        ),
        Reason::NotServed => format!(
            "the server does not serve {}: it may be too old or too new for this kind",
            kind.gvk().api_version()
        ),
        Reason::Network => "check that the api-server is reachable under that address".to_owned(),
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use steersman_object::{Gvk, Scope};

    use super::*;

    #[test]
    fn a_forbidden_kind_names_the_rule_to_add() {
        let kind = Kind::of::<Deployment>();
        let text = way_out(&kind, None, Reason::Forbidden).unwrap();
        assert!(text.contains("a ClusterRole"), "{text}");
        assert!(
            text.contains(
                r#"{apiGroups: ["apps"], resources: ["deployments"], verbs: [get, list, watch]}"#
            ),
            "{text}"
        );
        let text = way_out(&kind, Some("web"), Reason::Forbidden).unwrap();
        assert!(text.contains("a Role in namespace \"web\""), "{text}");
    }

    #[test]
    fn a_kind_that_is_not_served_names_its_definition() {
        let gvk = Gvk::new("web.example.com", "v1", "Website");
        let kind = Kind::new(gvk, "websites", Scope::Namespaced);
        let text = way_out(&kind, None, Reason::NotServed).unwrap();
        assert_eq!(
            text,
            "install the CustomResourceDefinition websites.web.example.com with version v1"
        );
        let text = way_out(&Kind::of::<Deployment>(), None, Reason::NotServed).unwrap();
        assert!(text.contains("does not serve apps/v1"), "{text}");
    }

    #[test]
    fn a_kind_that_is_still_listed_says_so() {
        let unsynced = unsynced(&Kind::of::<Deployment>(), Some("a"), &State::Syncing);
        assert_eq!(
            unsynced.to_string(),
            "Deployment.v1.apps could not be cached in namespace \"a\": its first list has not ended"
        );
    }
}
