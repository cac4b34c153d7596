//! Tests of faults that are planned by click.

use serde_json::json;
use steersman_apiserver::faults::{Answer, Verb};

use super::{get, html, json as read, post as submit, serve};
use crate::support::{CONFIG_MAPS, Watch, post, server};

#[tokio::test(start_paused = true)]
async fn a_form_plans_a_fault_and_removes_it() {
    let server = server();
    let page = serve(&server);
    let planned = submit(
        &page,
        "/faults",
        "effect=answer&code=429&retryAfter=2&verb=create&resource=configmaps&times=1",
    );
    assert_eq!(planned.status, 303, "{}", planned.body);
    assert!(
        planned.head.contains("location: /faults"),
        "{}",
        planned.head
    );
    assert_eq!(
        read(&page, "/api/faults")["planned"][0]["effect"]["code"],
        429
    );
    let body = json!({"metadata": {"name": "a"}});
    post(&server, CONFIG_MAPS, &body).await.expect(429);
    post(&server, CONFIG_MAPS, &body).await.expect(201);
    let shown = html(&page, "/faults");
    assert!(
        shown.contains("create of configmaps at most 1 times"),
        "{shown}"
    );
    assert_eq!(read(&page, "/api/faults")["planned"][0]["hits"], 1);

    let id = server.faults().planned()[0].id;
    submit(&page, "/faults", "effect=swallow&client=other");
    assert_eq!(
        submit(&page, "/faults/remove", &format!("id={id}")).status,
        303
    );
    assert_eq!(server.faults().planned().len(), 1);
    let guard = server.faults().answer(Verb::Get, "*", Answer::code(500));
    assert_eq!(submit(&page, "/faults/remove", "id=all").status, 303);
    assert_eq!(server.faults().planned(), []);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_form_says_why_and_keeps_its_fields() {
    let server = server();
    let page = serve(&server);
    let answer = submit(&page, "/faults", "effect=answer&code=200&resource=pods");
    assert_eq!(answer.status, 400);
    assert!(
        answer
            .body
            .contains("effect.code is 200, but must be a failure"),
        "{}",
        answer.body
    );
    assert!(
        answer.body.contains("name=\"resource\" value=\"pods\""),
        "{}",
        answer.body
    );
    assert_eq!(server.faults().planned(), []);
    let linked = html(&page, "/faults?verb=update&resource=pods%2Fstatus");
    assert!(linked.contains("value=\"pods/status\""), "{linked}");
}

#[tokio::test(start_paused = true)]
async fn open_watches_end_and_expire_by_click() {
    let server = server();
    let page = serve(&server);
    let mut cut = Watch::open(
        &server,
        &format!(
            "{CONFIG_MAPS}?watch=1&resourceVersion={}",
            server.revision()
        ),
    )
    .await;
    assert_eq!(read(&page, "/api/faults")["openWatches"], 1);
    submit(&page, "/watches", "do=cut&resource=secrets");
    assert!(cut.is_quiet().await);
    submit(&page, "/watches", "do=cut&resource=configmaps");
    assert_eq!(cut.next().await, None);
    let mut expired = Watch::open(
        &server,
        &format!(
            "{CONFIG_MAPS}?watch=1&resourceVersion={}",
            server.revision()
        ),
    )
    .await;
    submit(&page, "/watches", "do=expire");
    assert_eq!(expired.next().await.unwrap()["object"]["code"], 410);
    assert_eq!(submit(&page, "/watches", "do=explode").status, 400);
    assert_eq!(get(&page, "/watches").status, 404);
}
