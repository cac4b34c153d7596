//! Words: the options of the servers of health probes and metrics.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use steersman_api::ClientConfig;
use steersman_serve::{
    AccessControl, Error as ServeError, Limits, ListenAddress, ReviewedAccess, Route, Routes,
    ServerOptions, TlsOptions, text_response,
};

/// The server of `/healthz`, `/livez` and `/readyz`; see [`ManagerBuilder::health`](crate::ManagerBuilder::health).
///
/// Converts from an address, such as `":8081"`; an empty address and `"0"` mean no server.
#[derive(Clone, Debug)]
#[must_use]
pub struct HealthServer {
    pub(crate) address: ListenAddress,
    pub(crate) options: ServerOptions,
    pub(crate) reveals: bool,
    pub(crate) check_timeout: Duration,
}

/// The server of `/metrics` and of diagnostics; see [`ManagerBuilder::metrics`](crate::ManagerBuilder::metrics).
///
/// Converts from an address, such as `":8080"`, for HTTP without authentication; [`secure`](Self::secure) makes a
/// server with HTTPS and authentication. An empty address and `"0"` mean no server.
#[derive(Clone, Debug)]
#[must_use]
pub struct MetricsServer {
    pub(crate) address: ListenAddress,
    pub(crate) tls: Option<TlsOptions>,
    pub(crate) limits: Limits,
    pub(crate) access: MetricsAccess,
    pub(crate) routes: Vec<Route>,
    pub(crate) has_debug_page: bool,
}

/// The clients that may use the routes of the metrics server.
#[derive(Clone, derive_more::Debug)]
pub(crate) enum MetricsAccess {
    /// Every client may use the routes; there are no diagnostics.
    Open,
    /// Clients that the manager's api-server knows and permits, with tokens for these audiences.
    #[debug("Reviewed({audiences:?})")]
    Reviewed { audiences: Vec<String> },
    /// Clients that the program admits.
    #[debug("Given")]
    Given(Arc<dyn Fn(Route) -> Route + Send + Sync>),
}

pub(crate) const METRICS: &str = "/metrics";
pub(crate) const DIAGNOSTICS: &str = "/debug/steersman";
/// The paths of the debug page that are routes of their own.
const DEBUG_PATHS: [&str; 5] = [
    "/debug", "/debug/", "/debug/page.css", "/debug/page.js", "/debug/sign-in",
];

/// The default time limit of one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

impl HealthServer {
    /// Makes the options of a server without TLS.
    pub fn new(address: impl Into<ListenAddress>) -> Self {
        Self {
            address: address.into(),
            options: ServerOptions::new(),
            reveals: false,
            check_timeout: CHECK_TIMEOUT,
        }
    }

    /// Serves HTTPS. A probe of a Deployment then has the scheme `HTTPS`, for which the kubelet does not verify the
    /// certificate.
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.options = self.options.tls(tls);
        self
    }

    /// Sets how many connections the server accepts, and the limits of the time and the size of requests.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options = self.options.limits(limits);
        self
    }

    /// Sets whether responses show why a check of the program failed. Off by default: the response says `reason
    /// withheld`, and the log has the reason, because every client in the network can read the response.
    pub fn reveal_reasons(mut self, on: bool) -> Self {
        self.reveals = on;
        self
    }

    /// Sets the time limit of one check; 5 s by default. A check that takes longer fails. Zero is refused when the
    /// manager is built; [`Duration::MAX`] means no limit.
    pub fn check_timeout(mut self, time: Duration) -> Self {
        self.check_timeout = time;
        self
    }

    pub(crate) fn check(&self) -> Result<(), ServeError> {
        self.address.check()?;
        if self.check_timeout.is_zero() {
            let limit = "check_timeout";
            return Err(ServeError::ZeroLimit { limit });
        }
        self.options.check()
    }
}

impl MetricsServer {
    /// Makes the options of a server without TLS and without authentication: every client in the network can read
    /// the metrics. It serves no diagnostics.
    pub fn new(address: impl Into<ListenAddress>) -> Self {
        Self {
            address: address.into(),
            tls: None,
            limits: Limits::new(),
            access: MetricsAccess::Open,
            routes: Vec::new(),
            has_debug_page: false,
        }
    }

