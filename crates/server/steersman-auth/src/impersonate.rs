//! Machine: checks that a user may impersonate the user in the headers of a request.

use std::collections::HashMap;

use http::HeaderMap;
use steersman_apimachinery::go;
use steersman_apimachinery::names::{NameRule, check_name};
use steersman_apimachinery::status::Status;

use super::attributes::Attributes;
use super::rbac::Authorizer;
use super::rule::quoted;
use super::user::{
    ANONYMOUS, AUTHENTICATED, MASTERS, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS, UNAUTHENTICATED,
    User,
};

const GROUP: &str = "authentication.k8s.io";
const NODE_PREFIX: &str = "system:node:";
/// The extra key with the node on which the Pod of a ServiceAccount runs.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// The number of groups or extra values from which on a permission for all values is checked first.
const MANY: usize = 4;
/// Maximum number of users for which the last successful mode is remembered.
const REMEMBERED: usize = 10_000;

/// Returns the user that the headers ask to impersonate; `None` without headers of impersonation.
///
/// # Errors
/// 400 for groups, a uid or extra values without a user.
pub fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut user = User::new(first("impersonate-user")).uid(first("impersonate-uid"));
    let groups = headers.get_all("impersonate-group").iter();
    user.groups = groups.map(text).collect();
    let mut has_extra = false;
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix("impersonate-extra-") else {
            continue;
        };
        has_extra = true;
        // A key with an invalid escape stays unchanged.
        let key = go::unescape(key).unwrap_or_else(|| key.to_owned());
        user.extra.entry(key).or_default().push(text(value));
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.uid.is_empty() && user.groups.is_empty() && !has_extra {
        return Ok(None);
    }
    Err(Status::bad_request(format!(
        "requested {} without impersonating a user name",
        as_go_writes(&user)
    )))
}

/// Prints a user as Go's `%#v` prints a `user.DefaultInfo`.
fn as_go_writes(user: &User) -> String {
    let text = go::quote;
    let texts = |list: &[String]| {
        let all: Vec<String> = list.iter().map(|one| text(one)).collect();
        format!("[]string{{{}}}", all.join(", "))
    };
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        some => texts(some),
    };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let all: Vec<String> = user
            .extra
            .iter()
            .map(|(k, v)| format!("{}:{}", text(k), texts(v)))
            .collect();
        format!("map[string][]string{{{}}}", all.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        text(&user.name),
        text(&user.uid)
    )
}

/// The modes of impersonation, in the order in which they are tried. All but the last are the modes of KEP-5284, which
/// also check a permission for the request itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

const MODES: [Mode; 5] = [
    Mode::AssociatedNode,
    Mode::ArbitraryNode,
    Mode::ServiceAccount,
    Mode::UserInfo,
    Mode::Legacy,
];

impl Mode {
    fn name(self) -> &'static str {
        let names = [
            "associated-node", "arbitrary-node", "serviceaccount", "user-info", "",
        ];
        names[self as usize]
    }

    fn fits(self, wanted: &User, requestor: &User) -> bool {
        let bare = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_of(&wanted.name);
        let account = account_of(&wanted.name);
        match self {
            Self::AssociatedNode => bare && node.is_some() && node_of_account(requestor) == node,
            Self::ArbitraryNode => bare && node.is_some(),
            Self::ServiceAccount => bare && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }
}

fn is_valid(rule: NameRule, name: &str) -> bool {
    check_name(rule, name).is_empty()
}

fn node_of(name: &str) -> Option<&str> {
    let node = name.strip_prefix(NODE_PREFIX)?;
    is_valid(NameRule::Subdomain, node).then_some(node)
}

fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let valid = is_valid(NameRule::Label, namespace) && is_valid(NameRule::Subdomain, name);
    valid.then_some((namespace, name))
}

/// Returns the node of the Pod of a ServiceAccount, from the extra values of the token; `None` for other users.
pub fn node_of_account(user: &User) -> Option<&str> {
    account_of(&user.name)?;
    match user.extra.get(NODE_NAME)?.as_slice() {
        [node] if is_valid(NameRule::Subdomain, node) => Some(node),
        _ => None,
    }
}

/// Checks impersonation, and remembers the mode that last succeeded for each user. The next check for the user tries
/// this mode first, and answers with the refusal of this mode.
#[derive(Debug, Default)]
pub struct Impersonations {
    last: HashMap<String, Mode>,
}

struct ImpersonationRequest<'a> {
    authorizer: &'a Authorizer<'a>,
    requestor: &'a User,
    wanted: &'a User,
    asked: &'a Attributes,
}

