//! Tests that a migration stores every object in the stored version, however often it is interrupted.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, RequestRecord, Verb};
use steersman_crds::{Crd, CrdPhase, Crds, Error};
use tokio_util::sync::CancellationToken;

use crate::world::*;

const SITES: &str = "sites.example.com";

/// Returns a server with the first release's definition and this number of sites.
async fn server_with(sites: usize) -> ApiServer {
    let server = ApiServer::builder().log_capacity(100_000).build();
    install(&server, first_release()).await;
    create_sites(&server, sites);
    server
}

/// Returns the progress annotation of the definition.
fn progress(server: &ApiServer) -> Value {
    present(server)["metadata"]["annotations"]["steersman/migration"].clone()
}

fn next_release() -> Crds {
    Crds::new().with(second_release())
}

/// DEF-3: a version leaves `storedVersions` only after each object was written anew.
#[tokio::test(start_paused = true)]
async fn every_object_is_stored_in_the_present_version() {
    let server = server_with(1200).await;
    assert_eq!(stored_in(&server, "v1alpha1"), 1200);
    let definitions = next_release();
    definitions.install(&connect(&server), LIMIT).await.unwrap();
    assert_eq!(
        (stored_in(&server, "v1alpha1"), stored_in(&server, "v1")),
        (0, 1200)
    );
    assert_eq!(stored_versions(&server), json!(["v1"]));
    assert_eq!(progress(&server), Value::Null);
    let status = &definitions.statuses()[0];
    assert_eq!((status.phase, status.migrated), (CrdPhase::Installed, 1200));
    // The migration read only metadata, and wrote each object once.
    let lists = server
        .requests()
        .matching(|request| request.is_for(SITES) && request.does(Verb::List));
    assert!(lists.iter().all(RequestRecord::is_metadata_only));
    assert_eq!(
        server
            .requests()
            .count(|request| request.is_for(SITES) && request.does(Verb::Patch)),
        1200
    );
}

/// Returns ten request numbers below `requests`, at which a migration is interrupted.
fn ten_points(requests: usize) -> impl Iterator<Item = usize> {
    let mut seed = 0x5eed_u64;
    std::iter::repeat_with(move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        1 + usize::try_from(seed >> 33).unwrap() % requests
    })
    .take(10)
}

/// Returns the number of writes of sites since the log was cleared.
fn site_writes(server: &ApiServer) -> usize {
    let is_write = |request: &RequestRecord| request.is_for(SITES) && request.does(Verb::Patch);
    server.requests().count(is_write)
}

/// DEF-4: the definition holds the progress of its migration for the next leader.
#[tokio::test(start_paused = true)]
async fn a_migration_of_ten_thousand_objects_survives_ten_leaders() {
    const SITES_IN_ALL: usize = 10_000;
    let server = server_with(SITES_IN_ALL).await;
    server.requests().clear();
    let (mut interruptions, mut done) = (0, 0);
    for point in ten_points(SITES_IN_ALL / 10) {
        let stop = CancellationToken::new();
        let client_config = connect_until(&server, point + 20, &stop);
        next_release().lead(&client_config, stop.clone()).await;
        assert!(
            stop.is_cancelled(),
            "the migration was over before {point} requests"
        );
        let now = stored_in(&server, "v1");
        assert!(
            now >= done,
            "an object was stored in the former version again"
        );
        (interruptions, done) = (interruptions + 1, now);
    }
    assert!(interruptions == 10 && done < SITES_IN_ALL, "{done}");
    next_release()
        .lead(&connect(&server), CancellationToken::new())
        .await;
    assert_eq!(stored_in(&server, "v1"), SITES_IN_ALL);
    assert_eq!(stored_versions(&server), json!(["v1"]));
    // Each leader repeats one page at most.
    let writes = site_writes(&server);
    assert!(writes <= SITES_IN_ALL + 11 * 500, "{writes}");
}

/// DEF-4: the definition holds the progress of its migration for the next leader.
#[tokio::test(start_paused = true)]
async fn a_migration_ends_after_an_interruption_at_any_point() {
    // The number is small, because debug builds take minutes for more. The variable sets it for a longer run.
    let sites = std::env::var("STEERSMAN_MIGRATED_OBJECTS").ok();
    let sites: usize = sites.map_or(600, |text| text.parse().unwrap());
    let base = server_with(sites).await;
    for point in ten_points(sites) {
        let server = ApiServer::builder()
            .log_capacity(100_000)
            .restore(base.snapshot())
            .build();
        let stop = CancellationToken::new();
        let client_config = connect_until(&server, point, &stop);
        next_release().lead(&client_config, stop).await;
        let done = stored_in(&server, "v1");
        assert!(done < sites, "not interrupted after {point} requests");
        server.requests().clear();
        next_release()
            .lead(&connect(&server), CancellationToken::new())
            .await;
        assert_eq!(
            stored_in(&server, "v1"),
            sites,
            "interrupted after {point} requests"
        );
        assert_eq!(stored_versions(&server), json!(["v1"]));
        let writes = site_writes(&server);
        assert!(writes <= sites - done + 500, "{writes} writes after {done}");
    }
}

