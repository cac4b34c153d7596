//! Driver: reads facts from the cluster. Each request has a time limit; a failed request is a fact, too.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use serde_json::Value;
use steersman_api::kube_client::core::DynamicObject;
use steersman_api::kube_client::{self, Client};
use steersman_api::{
    Api, ApiListWatch, ClientConfig, Decoded, Error as RequestError, Mapper, PageRequest, Paging,
};
use steersman_description::DescribedKind;
use steersman_manifests::RuleTarget;
use steersman_object::{Kind, ListOptions, ObjectKey, ShardBy, ShardSlot, SlotSet};
use tokio::time::timeout;

use crate::doctor::finding::{SeenFact, SeenObject, Unseen, UnseenCause};
use crate::doctor::permissions::AccessQuestion;
use crate::doctor::served_kinds::DiscoveredKinds;
use crate::error::Error;
use crate::kubeconfig;

#[derive(Clone)]
pub(crate) struct TargetCluster {
    pub(crate) client_config: ClientConfig,
    client: Client,
}

/// The time limit of a request.
const LIMIT: Duration = Duration::from_secs(10);
const PAGE: u32 = 500;

impl TargetCluster {
    /// Finds the cluster of a context. Sends no request.
    pub(crate) async fn find(context: Option<&str>) -> Result<Self, Error> {
        let client_config = kubeconfig::find(context).await.map_err(Error::Connect)?;
        let client = client_config.connect().await.map_err(Error::Connect)?;
        Ok(Self {
            client_config,
            client,
        })
    }

    pub(crate) async fn version(&self) -> SeenFact<String> {
        let asked = timeout(LIMIT, self.client.apiserver_version()).await;
        let info = asked.map_err(|_| no_answer("get /version"))?;
        Ok(info.map_err(|error| no_version(&error))?.git_version)
    }

    /// Returns the user that the server derives from the credentials.
    pub(crate) async fn user(&self) -> SeenFact<String> {
        let reviews = Api::<SelfSubjectReview>::typed(self.client.clone());
        let review = SelfSubjectReview::default();
        let answer = limited("create selfsubjectreviews", reviews.review(&review)).await?;
        let user = answer.status.and_then(|status| status.user_info);
        Ok(user.and_then(|user| user.username).unwrap_or_default())
    }

    pub(crate) async fn kinds(&self) -> SeenFact<DiscoveredKinds> {
        let mapper = Mapper::new(self.client_config.clone());
        let found = limited("discovery", mapper.everything()).await?;
        let kinds = found
            .served
            .iter()
            .map(|one| DescribedKind::from(&one.kind));
        let failed = found.failed.into_iter();
        Ok(DiscoveredKinds {
            kinds: kinds.collect(),
            failed: failed
                .map(|(place, error)| (place, error.brief()))
                .collect(),
        })
    }

    pub(crate) async fn get(&self, kind: Kind, key: &ObjectKey) -> SeenObject {
        let request = format!("get {} {}", kind.qualified_plural(), key.name());
        let objects = Api::<DynamicObject>::new(self.client.clone(), kind);
        let object = limited(&request, objects.get_opt(key)).await?;
        Ok(object.map(to_json))
    }

    /// Reads the objects that the list options select, page by page.
    pub(crate) async fn list(
        &self,
        kind: Kind,
        list_options: &ListOptions,
        mut each: impl FnMut(Decoded<Value>),
    ) -> SeenFact<()> {
        let request = format!("list {}", kind.qualified_plural());
        let objects = Api::<DynamicObject>::new(self.client.clone(), kind.clone());
        let mut paging = Paging::new().page_size(PAGE);
        loop {
            let page = limited(&request, objects.list(list_options, &paging)).await?;
            for object in page.items {
                each(object.map(|object| {
                    let mut object = to_json(object);
                    object["apiVersion"] = kind.gvk().api_version().into();
                    object["kind"] = kind.gvk().kind().into();
                    object
                }));
            }
            match page.continue_token {
                Some(token) => paging = paging.continue_token(token),
                None => return Ok(()),
            }
        }
    }

    /// Returns the objects that the list options select, without those that do not decode.
    pub(crate) async fn selected(
        &self,
        kind: Kind,
        list_options: &ListOptions,
    ) -> SeenFact<Vec<Value>> {
        let mut found = Vec::new();
        let add = |object: Decoded<Value>| found.extend(object.good());
        self.list(kind, list_options, add).await?;
        Ok(found)
    }

