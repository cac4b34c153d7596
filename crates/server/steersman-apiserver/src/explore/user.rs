//! Driver: acts as the user of a world: applies, patches and deletes objects by requests, so that webhooks are called.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_auth::{MASTERS, User};
use steersman_explore::{ObjectId, Step};
use tower::ServiceExt as _;

use crate::server::ApiServer;

/// The name of the user, and the field manager of what the user applies.
const NAME: &str = "user";

/// The propagation policy of kubectl's deletes. Without a policy the Pods of a Job would stay.
pub(super) const PROPAGATION: &str = "Background";

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// Applies an object.
pub(super) async fn apply(server: &ApiServer, object: &Value) -> Result<(), Box<Status>> {
    apply_with(server, object, "").await
}

/// Tries the applies of a step, and stores nothing.
pub(super) async fn try_step(server: &ApiServer, step: &Step) -> Result<(), Box<Status>> {
    if let Step::Apply { objects, .. } = step {
        for object in objects {
            apply_with(server, object, "&dryRun=All").await?;
        }
    }
    Ok(())
}

async fn apply_with(
    server: &ApiServer,
    object: &Value,
    parameter: &str,
) -> Result<(), Box<Status>> {
    let mut object = object.clone();
    let version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let mut id = ObjectId::of(&object);
    let path = path_of(server, &version, &mut id)?;
    if !id.namespace.is_empty() {
        object["metadata"]["namespace"] = Value::from(id.namespace);
    }
    let path = format!("{path}?fieldManager={NAME}&force=true{parameter}");
    send(server, Method::PATCH, &path, APPLY, object.to_string()).await
}

/// Does the acting part of a step: applies, patches or deletes. Waiting steps do nothing.
pub(super) async fn act(server: &ApiServer, step: &Step) -> Result<(), Box<Status>> {
    match step {
        Step::Apply { objects, .. } => {
            for object in objects {
                apply(server, object).await?;
            }
            Ok(())
        }
        Step::Merge {
            api_version,
            object,
            patch,
        } => {
            let path = path_of(server, api_version, &mut object.clone())?;
            let path = format!("{path}?fieldManager={NAME}");
            send(server, Method::PATCH, &path, MERGE, patch.to_string()).await
        }
        Step::Delete {
            api_version,
            object,
        } => {
            let path = path_of(server, api_version, &mut object.clone())?;
            let path = format!("{path}?propagationPolicy={PROPAGATION}");
            send(
                server,
                Method::DELETE,
                &path,
                "application/json",
                String::new(),
            )
            .await
        }
        _ => Ok(()),
    }
}

/// Returns the path of an object. An object of a kind with namespaces that names none is one of `default`.
fn path_of(
    server: &ApiServer,
    api_version: &str,
    id: &mut ObjectId,
) -> Result<String, Box<Status>> {
    let Some((resource, is_namespaced)) = server.resource_of(api_version, &id.kind) else {
        let kind = &id.kind;
        let message = format!(
            "no resource serves kind {kind:?} of {api_version:?}; is its definition missing in `initial`?"
        );
        return Err(Box::new(Status::bad_request(message)));
    };
    let plural = resource.split('.').next().unwrap_or_default();
    let root = if api_version.contains('/') {
        "apis"
    } else {
        "api"
    };
    let name = &id.name;
    if !is_namespaced {
        return Ok(format!("/{root}/{api_version}/{plural}/{name}"));
    }
    if id.namespace.is_empty() {
        "default".clone_into(&mut id.namespace);
    }
    let namespace = &id.namespace;
    Ok(format!(
        "/{root}/{api_version}/namespaces/{namespace}/{plural}/{name}"
    ))
}

async fn send(
    server: &ApiServer,
    method: Method,
    path: &str,
    content_type: &str,
    body: String,
) -> Result<(), Box<Status>> {
    let service = server.service_as(User::new(NAME).group(MASTERS));
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(Full::new(Bytes::from(body)));
    let failed = |error: &dyn std::fmt::Display| Box::new(Status::internal(error.to_string()));
    let request = request.map_err(|error| failed(&error))?;
    let answer = service
        .oneshot(request)
        .await
        .map_err(|error| failed(&error))?;
    let code = answer.status().as_u16();
    if code < 400 {
        return Ok(());
    }
    let body = answer
        .into_body()
        .collect()
        .await
        .map_err(|error| failed(&error))?;
    let status: Option<Status> = serde_json::from_slice(&body.to_bytes()).ok();
    let status = status.unwrap_or_else(|| Status::failure(code, "", "the answer has no Status"));
    Err(Box::new(status))
}
