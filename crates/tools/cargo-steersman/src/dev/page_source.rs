//! Driver: reads the debug page of an operator, at an address or through the API server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, COOKIE, HeaderName};
use http::{Request, Uri};
use k8s_openapi::api::core::v1::Pod;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use steersman_api::kube_client::{self, Client, Config};
use steersman_api::{Api, Decoded, Paging};
use steersman_object::{LabelSelector, ListOptions, ObjectKey, json_items, json_text, report};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::command_line::TopArgs;
use crate::error::Error;
use crate::kubeconfig;
use crate::project::Project;

/// The debug page of one replica of an operator. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("PageSource({place})")]
pub(crate) struct PageSource {
    client: Client,
    /// The address of the server, or the Pod.
    place: String,
    /// The address of the page without its last slash, or its path below the address of the API server.
    page: String,
    token: PageToken,
}

/// The token for a debug page.
#[derive(Clone)]
enum PageToken {
    None,
    /// The token of a file.
    Given(String),
    /// That of a ServiceAccount, with the time when it was asked for.
    OfAccount {
        account: ObjectKey,
        token: Arc<Mutex<Option<(Instant, String)>>>,
    },
}

/// What the debug page of one process shows.
#[derive(Debug, Default)]
pub(crate) struct PageViews {
    pub(crate) overview: Value,
    pub(crate) caches: Value,
    /// The controllers by name, as they were when they last finished a reconcile.
    pub(crate) controllers: BTreeMap<String, Value>,
    /// The number of the look at each controller, so that each has its turn.
    pub(crate) looks: BTreeMap<String, u64>,
    pub(crate) last_look: u64,
}

/// Why a request got no JSON.
struct NoAnswer {
    /// The status code; `None` without an answer.
    code: Option<u16>,
    problem: String,
}

/// The number of controllers that are read in one look.
const MOST_CONTROLLERS: usize = 8;

/// The time limit of a request.
const LIMIT: Duration = Duration::from_secs(10);

/// How long the token for the page is valid, in seconds: the shortest time that a server accepts.
const TOKEN_SECONDS: u64 = 600;

/// The age from which on another token is asked for.
const RENEWED_AFTER: Duration = Duration::from_secs(TOKEN_SECONDS / 2);

impl PageSource {
    pub(crate) async fn find(args: &TopArgs) -> Result<Self, Error> {
        match &args.address {
            Some(address) => {
                let read = |path: &PathBuf| {
                    std::fs::read_to_string(path).map_err(|error| Error::DebugPage {
                        page: address.clone(),
                        problem: format!("the token {}: {error}", path.display()),
                    })
                };
                let token = args.token_path.as_ref().map(read).transpose()?;
                Self::at(address, token.as_deref())
            }
            None => Self::in_cluster(args).await,
        }
    }

    /// Returns the page of a metrics server, such as `https://127.0.0.1:8443`.
    pub(crate) fn at(address: &str, token: Option<&str>) -> Result<Self, Error> {
        let wrong = |problem: String| Error::DebugPage {
            page: address.to_owned(),
            problem,
        };
        let uri: Uri = address.parse().map_err(|_| {
            wrong(
                "it is no address such as http://127.0.0.1:8080 or https://127.0.0.1:8443"
                    .to_owned(),
            )
        })?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.host().is_none() {
            return Err(wrong(
                "it must begin with http:// or https:// and a host".to_owned(),
            ));
        }
        let mut config = Config::new(uri);
        // The operator signs its certificate itself.
        config.accept_invalid_certs = true;
        let client = Client::try_from(config).map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            client,
            place: address.to_owned(),
            page: "/debug".to_owned(),
            token: match token {
                Some(token) => PageToken::Given(token.trim().to_owned()),
                None => PageToken::None,
            },
        })
    }

    /// Finds a Pod of the operator in the current folder, and gets a token of its ServiceAccount.
    async fn in_cluster(args: &TopArgs) -> Result<Self, Error> {
        let name = match &args.name {
            Some(name) => name.clone(),
            None => Project::find()?.name,
        };
        let namespace = args
            .namespace
            .clone()
            .unwrap_or_else(|| format!("{name}-system"));
        let config = kubeconfig::find(args.context.as_deref())
            .await
            .map_err(Error::Connect)?;
        let client = config.connect().await.map_err(Error::Connect)?;
        let pod = match &args.pod {
            Some(pod) => pod.clone(),
            None => ready_pod(&client, &namespace, &name).await?,
        };
        let account = args.account.as_ref().unwrap_or(&name);
        let token = PageToken::OfAccount {
            account: ObjectKey::namespaced(&namespace, account),
            token: Arc::default(),
        };
        let port = args.port;
        Ok(Self {
            client,
            place: format!("Pod {namespace}/{pod}, port {port}"),
            page: format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy/debug"),
            token,
        })
    }

    /// Reads the views again: of the controllers only those that have finished reconciles since. Cancel safe.
    pub(crate) async fn renew(&self, views: &mut PageViews) -> Result<(), Error> {
        views.overview = self.get("overview?limit=200").await?;
        views.caches = self.get("caches?limit=500").await?;
        let rows = json_items(&views.overview["controllers"]["items"]);
        let controllers = &mut views.controllers;
        let is_new = |row: &&Value| {
            let known = controllers.get(json_text(&row["name"]));
            known.is_none_or(|known| known["row"]["finished"] != row["finished"])
        };
        let mut new: Vec<&str> = rows
            .filter(is_new)
            .map(|row| json_text(&row["name"]))
            .collect();
        new.sort_by_key(|name| views.looks.get(*name).copied().unwrap_or_default());
        views.last_look += 1;
        for name in new.into_iter().take(MOST_CONTROLLERS) {
            let encoded = utf8_percent_encode(name, NON_ALPHANUMERIC);
            let path = format!("controller?controller={encoded}&limit=64");
            // A controller may have gone since.
            if let Ok(view) = self.get(&path).await {
                controllers.insert(name.to_owned(), view);
            }
            views.looks.insert(name.to_owned(), views.last_look);
        }
        Ok(())
    }

    /// Returns the overview of the page.
    pub(crate) async fn overview(&self) -> Result<Value, Error> {
        self.get("overview?limit=40").await
    }

    async fn get(&self, view: &str) -> Result<Value, Error> {
        let path = format!("{}/api/{view}", self.page);
        let wrong = |problem: String| Error::DebugPage {
            page: path.clone(),
            problem,
        };
        let mut request = Request::get(&path);
        if let Some((name, value)) = self.token.header(&self.client).await? {
            request = request.header(name, value);
        }
        let request = request.body(Vec::new());
        let request = request.map_err(|error| wrong(error.to_string()))?;
        let answer = send(&self.client, request).await;
        answer.map_err(|no_answer| wrong(no_answer.with_hint()))
    }
}

