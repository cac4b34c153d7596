//! The operator reports what only a user can correct, and continues once it is corrected.

use cronjob_operator::job::{job_name, new_job};
use serde_json::json;
use steersman::ObjectKey;
use steersman::k8s_openapi::api::batch::v1::Job;
use steersman::k8s_openapi::api::events::v1::Event;
use steersman::{ListOptions, owner};

use crate::world::{at, change_spec, condition, cron, operator, read, started, times, until};

#[tokio::test(start_paused = true)]
async fn a_wrong_schedule_is_reported_until_it_is_corrected() {
    let mut operator = started(|spec| spec.schedule = "61 * * * *".to_owned()).await;
    operator.tick_until_steady(5).await.unwrap();
    let (reason, message) = condition(&operator).await;
    assert_eq!(reason, "InvalidSchedule");
    assert!(message.contains("\"61\" is no minute"), "{message}");
    operator.assert_settled().await.unwrap();

    change_spec(&operator, json!({"schedule": "* * * * *"})).await;
    until(&operator, "10:01:10").await;
    assert_eq!(times(&operator).await, ["10:01"]);
    assert_eq!(condition(&operator).await.0, "Scheduled");
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_template_that_the_server_refuses_is_reported() {
    let operator = started(|spec| {
        let template = spec.job_template.spec.get_or_insert_default();
        let pod = template.template.spec.get_or_insert_default();
        pod.restart_policy = Some("Always".to_owned());
    })
    .await;
    until(&operator, "10:01:10").await;
    let (reason, message) = condition(&operator).await;
    assert_eq!(reason, "Refused");
    assert!(message.contains("restartPolicy"), "{message}");
    let ours = ListOptions::new().namespace(operator.namespace());
    let events = operator.client().live().list::<Event>(&ours).await.unwrap();
    let told = |event: &Event| event.reason.as_deref() == Some("Refused");
    assert!(events.iter().any(told), "{events:?}");
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_of_another_owner_is_left_alone_and_its_name_is_taken_when_it_is_free() {
    let due = at("10:01:00");
    let operator = operator(|_| ()).server(crate::world::server(std::time::Duration::from_secs(5)));
    let occupy = move |prepared: steersman_harness::Prepared| async move {
        let job = new_job(&cron(prepared.namespace()), due);
        prepared.client().create(&job).await?;
        Ok(())
    };
    let operator = operator.before_start(occupy).start().await.unwrap();
    until(&operator, "10:01:10").await;
    let (reason, message) = condition(&operator).await;
    assert_eq!(reason, "Refused");
    let name = job_name(&read(&operator).await, due);
    assert!(message.contains(&name), "{message}");
    let key: ObjectKey = operator.key(&name);
    let client = operator.client();
    let theirs: Job = client.live().get(&key).await.unwrap();
    assert!(owner::controller_of(&theirs.metadata).is_none());

    client.delete(&theirs).await.unwrap();
    until(&operator, "10:01:45").await;
    let ours: Job = client.live().get(&key).await.unwrap();
    assert!(owner::is_controlled_by(&ours, &read(&operator).await));
    operator.stop().await.unwrap();
}