    /// Returns whether the server knows `shardSelector`, by a list of the objects of a namespace, which has some, in a shard
    /// without this namespace.
    pub(crate) async fn filters_shards(&self, kind: Kind, namespace: &str) -> SeenFact<bool> {
        let by = ShardBy::NamespaceOnServer;
        let own = by.slot_of(&ObjectKey::cluster_scoped(namespace));
        let other = SlotSet::from_iter([ShardSlot::new(!own.number())]);
        let mut request = PageRequest::new(Paging::new().page_size(PAGE));
        request.shard_selector = by.selector(&other, true);
        let what = format!("list {}", kind.qualified_plural());
        let objects = ApiListWatch::new(self.client.clone(), kind, Some(namespace.to_owned()));
        let listed = limited(&what, objects.list_all(request)).await?;
        Ok(listed.items.is_empty())
    }

    pub(crate) async fn may(
        &self,
        (namespace, name): (&str, &str),
        question: &AccessQuestion,
    ) -> SeenFact<bool> {
        let verb = &question.permission.verb;
        let (resource, path) = match &question.permission.target {
            RuleTarget::Resource {
                group,
                resource,
                name,
            } => {
                let mut parts = resource.split('/').map(str::to_owned);
                let attributes = ResourceAttributes {
                    group: Some(group.clone()),
                    resource: parts.next(),
                    subresource: parts.next(),
                    name: name.clone(),
                    namespace: question.namespace.clone(),
                    verb: Some(verb.clone()),
                    ..ResourceAttributes::default()
                };
                (Some(attributes), None)
            }
            RuleTarget::Url(path) => {
                let attributes = NonResourceAttributes {
                    path: Some(path.clone()),
                    verb: Some(verb.clone()),
                };
                (None, Some(attributes))
            }
        };
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ];
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                groups: Some(groups.to_vec()),
                resource_attributes: resource,
                non_resource_attributes: path,
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews = Api::<SubjectAccessReview>::typed(self.client.clone());
        let answer = limited("create subjectaccessreviews", reviews.review(&review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

async fn limited<T>(
    request: &str,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> SeenFact<T> {
    match timeout(LIMIT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(unseen(&error)),
        Err(_) => Err(no_answer(request)),
    }
}

fn unseen(error: &RequestError) -> Unseen {
    let cause = match error {
        error if error.is_unauthorized() => UnseenCause::Unauthorized,
        error if error.is_forbidden() => UnseenCause::Forbidden,
        RequestError::Transport { .. } => UnseenCause::Unanswered,
        _ => UnseenCause::Other,
    };
    // The message of the server names the user, the verb and the resource.
    let message = error.status().map(|status| status.message.clone());
    let message = message.filter(|_| cause == UnseenCause::Forbidden);
    Unseen {
        problem: message.unwrap_or_else(|| error.brief()),
        cause,
    }
}

/// Returns why the server's version is unknown. Uses only the message, because `Display` prints the whole Status.
fn no_version(error: &kube_client::Error) -> Unseen {
    let (code, problem) = match error {
        kube_client::Error::Api(status) => {
            let text = format!("the server answered {}: {}", status.code, status.message);
            (status.code, text)
        }
        error => (0, steersman_object::report(error).to_string()),
    };
    Unseen {
        problem: format!("get /version failed: {problem}"),
        cause: match code {
            401 => UnseenCause::Unauthorized,
            403 => UnseenCause::Forbidden,
            _ => UnseenCause::Other,
        },
    }
}

fn no_answer(request: &str) -> Unseen {
    Unseen {
        problem: format!("{request} had no answer in {} s", LIMIT.as_secs()),
        cause: UnseenCause::Unanswered,
    }
}

/// Returns an object as JSON. The conversion cannot fail, because the object was decoded from JSON.
fn to_json(object: DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use steersman_api::kube_client::core::Status;

    use super::*;

    #[test]
    fn a_refusal_of_the_version_is_told_in_one_line() {
        let status = Status::failure("Unauthorized", "Unauthorized").with_code(401);
        let unseen = no_version(&kube_client::Error::Api(Box::new(status)));
        assert_eq!(unseen.cause, UnseenCause::Unauthorized);
        let expected = "get /version failed: the server answered 401: Unauthorized";
        assert_eq!(unseen.problem, expected);
    }
}
