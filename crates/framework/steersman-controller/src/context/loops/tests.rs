//! Tests of the detector of requests that trigger themselves, with a clock that the tests set.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;

struct World {
    detector: LoopDetector,
    request: RequestId,
    kind: Kind,
    key: ObjectKey,
    version: u64,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self {
            detector: LoopDetector::new(),
            request: RequestId::new("sites", "shop/web"),
            kind: Kind::of::<Deployment>(),
            key: ObjectKey::namespaced("shop", "web"),
            version: 1,
            now: tokio::time::Instant::now().into_std(),
        }
    }

    fn changed(&self, version: u64) -> Arc<ChangedObject> {
        Arc::new(ChangedObject {
            kind: self.kind.clone(),
            key: self.key.clone(),
            cluster: None,
            change: ObjectChange::Updated,
            version: ResourceVersion::new(version.to_string()),
        })
    }

    fn begin(&mut self, changes: &[Arc<ChangedObject>]) {
        self.detector.handle_begin(&self.request, changes, self.now);
    }

    fn write(&mut self) -> LoopFinding {
        self.version += 1;
        self.answer(self.version)
    }

    fn answer(&mut self, version: u64) -> LoopFinding {
        let version = ResourceVersion::new(version.to_string());
        self.detector
            .handle_write(&self.request, &self.kind, &self.key, &version, self.now)
    }

    /// Begins a run that the last write caused, and writes the object again.
    fn round(&mut self) -> LoopFinding {
        let own = self.changed(self.version);
        self.begin(&[own]);
        self.write()
    }
}

// CTRL-24: a run is part of a loop if only the last write of the previous run caused it and it writes the object again.
#[test]
fn a_loop_is_found_after_its_tenth_run_and_warned_of_once() {
    let mut world = World::new();
    assert_eq!(world.write(), LoopFinding::Ordinary);
    for run in 1..LOOP {
        assert_eq!(world.round(), LoopFinding::Ordinary, "run {run}");
        let fields = vec![format!("status.seen{run}")];
        world
            .detector
            .handle_change(&world.kind.clone(), &world.key.clone(), fields);
    }
    let found = LoopFinding::Warn {
        runs: LOOP,
        fields: "status.seen9".to_owned(),
    };
    assert_eq!(world.round(), found);
    for _ in 0..100 {
        assert_eq!(world.round(), LoopFinding::InLoop);
    }
    assert!(!world.detector.observes_any());
}

// CTRL-24: a timer, a retry, another change, a write without effect or a minute without a write ends a loop.
#[test]
fn whatever_else_causes_a_run_or_ends_its_writes_ends_the_loop() {
    type Break = fn(&mut World);
    let breaks: [(&str, Break); 6] = [
        ("a timer or a retry", |world| world.begin(&[])),
        ("a change of another writer", |world| {
            world.version += 1;
            let foreign = world.changed(world.version);
            world.begin(&[foreign]);
        }),
        ("a change of another object as well", |world| {
            let mut other = ChangedObject::clone(&world.changed(world.version));
            other.kind = Kind::of::<ConfigMap>();
            let own = world.changed(world.version);
            world.begin(&[own, Arc::new(other)]);
        }),
        ("a run that writes nothing", |world| {
            let own = world.changed(world.version);
            world.begin(&[own]);
            world.begin(&[]);
        }),
        ("a write without effect", |world| {
            let own = world.changed(world.version);
            world.begin(&[own]);
            assert_eq!(world.answer(world.version), LoopFinding::Ordinary);
            let own = world.changed(world.version);
            world.begin(&[own]);
        }),
        ("a long pause", |world| {
            world.now += LONGEST_ROUND + Duration::from_secs(1);
            let own = world.changed(world.version);
            world.begin(&[own]);
        }),
    ];
    for (name, end) in breaks {
        let mut world = World::new();
        world.write();
        for _ in 1..LOOP {
            world.round();
        }
        end(&mut world);
        assert_eq!(world.write(), LoopFinding::Ordinary, "{name}");
        for _ in 1..LOOP {
            assert_eq!(world.round(), LoopFinding::Ordinary, "{name}");
        }
        assert_ne!(world.round(), LoopFinding::Ordinary, "{name}");
    }
}

#[test]
fn a_request_that_writes_another_object_in_each_run_is_no_loop() {
    let mut world = World::new();
    for number in 0..100 {
        let own = world.changed(world.version);
        world.begin(&[own]);
        world.key = ObjectKey::namespaced("shop", format!("child-{number}"));
        assert_eq!(world.write(), LoopFinding::Ordinary);
    }
}

