//! Machine: authenticates the tokens in `Authorization: Bearer` headers and in TokenReviews.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use steersman_auth::{CREDENTIAL_ID, ForeignToken, SECRET_ISSUER, User};
use steersman_store::Stored;

use crate::state::registry::Registry;
use crate::values::{one_or_many, text};

const UNKNOWN: &str = "invalid bearer token";
/// The error message for a token that is bound to a deleted Pod, Secret or Node.
pub(super) const INVALIDATED: &str = "service account token has been invalidated";
/// The tolerance for clocks that differ: a token is accepted this long before its start and after its expiration, and
/// after the deletion of an object to which it is bound.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// The result of [`Registry::authenticate`]: the user and the audiences of a valid token.
#[derive(Debug)]
pub struct ValidToken {
    /// The user for which the token was issued or registered.
    pub user: Arc<User>,
    /// Those audiences of the token that the caller of [`Registry::authenticate`] asked for.
    pub audiences: Vec<String>,
}

impl Registry {
    /// Registers a token with which clients authenticate as this user. If `kept` is true, snapshots and the write-ahead
    /// log contain the token, so that it stays valid after a restart.
    pub fn add_token(&mut self, token: String, user: User, kept: bool) {
        self.tokens.add(token, Arc::new(user.authenticated()), kept);
        if let Some(recorder) = &mut self.recorder {
            recorder.has_new_token |= kept;
        }
    }

    /// Checks a token, which must be for one of `audiences`; an empty list stands for the audiences of this server.
    ///
    /// # Errors
    /// Fails with a message for a token that is not valid, as a TokenReview has it in `status.error`.
    pub fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<ValidToken, String> {
        let own = self.issuer.audiences();
        let wanted = if audiences.is_empty() { own } else { audiences };
        if let Some(user) = self.tokens.get(token) {
            // A token of `add_token` names no audiences. It is meant for this server, so it has the server's audiences.
            let audiences = common(own, wanted);
            if audiences.is_empty() {
                return Err(UNKNOWN.to_owned());
            }
            return Ok(ValidToken { user, audiences });
        }
        let claims = self.issuer.claims(token).map_err(|why| match why {
            ForeignToken::Unknown => UNKNOWN.to_owned(),
            ForeignToken::Signature(why) => format!("[{UNKNOWN}, {why}]"),
        })?;
        let judged = if claims["iss"] == SECRET_ISSUER {
            self.judge_secret_token(&claims, token, wanted, now)
        } else {
            self.judge(&claims, wanted, now)
        };
        judged.map_err(|why| format!("[{UNKNOWN}, {why}]"))
    }

    pub(super) fn audiences_of(
        &self,
        claims: &Value,
        wanted: &[String],
    ) -> Result<Vec<String>, String> {
        let mut made_for: Vec<String> = one_or_many(&claims["aud"]).map(str::to_owned).collect();
        if made_for.is_empty() {
            made_for = self.issuer.audiences().to_vec();
        }
        let audiences = common(&made_for, wanted);
        if audiences.is_empty() {
            let quoted = |list: &[String]| {
                let all: Vec<String> = list.iter().map(|one| format!("{one:?}")).collect();
                format!("[{}]", all.join(" "))
            };
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(&made_for),
                quoted(wanted)
            ));
        }
        Ok(audiences)
    }

    /// Checks the claims of a ServiceAccount token: its audiences and times, and that the ServiceAccount and the
    /// objects to which the token is bound still exist (AUTH-2).
    fn judge(
        &self,
        claims: &Value,
        wanted: &[String],
        now: Timestamp,
    ) -> Result<ValidToken, String> {
        let audiences = self.audiences_of(claims, wanted)?;
        let at = |field: &str| Timestamp::from_second(claims[field].as_i64().unwrap_or_default());
        let ends = at("exp").and_then(|ends| ends.checked_add(LEEWAY));
        if ends.is_ok_and(|ends| ends < now) {
            return Err("service account token has expired".to_owned());
        }
        for (claim, why) in [
            ("nbf", "service account token is not valid yet"),
            ("iat", "service account token is issued in the future"),
        ] {
            let begins = at(claim).and_then(|begins| begins.checked_sub(LEEWAY));
            if begins.is_ok_and(|begins| begins > now) {
                return Err(why.to_owned());
            }
        }
        let private = &claims["kubernetes.io"];
        let namespace = text(&private["namespace"]);
        let account = &private["serviceaccount"];
        let (name, claimed) = (text(&account["name"]), text(&account["uid"]));
        let Some(found) = self.object(("", "serviceaccounts"), namespace, name) else {
            return Err(format!("serviceaccounts \"{name}\" not found"));
        };
        let uid = found.meta("uid");
        if uid != claimed {
            return Err(format!(
                "service account UID ({uid}) does not match claim ({claimed})"
            ));
        }
        if is_gone(found, now) {
            let account = format!("{namespace}/{name}");
            return Err(format!("service account {account} has been deleted"));
        }
        let mut user = User::service_account(namespace, name).uid(uid);
        if let Some(id) = claims["jti"].as_str() {
            user = user.extra(CREDENTIAL_ID, format!("JTI={id}"));
        }
        for (kind, plural, place) in [
            ("pod", "pods", namespace),
            ("secret", "secrets", namespace),
            ("node", "nodes", ""),
        ] {
            let bound = &private[kind];
            // A token that is bound to a Pod also names the Pod's Node. As this is just information about the user, the
            // Node need not exist.
            let checked = kind != "node" || private["pod"].is_null();
            if bound.is_null() {
                continue;
            }
            let (name, uid) = (text(&bound["name"]), text(&bound["uid"]));
            if checked {
                self.is_there((kind, plural), (place, name), uid, now)?;
            }
            if kind != "secret" {
                let key = |part: &str| format!("authentication.kubernetes.io/{kind}-{part}");
                user = user.extra(&key("name"), name);
                if !uid.is_empty() {
                    user = user.extra(&key("uid"), uid);
                }
            }
        }
        let user = Arc::new(user);
        Ok(ValidToken { user, audiences })
    }

    fn is_there(
        &self,
        (kind, plural): (&str, &str),
        (namespace, name): (&str, &str),
        claimed: &str,
        now: Timestamp,
    ) -> Result<(), String> {
        let found = self.object(("", plural), namespace, name);
        let found = found.ok_or_else(|| INVALIDATED.to_owned())?;
        let uid = found.meta("uid");
        if uid != claimed {
            return Err(format!(
                "{kind} UID ({uid}) does not match service account {kind} ref claim ({claimed})"
            ));
        }
        if is_gone(found, now) {
            return Err(INVALIDATED.to_owned());
        }
        Ok(())
    }
}

fn common(audiences: &[String], wanted: &[String]) -> Vec<String> {
    let both = wanted.iter().filter(|one| audiences.contains(one));
    both.cloned().collect()
}

fn is_gone(object: &Stored, now: Timestamp) -> bool {
    let deleted = object.meta("deletionTimestamp").parse::<Timestamp>();
    let deleted = deleted.and_then(|deleted| deleted.checked_add(LEEWAY));
    deleted.is_ok_and(|deleted| deleted < now)
}