/// DEF-4: the definition holds the progress of its migration for the next leader.
#[tokio::test(start_paused = true)]
async fn progress_of_another_definition_does_not_count() {
    let server = server_with(1200).await;
    let stop = CancellationToken::new();
    // The migration is interrupted after its first page.
    let client_config = connect_until(&server, 800, &stop);
    next_release().lead(&client_config, stop).await;
    assert!(progress(&server).is_string());
    // The earlier release is installed again, and writes a migrated object in its own version.
    let back = definition(&[
        version("v1alpha1", true, &["host"]),
        version("v1", false, &["host"]),
    ]);
    let back = Crd::new(&back).without_migration();
    install(&server, back).await;
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    server
        .merge_patch(SITES, "default", "site-0", &labels)
        .unwrap();
    let before = stored_in(&server, "v1alpha1");
    next_release()
        .install(&connect(&server), LIMIT)
        .await
        .unwrap();
    assert!(before > 0);
    assert_eq!(
        (stored_in(&server, "v1alpha1"), stored_in(&server, "v1")),
        (0, 1200)
    );
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_that_expired_goes_on_or_begins_anew() {
    let server = server_with(1200).await;
    let stop = CancellationToken::new();
    let client_config = connect_until(&server, 800, &stop);
    next_release().lead(&client_config, stop).await;
    server.compact();
    next_release()
        .install(&connect(&server), LIMIT)
        .await
        .unwrap();
    assert_eq!(stored_in(&server, "v1"), 1200);
    assert_eq!(stored_versions(&server), json!(["v1"]));
}

/// DEF-3: a version leaves `storedVersions` only after each object was written anew.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_stored_keeps_its_version_listed() {
    let server = server_with(1200).await;
    let fault = server.faults().answer_matching(
        |request| request.does(Verb::Patch) && request.name.as_deref() == Some("site-700"),
        Answer::code(422),
    );
    let definitions = next_release();
    let error = definitions
        .install(&connect(&server), LIMIT)
        .await
        .unwrap_err();
    let Error::NotMigrated {
        count, examples, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert!(
        *count == 1 && examples[0].contains("default/site-700"),
        "{error}"
    );
    assert_eq!(stored_versions(&server), json!(["v1alpha1", "v1"]));
    assert_eq!(stored_in(&server, "v1"), 1199);
    drop(fault);
    next_release()
        .install(&connect(&server), LIMIT)
        .await
        .unwrap();
    assert_eq!(stored_versions(&server), json!(["v1"]));
    assert_eq!(stored_in(&server, "v1"), 1200);
}

#[tokio::test(start_paused = true)]
async fn a_leader_repeats_requests_that_fail() {
    let server = server_with(600).await;
    let faults = server.faults();
    let _list = faults.answer(Verb::List, SITES, Answer::code(503).times(2));
    let _patch = faults.answer(Verb::Patch, SITES, Answer::code(500).times(3));
    let _status = faults.answer(Verb::Patch, DEFINITIONS, Answer::code(409).times(2));
    next_release()
        .lead(&connect(&server), CancellationToken::new())
        .await;
    assert_eq!(stored_in(&server, "v1"), 600);
    assert_eq!(stored_versions(&server), json!(["v1"]));
}

/// DEF-1: no write of a definition may lose a field or a stored version.
#[tokio::test(start_paused = true)]
async fn a_version_can_be_removed_once_its_objects_are_migrated() {
    let server = server_with(3).await;
    let third = || definition(&[version("v1", true, &["host"])]);
    let skipped = Crds::new()
        .with(third())
        .install(&connect(&server), LIMIT)
        .await;
    assert!(
        matches!(skipped, Err(Error::Narrowed { .. })),
        "the second release was skipped"
    );
    next_release()
        .install(&connect(&server), LIMIT)
        .await
        .unwrap();
    install(&server, third()).await;
    assert_eq!(
        present(&server)["spec"]["versions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(server.list(SITES, "default").len(), 3);
}

/// Returns a server that can migrate objects itself, with sites of the first release.
async fn migrating_server_with(sites: usize) -> ApiServer {
    let server = ApiServer::builder()
        .log_capacity(100_000)
        .storage_migrations(true)
        .build();
    let first = Crds::new().with(first_release());
    first.install(&connect(&server), LIMIT).await.unwrap();
    create_sites(&server, sites);
    server
}

#[tokio::test(start_paused = true)]
async fn the_server_migrates_if_it_can() {
    let server = migrating_server_with(600).await;
    next_release()
        .install(&connect(&server), LIMIT)
        .await
        .unwrap();
    assert_eq!(stored_in(&server, "v1"), 600);
    assert_eq!(stored_versions(&server), json!(["v1"]));
    assert_eq!(
        site_writes(&server),
        0,
        "the operator sent no write of a site"
    );
    assert!(
        server.list(MIGRATIONS, "").is_empty(),
        "the migration is deleted"
    );
    assert_eq!(progress(&server), Value::Null);
}

const MIGRATIONS: &str = "storageversionmigrations.storagemigration.k8s.io";

#[tokio::test(start_paused = true)]
async fn the_operator_migrates_if_the_server_does_not_begin() {
    let server = ApiServer::builder()
        .log_capacity(100_000)
        .storage_migrations(true)
        .play_controllers(false)
        .build();
    let first = Crds::new().with(first_release());
    first.install(&connect(&server), LIMIT).await.unwrap();
    create_sites(&server, 20);
    next_release()
        .install(&connect(&server), LIMIT)
        .await
        .unwrap();
    assert_eq!((stored_in(&server, "v1"), site_writes(&server)), (20, 20));
    assert!(server.list(MIGRATIONS, "").is_empty());
}

/// DEF-4: the definition holds the progress of its migration for the next leader.
#[tokio::test(start_paused = true)]
async fn a_migration_by_the_server_is_found_again_after_an_interruption() {
    let server = migrating_server_with(20).await;
    let stop = CancellationToken::new();
    let (client_config, led, stopped) = (connect(&server), next_release(), stop.clone());
    let leader = tokio::spawn(async move { led.lead(&client_config, stopped).await });
    server
        .requests()
        .wait_for(1, |request| {
            request.is_for(MIGRATIONS) && request.does(Verb::Create)
        })
        .await;
    stop.cancel();
    leader.await.unwrap();
    assert!(progress(&server).is_string());
    // The migration on the server ends without the operator, and the next leader notices.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stored_versions(&server), json!(["v1"]));
    next_release()
        .lead(&connect(&server), CancellationToken::new())
        .await;
    assert_eq!(stored_in(&server, "v1"), 20);
    assert_eq!(progress(&server), Value::Null);
    assert!(server.list(MIGRATIONS, "").is_empty());
}

/// DEF-1: no write of a definition may lose a field or a stored version.
#[tokio::test(start_paused = true)]
async fn a_release_without_the_former_version_migrates_before_it_removes_that_version() {
    let server = server_with(3).await;
    // The second release stores v1, and ends before the migration.
    let second = next_release().without_migration();
    second.install(&connect(&server), LIMIT).await.unwrap();
    assert_eq!(stored_versions(&server), json!(["v1alpha1", "v1"]));
    let third = Crds::new().with(definition(&[version("v1", true, &["host", "title"])]));
    third.install(&connect(&server), LIMIT).await.unwrap();
    assert_eq!(
        (stored_in(&server, "v1"), stored_versions(&server)),
        (3, json!(["v1"]))
    );
    assert_eq!(
        present(&server)["spec"]["versions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_no_fault_of_the_objects() {
    let server = server_with(3).await;
    let _fault = server
        .faults()
        .answer(Verb::Patch, SITES, Answer::code(403));
    let error = next_release()
        .install(&connect(&server), LIMIT)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Request(_)), "{error}");
    assert_eq!(stored_versions(&server), json!(["v1alpha1", "v1"]));
}

/// DEF-7: different versions of a kind need a conversion webhook.
#[tokio::test(start_paused = true)]
async fn a_definition_that_loses_fields_is_not_migrated() {
    let server = server_with(1).await;
    // Another program has written a definition with different versions and no conversion.
    let lossy = definition(&[
        version("v1alpha1", false, &["host"]),
        version("v1", true, &["domain"]),
    ]);
    server
        .install_crd(serde_json::to_value(&lossy).unwrap())
        .unwrap();
    let newest = Crd::new(&lossy).newest_version_only();
    let definitions = Crds::new().with(newest);
    let installed = definitions.install(&connect(&server), LIMIT).await;
    assert!(matches!(installed.unwrap_err(), Error::Unconverted { .. }));
    assert_eq!(stored_in(&server, "v1alpha1"), 1);
    assert_eq!(
        writes(&server),
        1,
        "the installation wrote the first release"
    );
}
