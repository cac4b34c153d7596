//! The installation of the guide's page about production: its objects, and its Deployment's replicas as processes.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Map, Value, json};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::auth::User;
use steersman_testenv::{TestEnv, eventually, json_lines};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::site::Site;
use crate::binary::{configured, free_address};
use crate::production::{documents, install_service_monitors, webhook_objects};
use crate::replica::Replica;
use crate::webhooks::send;

pub(super) const NAMESPACE: &str = "websites-system";
pub(super) const NAME: &str = "website-operator";
pub(super) const ACCOUNT: &str = "system:serviceaccount:websites-system:website-operator";

const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

/// What the page does not have: a short election, a log of every step, and metrics that need no token.
const OF_THE_TEST: [&str; 5] = [
    "--leader-election-lease-duration=8s",
    "--leader-election-renew-deadline=5s",
    "--leader-election-retry-period=1s",
    "--log-level=info",
    "--metrics-secure=false",
];

/// An API server with the objects of the page, the running replicas, and the websites that must not be lost.
pub(super) struct Installation {
    env: TestEnv,
    home: TempDir,
    /// The arguments of the page's Deployment.
    arguments: Vec<String>,
    pub(super) replicas: Vec<Replica>,
    /// The log of each process that was started.
    logs: Vec<PathBuf>,
    pub(super) sites: BTreeMap<String, Site>,
}

impl Installation {
    /// Creates the objects of the page, and a kubeconfig for its ServiceAccount.
    pub(super) async fn new() -> Self {
        let (env, home) = configured().await;
        let server = env.server().unwrap();
        install_service_monitors(server);
        for document in documents().chain(webhook_objects()) {
            server.create(document).unwrap();
        }
        let token = server.add_user(User::new(ACCOUNT));
        let mut config: Value = serde_saphyr::from_str(&env.kubeconfig().unwrap()).unwrap();
        config["users"][0]["user"] = json!({ "token": token });
        config["contexts"][0]["context"]["namespace"] = json!(NAMESPACE);
        std::fs::write(home.path().join("config"), config.to_string()).unwrap();

        let settings = server.get("configmaps", NAMESPACE, NAME).unwrap();
        let settings = settings["data"]["settings.yaml"].as_str().unwrap();
        std::fs::write(home.path().join("settings.yaml"), settings).unwrap();
        let deployment = server.get("deployments.apps", NAMESPACE, NAME).unwrap();
        let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        let arguments = arguments.as_array().unwrap().iter();
        let arguments = arguments.map(|argument| argument.as_str().unwrap().to_owned());
        Self {
            arguments: arguments.collect(),
            env,
            home,
            replicas: Vec::new(),
            logs: Vec::new(),
            sites: BTreeMap::new(),
        }
    }

    pub(super) fn server(&self) -> &ApiServer {
        self.env.server().unwrap()
    }

