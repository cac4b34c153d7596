//! The webhooks of an operator in its tests.

use steersman::webhook::{AdmissionContext, BoxError, Refusal, Validator};
use steersman_harness::OperatorTest;

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_test_of_an_operator_calls_its_conversions_and_validators() {
    struct TextRules;
    impl Validator<note::v1::Note> for TextRules {
        async fn validate_create(
            &self,
            object: &note::v1::Note,
            _: &AdmissionContext,
        ) -> Result<(), Refusal> {
            match object.spec.text == "forbidden" {
                true => Err(Refusal::denied("the text is forbidden")),
                false => Ok(()),
            }
        }

        async fn validate_update(
            &self,
            _: &note::v1::Note,
            object: &note::v1::Note,
            ctx: &AdmissionContext,
        ) -> Result<(), Refusal> {
            self.validate_create(object, ctx).await
        }
    }

    let operator = OperatorTest::declared(|_| Ok::<(), BoxError>(()))
        .crds([serde_json::to_value(note::crd()).unwrap()])
        .webhooks(|server| {
            server
                .conversions(note::conversions())
                .with(|server| server.validator::<note::v1::Note>(TextRules))
        })
        .start()
        .await
        .unwrap();
    let client = operator.client();
    let old = |name: &str, body: &str| {
        let spec = note::v1alpha1::NoteSpec {
            body: body.to_owned(),
        };
        let mut note = note::v1alpha1::Note::new(name, spec);
        note.metadata.namespace = Some(operator.namespace().to_owned());
        note
    };
    client.create(&old("kept", "hello")).await.unwrap();
    let new: note::v1::Note = client.live().get(&operator.key("kept")).await.unwrap();
    assert_eq!(new.spec.text, "hello");
    let refused = client
        .create(&old("refused", "forbidden"))
        .await
        .unwrap_err();
    assert!(refused.is_forbidden(), "{refused}");
    operator.stop().await.unwrap();
}

/// A kind with a renamed field.
#[steersman::versioned(v1alpha1, v1)]
mod note {
    use serde::{Deserialize, Serialize};
    use steersman::CustomResource;
    use steersman::schemars::JsonSchema;

    #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
    #[kube(group = "notes.example.com", kind = "Note", namespaced)]
    pub(crate) struct NoteSpec {
        #[versioned(renamed(v1, from = body))]
        pub(crate) text: String,
    }
}