impl NoAnswer {
    /// Returns the problem, with what may help if the page itself gave the answer.
    fn with_hint(self) -> String {
        let hint = match self.code {
            Some(401) => "name the file of a token with --token-path",
            Some(403) => {
                "the user of the token needs the verb get for the nonResourceURLs /debug/*, and through an API server you need it for pods/proxy"
            }
            Some(404) => "an operator without --debug-page has no page",
            _ => return self.problem,
        };
        format!("{} ({hint})", self.problem)
    }
}

impl PageToken {
    /// Returns the header with the token. The API server passes no `Authorization` header on, but cookies.
    async fn header(&self, client: &Client) -> Result<Option<(HeaderName, String)>, Error> {
        Ok(match self {
            Self::None => None,
            Self::Given(token) => Some((AUTHORIZATION, format!("Bearer {token}"))),
            Self::OfAccount { account, token } => {
                let mut known = token.lock().await;
                let valid = known.take_if(|(asked, _)| asked.elapsed() < RENEWED_AFTER);
                let valid = match valid {
                    Some(valid) => valid,
                    None => (Instant::now(), token_of(client, account).await?),
                };
                let cookie = format!("steersman-token={}", valid.1);
                *known = Some(valid);
                Some((COOKIE, cookie))
            }
        })
    }
}

impl fmt::Display for PageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the debug page of {}", self.place)
    }
}

/// Returns the name of the first ready Pod of an operator.
async fn ready_pod(client: &Client, namespace: &str, name: &str) -> Result<String, Error> {
    let labels = LabelSelector::label("app.kubernetes.io/name", name);
    let selected = ListOptions::new().namespace(namespace).labels(labels);
    let pods = Api::<Pod>::typed(client.clone());
    let wrong = |problem: String| Error::DebugPage {
        page: format!("of {name} in namespace {namespace}"),
        problem,
    };
    let listed = timeout(LIMIT, pods.list_all(&selected, &Paging::new())).await;
    let listed = listed.map_err(|_| wrong("the API server does not answer".to_owned()))?;
    let listed = listed.map_err(|error| wrong(error.to_string()))?;
    let mut pods = listed.items.into_iter().filter_map(|item| match item {
        Decoded::Good(pod) => Some(pod),
        Decoded::Malformed(_) => None,
    });
    let found = pods.find(is_ready).and_then(|pod| pod.metadata.name);
    found.ok_or_else(|| {
        wrong(format!(
            "no Pod with the label app.kubernetes.io/name={name} is ready there: name another --namespace, or a --pod"
        ))
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Asks for a token of a ServiceAccount.
async fn token_of(client: &Client, account: &ObjectKey) -> Result<String, Error> {
    let wrong = |problem: String| Error::DebugPage {
        page: format!("with a token of the ServiceAccount {account}"),
        problem,
    };
    let asked = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS, "audiences": []},
    });
    let (namespace, name) = (account.namespace().unwrap_or_default(), account.name());
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(asked.to_string().into_bytes());
    let request = request.map_err(|error| wrong(error.to_string()))?;
    let answer = send(client, request).await;
    let answer = answer.map_err(|no_answer| wrong(no_answer.problem))?;
    Ok(json_text(&answer["status"]["token"]).to_owned())
}

/// Sends a request, and returns the JSON of the response; or what is wrong.
async fn send(client: &Client, request: Request<Vec<u8>>) -> Result<Value, NoAnswer> {
    let answer = timeout(LIMIT, client.request_text(request)).await;
    let without_code = |problem: String| NoAnswer {
        code: None,
        problem,
    };
    let answer = answer.map_err(|_| without_code("no answer within 10 s".to_owned()))?;
    let text = answer.map_err(|error| match &error {
        kube_client::Error::Api(status) => NoAnswer {
            code: Some(status.code),
            problem: format!("the answer is {}: {}", status.code, status.message.trim()),
        },
        error => without_code(report(error).to_string()),
    })?;
    let json = serde_json::from_str(&text);
    json.map_err(|error| without_code(format!("the response is no JSON: {error}")))
}
