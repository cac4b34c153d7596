//! Handle: declares a controller whose requests are a type of one's own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt};
use steersman_client::check_field_manager;
use steersman_object::TypedObject;
use steersman_workqueue::RateLimiter;

use crate::controller::{Body, Controller};
use crate::error::ControllerError;
use crate::handler::EventHandler;
use crate::options::Options;
use crate::predicate::{EventSummary, Everything, Predicate};
use crate::reconcile::Reconciler;
use crate::request::RequestKey;
use crate::watch::{AnyWatch, FilterAll, Watch};

/// Declares a controller that reconciles requests of type `R`: something other than one object of a
/// primary kind, such as a namespace, a pair of objects, or a thing outside the cluster.
///
/// It has no primary kind, so every watch names its requests itself, with
/// [`handler::mapped`](crate::handler::mapped()) or a handler of one's own. For the ordinary case see
/// [`Builder`](crate::Builder).
#[must_use = "a builder does nothing until `build`"]
pub struct KeyedBuilder<R: RequestKey> {
    name: String,
    watches: Vec<Box<dyn AnyWatch<R>>>,
    streams: Vec<BoxStream<'static, R>>,
    filter_all: Option<FilterAll>,
    options: Options<R>,
    field_manager: Option<String>,
}

impl Controller {
    /// Declares a controller called `name` whose requests are of type `R`.
    pub fn keyed<R: RequestKey>(name: impl Into<String>) -> KeyedBuilder<R> {
        KeyedBuilder {
            name: name.into(),
            watches: Vec::new(),
            streams: Vec::new(),
            filter_all: None,
            options: Options::default(),
            field_manager: None,
        }
    }
}

impl<R: RequestKey> KeyedBuilder<R> {
    /// Watches kind `W` and requests what `handler` names.
    pub fn watches<W: TypedObject>(self, handler: impl EventHandler<W, R>) -> Self {
        self.watches_with::<W>(handler, Everything)
    }

    /// As [`watches`](Self::watches), of the events alone that `predicate` lets pass.
    pub fn watches_with<W: TypedObject>(
        mut self,
        handler: impl EventHandler<W, R>,
        predicate: impl Predicate<W>,
    ) -> Self {
        self.watches
            .push(Box::new(Watch::<W, R>::new(Box::new(predicate), handler)));
        self
    }

    /// As [`Builder::filter_all`](crate::Builder::filter_all).
    pub fn filter_all(
        mut self,
        filter: impl Fn(&EventSummary<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filter_all = Some(match self.filter_all {
            Some(first) => Arc::new(move |event: &EventSummary<'_>| first(event) && filter(event)),
            None => Arc::new(filter),
        });
        self
    }

    /// As [`Builder::requests`](crate::Builder::requests).
    pub fn requests(mut self, requests: impl Stream<Item = R> + Send + 'static) -> Self {
        self.streams.push(requests.boxed());
        self
    }

    /// As [`Builder::max_concurrent_reconciles`](crate::Builder::max_concurrent_reconciles).
    pub fn max_concurrent_reconciles(mut self, workers: usize) -> Self {
        self.options.max_concurrent_reconciles = workers;
        self
    }

    /// As [`Builder::rate_limiter`](crate::Builder::rate_limiter).
    pub fn rate_limiter(mut self, rate_limiter: impl RateLimiter<R>) -> Self {
        self.options.rate_limiter = Some(Box::new(rate_limiter));
        self
    }

    /// As [`Builder::require_sync`](crate::Builder::require_sync).
    pub fn require_sync(mut self, timeout: Duration) -> Self {
        self.options.require_sync = Some(timeout).filter(|timeout| !timeout.is_zero());
        self
    }

    /// As [`Builder::deadline`](crate::Builder::deadline).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = Some(deadline).filter(|deadline| !deadline.is_zero());
        self
    }

    /// As [`Builder::deadline_grace`](crate::Builder::deadline_grace).
    pub fn deadline_grace(mut self, grace: Duration) -> Self {
        self.options.deadline_grace = grace;
        self
    }

    /// As [`Builder::field_manager`](crate::Builder::field_manager).
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// Completes the declaration.
    ///
    /// # Errors
    ///
    /// [`ControllerError::EmptyName`], [`ControllerError::NoWorkers`], [`ControllerError::FieldManager`], and
    /// [`ControllerError::NothingWatched`] where neither a watch nor a stream would ever cause a
    /// request.
    pub fn build(self, reconciler: impl Reconciler<R>) -> Result<Controller, ControllerError> {
        if self.name.trim().is_empty() {
            return Err(ControllerError::EmptyName);
        }
        if self.options.max_concurrent_reconciles == 0 {
            return Err(ControllerError::NoWorkers {
                controller: self.name,
            });
        }
        if self.watches.is_empty() && self.streams.is_empty() {
            return Err(ControllerError::NothingWatched {
                controller: self.name,
            });
        }
        let field_manager = self.field_manager;
        if let Some(Err(source)) = field_manager.as_deref().map(check_field_manager) {
            return Err(ControllerError::FieldManager {
                controller: self.name,
                source,
            });
        }
        let controller = Controller::new(Body {
            name: self.name,
            watches: self.watches,
            streams: self.streams,
            filter_all: self.filter_all,
            options: self.options,
            reconciler,
        });
        Ok(controller.signing(field_manager))
    }

    pub(crate) fn named(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    // Puts a watch before all others.
    pub(crate) fn watching_first(mut self, watch: Box<dyn AnyWatch<R>>) -> Self {
        self.watches.insert(0, watch);
        self
    }
}

impl<R: RequestKey> fmt::Debug for KeyedBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedBuilder")
            .field("name", &self.name)
            .field("watches", &self.watches.len())
            .field("streams", &self.streams.len())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