impl Impersonations {
    /// Returns the impersonated user, as which the request continues (AUTH-4).
    ///
    /// # Errors
    /// 403 with the missing permission in the first mode that applies to the impersonated user.
    pub fn check(
        &mut self,
        authorizer: &Authorizer<'_>,
        requestor: &User,
        wanted: &User,
        asked: &Attributes,
    ) -> Result<User, Status> {
        let attempt = ImpersonationRequest {
            authorizer,
            requestor,
            wanted,
            asked,
        };
        let last = self.last.get(&requestor.name).copied();
        let others = MODES.into_iter().filter(|mode| Some(*mode) != last);
        let mut refusal = None;
        for mode in last.into_iter().chain(others) {
            if !mode.fits(wanted, requestor) {
                continue;
            }
            match attempt.by(mode) {
                Ok(user) => {
                    if self.last.len() >= REMEMBERED {
                        self.last.clear();
                    }
                    self.last.insert(requestor.name.clone(), mode);
                    return Ok(user);
                }
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        let failed = || Status::internal("all impersonation modes failed".to_owned());
        Err(refusal.unwrap_or_else(failed))
    }
}

impl ImpersonationRequest<'_> {
    fn by(&self, mode: Mode) -> Result<User, Status> {
        let constrained = mode != Mode::Legacy;
        if constrained {
            let mut on = self.asked.clone();
            on.verb = format!("impersonate-on:{}:{}", mode.name(), on.verb);
            self.ask(&on)?;
        }
        let mut user = self.wanted.clone();
        self.name(mode, &mut user)?;
        if !user.uid.is_empty() {
            self.ask(&Self::about(mode, GROUP, "uids", &user.uid))?;
        }
        self.groups(mode)?;
        self.extra(mode)?;
        let anonymous = user.name == ANONYMOUS;
        if anonymous && !user.is_in(UNAUTHENTICATED) {
            user = user.group(UNAUTHENTICATED);
        } else if !anonymous && !user.is_in(UNAUTHENTICATED) && !user.is_in(AUTHENTICATED) {
            user = user.group(AUTHENTICATED);
        }
        Ok(user)
    }

    fn about(mode: Mode, group: &str, resource: &str, name: &str) -> Attributes {
        let verb = match mode {
            Mode::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        };
        Attributes::of(&verb, group, resource, name)
    }

    fn ask(&self, asked: &Attributes) -> Result<(), Status> {
        let decision = self.authorizer.authorize(self.requestor, asked);
        if decision.allowed {
            return Ok(());
        }
        Err(asked.forbidden(self.requestor, &decision.reason))
    }

    fn name(&self, mode: Mode, user: &mut User) -> Result<(), Status> {
        let group = if mode == Mode::Legacy { "" } else { GROUP };
        let mut asked = Self::about(mode, group, "users", &user.name);
        if mode != Mode::Legacy
            && let Some(node) = node_of(&self.wanted.name)
        {
            "nodes".clone_into(&mut asked.resource);
            // The user may run on any node, so the permission to impersonate the node is one for all nodes.
            let node = if mode == Mode::AssociatedNode {
                "*"
            } else {
                node
            };
            node.clone_into(&mut asked.name);
            user.groups = vec!["system:nodes".to_owned()];
        }
        if let Some((namespace, name)) = account_of(&self.wanted.name) {
            asked = Self::about(mode, group, "serviceaccounts", name).within(namespace);
            if user.groups.is_empty() {
                let own = format!("{SERVICE_ACCOUNTS}:{namespace}");
                user.groups = vec![SERVICE_ACCOUNTS.to_owned(), own];
            }
        }
        self.ask(&asked)
    }

    fn groups(&self, mode: Mode) -> Result<(), Status> {
        let groups = &self.wanted.groups;
        let group = if mode == Mode::Legacy { "" } else { GROUP };
        let asked = |name: &str| Self::about(mode, group, "groups", name);
        if mode != Mode::Legacy {
            let refused = |name: &str, why: &str| asked(name).forbidden(self.requestor, why);
            if groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return Err(refused("", why));
            }
            if groups.iter().any(|one| one == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(refused(MASTERS, why));
            }
            if groups.len() >= MANY && self.ask(&asked("*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|name| self.ask(&asked(name)))
    }

    fn extra(&self, mode: Mode) -> Result<(), Status> {
        let extra = &self.wanted.extra;
        let asked = |key: &str, value: &str| {
            let mut asked = Self::about(mode, GROUP, "userextras", value);
            key.clone_into(&mut asked.subresource);
            asked
        };
        if mode != Mode::Legacy {
            if let Some(why) = wrong_extra(self.wanted) {
                return Err(asked("", "").forbidden(self.requestor, &why));
            }
            let many: usize = extra.values().map(Vec::len).sum();
            if many.max(extra.len()) >= MANY && self.ask(&asked("*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.ask(&asked(key, value))?;
            }
        }
        Ok(())
    }
}

/// Returns the problem of a user's extra values, for the modes that validate these.
fn wrong_extra(user: &User) -> Option<String> {
    for (key, values) in &user.extra {
        let key_error = |value: &str, why: &str| {
            let value = serde_json::Value::from(value);
            Some(format!(
                "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {value}: {why}"
            ))
        };
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        match key.split_once('/') {
            Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
                if let Some(why) = check_name(NameRule::Subdomain, domain).first() {
                    return key_error(domain, why);
                }
            }
            _ => {
                let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                return key_error(key, why);
            }
        }
        if *key != key.to_lowercase() {
            let key = quoted(&[key]);
            let key = key.trim_matches(['[', ']']);
            return Some(format!(
                "impersonating a non-lowercase key in extra is not allowed: {key}"
            ));
        }
        if values.iter().any(String::is_empty) {
            let why = "impersonating the empty string value in extra is not allowed";
            return Some(why.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests;