    /// Writes a certificate that is valid from 2001 until the first day of a year, into the folder `certificates` that
    /// the replicas see.
    pub(super) fn write_certificate(&self, until: i32) {
        let key = KeyPair::generate().unwrap();
        let mut certificate = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        certificate.not_before = rcgen::date_time_ymd(2001, 1, 1);
        certificate.not_after = rcgen::date_time_ymd(until, 1, 1);
        let chain = certificate.self_signed(&key).unwrap().pem();
        let folder = self.home.path().join("certificates");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("tls.crt"), chain).unwrap();
        std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    }

    /// Starts a replica with the arguments of the Deployment, of the test, and these. Files and ports are of this
    /// machine.
    pub(super) fn start(&mut self, further: &[&str]) {
        let of_page = self
            .arguments
            .iter()
            .map(|argument| match argument.split_once('=') {
                Some(("--config", _)) => "--config=settings.yaml".to_owned(),
                Some((flag, _)) if flag.ends_with("-bind-address") => {
                    format!("{flag}={}", free_address())
                }
                _ => argument.clone(),
            });
        let further = OF_THE_TEST.iter().chain(further);
        let further = further.map(|&argument| argument.to_owned());
        let arguments: Vec<String> = of_page.chain(further).collect();
        let name = format!("replica-{}", self.logs.len());
        self.logs.push(self.home.path().join(format!("{name}.log")));
        let replica = Replica::start(self.home.path(), &name, &arguments);
        self.replicas.push(replica);
        self.route();
    }

    /// Removes a replica from the Service, and returns it.
    pub(super) fn take(&mut self, at: usize) -> Replica {
        let replica = self.replicas.remove(at);
        self.route();
        replica
    }

    /// Stops all replicas, as a deletion of their Pods does.
    pub(super) async fn stop_all(&mut self) {
        for mut replica in std::mem::take(&mut self.replicas) {
            let status = replica.terminate().await;
            assert!(status.success(), "{status}\n{}", replica.log());
        }
    }

    /// Makes the Service lead to the replica that runs for the longest time.
    fn route(&self) {
        if let Some(replica) = self.replicas.first() {
            self.server()
                .route_service(NAMESPACE, NAME, 443, &replica.url());
        }
    }

    /// Waits until a check returns no problem; the failure shows all logs.
    pub(super) async fn until<T, F>(&self, what: &str, check: impl FnMut() -> F) -> T
    where
        F: Future<Output = Result<T, String>>,
    {
        let held = eventually(what, check).await;
        held.unwrap_or_else(|error| panic!("{error}\n{}", self.all_logs()))
    }

    fn all_logs(&self) -> String {
        let texts = self.logs.iter().map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            format!("{}:\n{text}", path.display())
        });
        texts.collect()
    }

    /// Returns the holder of the Lease; an empty text for none.
    pub(super) fn holder(&self) -> String {
        let lease = self
            .server()
            .get("leases.coordination.k8s.io", NAMESPACE, NAME);
        let lease = lease.unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str();
        holder.unwrap_or_default().to_owned()
    }

    /// Waits until exactly one of the replicas leads and holds the Lease, and returns its index and its identity.
    pub(super) async fn leader(&self) -> (usize, String) {
        self.until("one replica leads", || async {
            let holder = self.holder();
            let mut leaders = Vec::new();
            for (at, replica) in self.replicas.iter().enumerate() {
                if self
                    .metric(replica, "leader_election_master_status")
                    .await?
                    > 0.0
                {
                    leaders.push(at);
                }
            }
            match leaders[..] {
                [at] if self.replicas[at].leads_as(&holder) => Ok((at, holder)),
                _ => Err(format!("{leaders:?} lead, the Lease has {holder:?}")),
            }
        })
        .await
    }

    /// Waits until every replica is ready.
    pub(super) async fn ready(&self) {
        for replica in &self.replicas {
            self.until("a replica is ready", || async {
                match get(replica.address("health-probe"), "/readyz").await? {
                    (200, _) => Ok(()),
                    (_, checks) => Err(checks),
                }
            })
            .await;
        }
    }

    /// Creates a website in a version with its pages; it must not be lost from now on.
    pub(super) async fn create(&mut self, version: &str, name: &str, site: Site) {
        let pages = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"}, "data": {"index.html": name},
        });
        self.server().create(pages).unwrap();
        let object = crate::webhooks::site(version, name, &site.spec(version, name));
        self.until("the website passes the webhooks", || {
            send(self.server(), version, "POST", "", &object)
        })
        .await;
        self.sites.insert(name.to_owned(), site);
    }

    /// Changes a website in a version.
    pub(super) async fn change(&mut self, version: &str, name: &str, change: impl Fn(&mut Site)) {
        let mut site = self.sites[name].clone();
        change(&mut site);
        let patch = json!({"spec": site.spec(version, name)});
        let path = format!("/{name}");
        self.until("the change passes the webhooks", || {
            send(self.server(), version, "PATCH", &path, &patch)
        })
        .await;
        self.sites.insert(name.to_owned(), site);
    }

    /// Writes the pages of a website.
    pub(super) fn write_pages(&self, name: &str, text: &str) {
        let patch = json!({"data": {"index.html": text}});
        let written = self
            .server()
            .merge_patch("configmaps", "default", name, &patch);
        written.unwrap();
    }

    /// Deletes a website, and waits until all its children are gone.
    pub(super) async fn delete(&mut self, name: &str) {
        let (server, path) = (self.server(), format!("/{name}"));
        let deleted = send(server, "v1alpha1", "DELETE", &path, &Value::Null).await;
        deleted.unwrap();
        self.until("a website and its children are gone", || async {
            Site::check_gone(server, name)
        })
        .await;
        self.sites.remove(name);
    }

    /// Changes the rules of the operator's ClusterRole, and returns the former ones.
    pub(super) fn change_role(&self, change: impl FnOnce(&mut Vec<Value>)) -> Vec<Value> {
        let mut role = self.server().get(CLUSTER_ROLES, "", NAME).unwrap();
        let rules = role["rules"].as_array_mut().unwrap();
        let former = rules.clone();
        change(rules);
        assert_ne!(*rules, former);
        self.server().update(CLUSTER_ROLES, role).unwrap();
        former
    }

    /// Waits until every website has all its fields in both versions, is ready, and has all its children.
    pub(super) async fn nothing_is_lost(&self) {
        for (name, site) in &self.sites {
            self.until("a website is whole and served", || {
                site.check(self.server(), name)
            })
            .await;
        }
    }

    /// Returns the sum of the samples of a metric of a replica.
    pub(super) async fn metric(&self, replica: &Replica, name: &str) -> Result<f64, String> {
        let (_, text) = get(replica.address("metrics"), "/metrics").await?;
        let samples = text.lines().filter_map(|line| line.strip_prefix(name));
        let samples = samples.filter(|rest| rest.starts_with(['{', ' ']));
        let values = samples.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(values.sum())
    }

    /// Returns the lines of all logs, and of what the replicas printed to standard output.
    pub(super) fn lines(&self) -> Vec<Map<String, Value>> {
        let read = |path| json_lines(&std::fs::read_to_string(path).unwrap()).unwrap();
        let outputs = self.logs.iter().map(|log| log.with_extension("out"));
        let files = self.logs.iter().cloned().chain(outputs);
        files.flat_map(read).collect()
    }
}

/// Sends a GET, and returns the status and the body.
pub(super) async fn get(address: &str, path: &str) -> Result<(u16, String), String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = exchange.await.map_err(|error| error.to_string())?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| answer.clone())?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((status.ok_or(head)?, body.to_owned()))
}