#[test]
fn requests_without_recent_writes_are_removed() {
    let mut world = World::new();
    for number in 0..100_000_u32 {
        world.request = RequestId::new("sites", number);
        world.now += Duration::from_secs(1);
        world.write();
        assert!(world.detector.requests.len() <= 2 * SWEEP_FROM);
    }
}

#[test]
fn an_object_is_not_observed_for_ever_after_its_loop_ended_early() {
    let mut world = World::new();
    world.write();
    for _ in 2..LOOP {
        world.round();
    }
    assert!(world.detector.observes(&world.kind, &world.key));
    world.now += OBSERVED_FOR + Duration::from_secs(1);
    world.begin(&[]);
    assert!(!world.detector.observes_any());
}

#[test]
fn a_run_that_writes_many_objects_is_followed_for_the_first_of_them() {
    let mut world = World::new();
    for number in 0..10 * MOST_WRITES {
        world.key = ObjectKey::namespaced("shop", format!("child-{number}"));
        assert_eq!(world.write(), LoopFinding::Ordinary);
    }
    let writing = &world.detector.requests[&world.request];
    assert_eq!(writing.writes.len(), MOST_WRITES);
}

/// Makes a loop for each object of `names`, one after another, and moves the clock by `seconds` after each loop.
/// Returns the names of the objects that warnings name.
fn warned(world: &mut World, names: impl Iterator<Item = usize>, seconds: u64) -> Vec<String> {
    let mut warned = Vec::new();
    for name in names {
        world.request = RequestId::new("sites", name);
        world.key = ObjectKey::namespaced("shop", format!("web-{name}"));
        world.begin(&[]);
        world.write();
        for _ in 0..LOOP {
            if matches!(world.round(), LoopFinding::Warn { .. }) {
                warned.push(world.key.name().to_owned());
            }
        }
        world.now += Duration::from_secs(seconds);
    }
    warned
}

// CTRL-24: at most one warning in ten minutes names the same object.
#[test]
fn warnings_about_one_object_have_a_pause() {
    let mut world = World::new();
    assert_eq!(warned(&mut world, [7; 50].into_iter(), 60).len(), 5);
}

// CTRL-24: the warnings of a controller name at most 16 objects in ten minutes.
#[test]
fn each_object_has_a_warning_of_its_own_up_to_a_bound() {
    let mut world = World::new();
    let expected: Vec<String> = (0..MOST_WARNED).map(|name| format!("web-{name}")).collect();
    assert_eq!(warned(&mut world, 0..100, 1), expected);
    assert!(world.detector.observed.len() <= MOST_OBSERVED);
    world.now += BETWEEN_WARNINGS;
    assert_eq!(
        warned(&mut world, 50..52, 1),
        ["web-50", "web-51"],
        "those are warned of later"
    );
}

// CTRL-24: a loop that continues is named again, with the fields that changed last.
#[test]
fn a_loop_that_goes_on_is_warned_of_again_with_the_fields_of_then() {
    let mut world = World::new();
    world.write();
    let mut found = Vec::new();
    for run in 1..200_u32 {
        world.now += Duration::from_secs(10);
        if let LoopFinding::Warn { runs, fields } = world.round() {
            found.push((runs, fields));
        }
        let (kind, key) = (world.kind.clone(), world.key.clone());
        let fields = vec![format!("status.seen{run}")];
        world.detector.handle_change(&kind, &key, fields);
    }
    let fields = |run: u32| format!("status.seen{run}");
    assert_eq!(
        found,
        [
            (LOOP, fields(9)),
            (LOOP + 61, fields(70)),
            (LOOP + 122, fields(131)),
            (LOOP + 183, fields(192))
        ]
    );
}

#[test]
fn the_first_fields_that_differ_are_named() {
    let old = json!({
        "metadata": {"resourceVersion": "1", "generation": 1, "labels": {"a": "1"}},
        "status": {"at": "10:00", "conditions": [{"type": "Ready"}, {"type": "Live", "age": 1}], "list": [1]},
    });
    let new = json!({
        "metadata": {"resourceVersion": "2", "generation": 2, "labels": {"a": "1"}},
        "status": {"conditions": [{"type": "Ready"}, {"type": "Live", "age": 2}], "list": [1, 2], "new": true},
    });
    assert_eq!(
        changed_fields(&old, &new),
        ["status.at", "status.conditions[1].age", "status.list"]
    );
    assert!(changed_fields(&old, &old).is_empty());
}
