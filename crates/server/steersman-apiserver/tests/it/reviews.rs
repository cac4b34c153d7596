//! Tests of the answers and refusals of access reviews.

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use crate::permissions::{let_ann, post, rule, server};
use crate::support::ask;

#[tokio::test(start_paused = true)]
async fn rules_reviews_list_the_users_rules() {
    let server = server();
    let_ann(&server, "reader", &[rule(&["get"], "", &["pods"])]);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({ "spec": { "namespace": "default" } });
    let reviewed = post(&server, "as ann", path, review.clone())
        .await
        .expect(201);
    assert_eq!(reviewed["spec"], json!({}));
    let status = &reviewed["status"];
    assert_eq!(status["incomplete"], false);
    let rules = status["resourceRules"].as_array().unwrap();
    assert!(rules.contains(&rule(&["get"], "", &["pods"])), "{rules:?}");
    assert_eq!(status["nonResourceRules"].as_array().unwrap().len(), 2);
    let open = post(&ApiServer::new(), "as ann", path, review)
        .await
        .expect(201);
    assert_eq!(
        open["status"]["resourceRules"],
        json!([rule(&["*"], "*", &["*"])])
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_of_an_access_review_are_checked_and_carried() {
    let server = server();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let asked = async |selector: Value| {
        let attributes = json!({ "verb": "list", "resource": "pods", "fieldSelector": selector });
        let review = json!({ "spec": { "resourceAttributes": attributes } });
        ask(&server, "POST", path, &[], review.to_string()).await
    };
    let at = "spec.resourceAttributes.fieldSelector";
    for (selector, expected) in [
        (
            json!({}),
            format!(
                "{at}.requirements: Required value: when {at} is specified, requirements or rawSelector is required"
            ),
        ),
        (
            json!({ "requirements": [{ "key": "", "operator": "In", "values": ["a"] }] }),
            format!("{at}.requirements[0].key: Required value: must be specified"),
        ),
        (
            json!({ "requirements": [{ "key": "a", "operator": "Exists", "values": ["a"] }] }),
            format!(
                "{at}.requirements[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            ),
        ),
    ] {
        let reviewed = asked(selector).await.expect(422);
        assert_eq!(
            reviewed["message"],
            format!(".authorization.k8s.io \"\" is invalid: {expected}")
        );
    }
    let named = json!({
        "metadata": { "name": "x" },
        "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } },
    });
    let reviewed = post(&server, "as ann", path, named).await.expect(422);
    let message = reviewed["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            ".authorization.k8s.io \"\" is invalid: metadata: Invalid value: {\"name\":\"x\",\"managedFields\":[{\"manager\":"
        ) && message.ends_with("}]}: must be empty"),
        "{message}"
    );
    let good = json!({ "rawSelector": "spec.nodeName=n" });
    let reviewed = asked(good.clone()).await.expect(201);
    assert_eq!(reviewed["status"], json!({ "allowed": true }));
    assert_eq!(
        reviewed["spec"]["resourceAttributes"]["fieldSelector"],
        good
    );
    let reviewed = asked(json!({ "rawSelector": "nonsense" }))
        .await
        .expect(201);
    assert_eq!(
        reviewed["status"]["evaluationError"],
        "spec.resourceAttributes.fieldSelector ignored due to parse error"
    );
}