    /// Makes the options of a server with HTTPS, with a certificate that it signs itself unless
    /// [`tls`](Self::tls) sets another one, and with [`reviewed_access`](Self::reviewed_access).
    pub fn secure(address: impl Into<ListenAddress>) -> Self {
        Self::new(address)
            .tls(TlsOptions::self_signed())
            .reviewed_access()
    }

    /// Serves HTTPS. With [`TlsOptions::client_ca`], only clients with a certificate of that authority are admitted; a
    /// server made by [`new`](Self::new) then serves diagnostics, too.
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Admits clients by reviews of the manager's API server; see [`ReviewedAccess`].
    pub fn reviewed_access(mut self) -> Self {
        self.access = MetricsAccess::Reviewed {
            audiences: Vec::new(),
        };
        self
    }

    /// Admits clients like [`reviewed_access`](Self::reviewed_access), with tokens that were issued for one of these
    /// audiences.
    pub fn reviewed_access_for<A: Into<String>>(
        mut self,
        audiences: impl IntoIterator<Item = A>,
    ) -> Self {
        let audiences = audiences.into_iter().map(Into::into).collect();
        self.access = MetricsAccess::Reviewed { audiences };
        self
    }

    /// Admits the clients that `access` admits, in place of the previous access control.
    pub fn access(mut self, access: impl AccessControl) -> Self {
        let access = Arc::new(access);
        self.access =
            MetricsAccess::Given(Arc::new(move |route| route.access(Arc::clone(&access))));
        self
    }

    /// Sets how many connections the server accepts, and the limits of the time and the size of requests.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a route with the same access control as the other routes. `/metrics` and `/debug/steersman` are taken, and
    /// with a [debug page](Self::debug_page) `/debug` and `/debug/`.
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Serves the debug page below `/debug/`, for people with a browser: what each controller works on and waits for, the path
    /// of one object, the caches, and what needs attention; the same as JSON below `/debug/api/`. Off by default.
    ///
    /// The page has the access control of the other routes, and shows a form for the token to browsers. Each controller keeps a
    /// journal for it. It shows no content of objects, but names of objects and texts of errors. So a server that admits every
    /// client must listen on a loopback address.
    pub fn debug_page(mut self, on: bool) -> Self {
        self.has_debug_page = on;
        self
    }

    pub(crate) fn protect(&self, route: Route, reviewed: Option<&ReviewedAccess>) -> Route {
        match (&self.access, reviewed) {
            (MetricsAccess::Given(protect), _) => protect(route),
            (MetricsAccess::Reviewed { .. }, Some(reviewed)) => route.access(reviewed.clone()),
            (MetricsAccess::Open | MetricsAccess::Reviewed { .. }, _) => route,
        }
    }

    pub(crate) fn reviewed(&self, client_config: &ClientConfig) -> Option<ReviewedAccess> {
        let MetricsAccess::Reviewed { audiences } = &self.access else {
            return None;
        };
        let client_config = client_config.clone();
        Some(match &**audiences {
            [] => ReviewedAccess::new(client_config),
            some => ReviewedAccess::with_audiences(client_config, some.iter().cloned()),
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        let needs_certificate = self.tls.as_ref().is_some_and(TlsOptions::has_client_ca);
        matches!(self.access, MetricsAccess::Open) && !needs_certificate
    }

    pub(crate) fn check_routes(&self) -> Result<(), ServeError> {
        let mut routes = Routes::new();
        let of_page = DEBUG_PATHS.iter().filter(|_| self.has_debug_page);
        for path in [METRICS, DIAGNOSTICS].iter().chain(of_page) {
            let taken = |_| ready(text_response(StatusCode::NOT_FOUND, "taken"));
            routes.add(Route::get(*path, taken))?;
        }
        for route in &self.routes {
            routes.add(route.clone())?;
        }
        Ok(())
    }

    pub(crate) fn check(&self) -> Result<(), ServeError> {
        self.address.check()?;
        ServerOptions::new().limits(self.limits).check()
    }

    /// Returns whether the server would show names of objects to every client in the network.
    pub(crate) fn exposes_page(&self) -> bool {
        self.has_debug_page
            && self.is_open()
            && !self.address.is_off()
            && !self.address.is_loopback()
    }
}

macro_rules! from_address {
    ($server:ty, $($address:ty),+) => {
        $(impl From<$address> for $server {
            fn from(address: $address) -> Self {
                Self::new(address)
            }
        })+
    };
}

from_address!(HealthServer, &str, String, SocketAddr);
from_address!(MetricsServer, &str, String, SocketAddr);
