//! Plays a whole rollout against a world in memory that takes every step at once.

use steersman::k8s_openapi::api::apps::v1::DeploymentSpec;
use steersman::k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::*;

const STARTUP: SignedDuration = SignedDuration::from_secs(3);

#[derive(Default)]
struct Cluster {
    deployment: Option<Deployment>,
    sets: BTreeMap<ObjectKey, Arc<ReplicaSet>>,
    pods: BTreeMap<ObjectKey, Arc<Pod>>,
    uids: u32,
    now: i64,
}

impl Cluster {
    fn with_deployment(replicas: i32) -> Self {
        let template = PodTemplateSpec {
            spec: Some(PodSpec {
                containers: vec![Container {
                    name: "web".into(),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            ..Default::default()
        };
        let metadata = ObjectMeta {
            namespace: Some("default".into()),
            name: Some("hello".into()),
            uid: Some("deployment-1".into()),
            generation: Some(1),
            ..Default::default()
        };
        let spec = DeploymentSpec {
            replicas: Some(replicas),
            template,
            ..Default::default()
        };
        let deployment = Deployment {
            metadata,
            spec: Some(spec),
            status: None,
        };
        Self {
            deployment: Some(deployment),
            ..Default::default()
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.now).unwrap()
    }

    /// Plans and takes the steps until nothing is left to do at this moment.
    fn settle(&mut self) -> Option<SignedDuration> {
        for _ in 0..20 {
            let sets: Vec<_> = self.sets.values().cloned().collect();
            let pods: Vec<_> = self.pods.values().cloned().collect();
            let deployment = self.deployment.clone();
            let world = World {
                deployment: deployment.as_ref(),
                replica_sets: &sets,
                pods: &pods,
            };
            let plan = plan(&world, STARTUP, self.now());
            if plan.steps.is_empty() {
                return plan.look_again;
            }
            plan.steps.into_iter().for_each(|step| self.take(step));
        }
        panic!("the plan never settles");
    }

    fn born(&mut self, meta: &mut ObjectMeta) {
        self.uids += 1;
        meta.uid = Some(format!("uid-{}", self.uids));
        meta.creation_timestamp = Some(Time(self.now()));
        meta.generation = Some(1);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::CreateReplicaSet(mut set) => {
                let owner = self.deployment.clone().unwrap();
                owner::set_controller_reference(&owner, &mut *set).unwrap();
                self.born(&mut set.metadata);
                self.sets.insert(set.key(), Arc::new(*set));
            }
            Step::Scale(set, replicas) => {
                let set = Arc::make_mut(self.sets.get_mut(&set.key()).unwrap());
                set.spec.as_mut().unwrap().replicas = Some(replicas);
            }
            Step::DeleteReplicaSet(key) => {
                let uid = self.sets.remove(&key).unwrap().metadata.uid.clone();
                // What it controlled is the collector's.
                self.pods.retain(|_, pod| {
                    owner::controller_of(&pod.metadata).map(|o| &o.uid) != uid.as_ref()
                });
            }
            Step::CreatePod(mut pod, set) => {
                owner::set_controller_reference(&*set, &mut *pod).unwrap();
                self.born(&mut pod.metadata);
                assert!(self.pods.insert(pod.key(), Arc::new(*pod)).is_none());
            }
            Step::DeletePod(key) => drop(self.pods.remove(&key)),
            Step::Run(pod, status) => {
                Arc::make_mut(self.pods.get_mut(&pod.key()).unwrap()).status = Some(*status);
            }
            Step::ReplicaSetStatus(set, status) => {
                if let Some(set) = self.sets.get_mut(&set.key()) {
                    Arc::make_mut(set).status = Some(*status);
                }
            }
            Step::DeploymentStatus(status) => {
                self.deployment.as_mut().unwrap().status = Some(*status);
            }
        }
    }

    fn status(&self) -> DeploymentStatus {
        self.deployment.clone().unwrap().status.unwrap()
    }
}

#[test]
fn pods_start_and_are_counted() {
    let mut cluster = Cluster::with_deployment(2);
    assert_eq!(cluster.settle(), Some(STARTUP));
    assert_eq!((cluster.sets.len(), cluster.pods.len()), (1, 2));
    assert_eq!(cluster.status().ready_replicas, Some(0));
    cluster.now += 3;
    assert_eq!(cluster.settle(), None);
    let status = cluster.status();
    assert_eq!(
        (status.replicas, status.updated_replicas),
        (Some(2), Some(2))
    );
    assert_eq!(
        (status.ready_replicas, status.observed_generation),
        (Some(2), Some(1))
    );
}

#[test]
fn scaling_down_deletes_and_a_deleted_pod_comes_back() {
    let mut cluster = Cluster::with_deployment(3);
    cluster.settle();
    cluster
        .deployment
        .as_mut()
        .unwrap()
        .spec
        .as_mut()
        .unwrap()
        .replicas = Some(1);
    cluster.settle();
    assert_eq!(cluster.pods.len(), 1);
    let (_, set) = cluster.sets.first_key_value().unwrap();
    assert_eq!(set.spec.as_ref().unwrap().replicas, Some(1));
    let uid = cluster.pods.pop_first().unwrap().1.metadata.uid.clone();
    cluster.settle();
    assert_ne!(cluster.pods.first_key_value().unwrap().1.metadata.uid, uid);
}

#[test]
fn old_pods_stay_until_the_new_ones_are_ready() {
    let mut cluster = Cluster::with_deployment(2);
    cluster.settle();
    cluster.now = 10;
    cluster.settle();
    let spec = cluster.deployment.as_mut().unwrap().spec.as_mut().unwrap();
    spec.template.spec.as_mut().unwrap().containers[0].image = Some("new".into());
    cluster.settle();
    let status = cluster.status();
    assert_eq!(
        (status.replicas, status.updated_replicas),
        (Some(4), Some(2))
    );
    assert_eq!(status.ready_replicas, Some(2));
    cluster.now = 20;
    cluster.settle();
    assert_eq!((cluster.sets.len(), cluster.pods.len()), (1, 2));
    assert_eq!(cluster.status().replicas, Some(2));
}

#[test]
fn what_others_control_is_never_touched() {
    let mut cluster = Cluster::with_deployment(1);
    cluster.settle();
    // Recreated under its name: what the former one owned is the collector's to take.
    let former = cluster.sets.pop_first().unwrap();
    let pod = cluster.pods.pop_first().unwrap();
    cluster.deployment.as_mut().unwrap().metadata.uid = Some("deployment-2".into());
    cluster.settle();
    assert_ne!(cluster.sets[&former.0].metadata.uid, former.1.metadata.uid);
    let (sets, pods) = ([former.1], [pod.1]);
    for deployment in [None, cluster.deployment.as_ref()] {
        let world = World {
            deployment,
            replica_sets: &sets,
            pods: &pods,
        };
        let steps = plan(&world, STARTUP, cluster.now()).steps;
        let deletes = |step: &Step| matches!(step, Step::DeletePod(_) | Step::DeleteReplicaSet(_));
        assert!(!steps.iter().any(deletes), "{steps:?}");
    }
}

#[test]
fn the_names_lead_back_to_the_deployment() {
    let mut cluster = Cluster::with_deployment(1);
    cluster.settle();
    let set = cluster.sets.pop_first().unwrap().1;
    let pod = cluster.pods.pop_first().unwrap().1;
    assert_eq!(
        objects::deployment_of(&set.metadata).as_deref(),
        Some("hello")
    );
    assert_eq!(
        objects::deployment_of(&pod.metadata).as_deref(),
        Some("hello")
    );
}
