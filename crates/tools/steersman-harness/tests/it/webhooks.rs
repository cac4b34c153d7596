//! Tests which requests the embedded server passes to the webhooks of a test.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use serde_json::json;
use steersman_harness::OperatorTest;
use steersman_manager::Manager;
use steersman_object::report;
use steersman_webhook::{AdmissionContext, Refusal, Validator};

use crate::BoxError;

/// A validator that allows at most this number of replicas.
struct AtMost(i32);

impl Validator<Scale> for AtMost {
    async fn validate_create(&self, _: &Scale, _: &AdmissionContext) -> Result<(), Refusal> {
        Ok(())
    }

    async fn validate_update(
        &self,
        _: &Scale,
        new: &Scale,
        ctx: &AdmissionContext,
    ) -> Result<(), Refusal> {
        let wanted = new.spec.as_ref().and_then(|spec| spec.replicas);
        match wanted > Some(self.0) {
            true => Err(Refusal::denied(format!(
                "{} has at most {} replicas",
                ctx.request().name,
                self.0
            ))),
            false => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_validator_of_the_scale_sees_what_a_validator_of_the_kind_does_not() {
    let nothing = |_: &Manager| -> Result<(), BoxError> { Ok(()) };
    let operator = OperatorTest::declared(nothing)
        .webhooks(|server| server.scale_validator::<Deployment>(AtMost(3)))
        .start()
        .await
        .unwrap();
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": operator.namespace()},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }))
    .unwrap();
    operator.client().create(&deployment).await.unwrap();
    let scale = operator.client().subresource::<Deployment>("scale");
    let key = operator.key("web");
    scale.set_replicas(&key, 3).await.unwrap();
    let refused = scale.set_replicas(&key, 4).await.unwrap_err();
    let refused = report(&refused).to_string();
    assert!(refused.contains("web has at most 3 replicas"), "{refused}");
    operator.stop().await.unwrap();
}
