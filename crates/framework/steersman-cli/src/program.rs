//! Handle: the whole `main` of an operator.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use steersman_api::{ClientConfig, kube_client};
use steersman_cache::InformerReport;
use steersman_controller::ControllerDeclaration;
use steersman_crds::{Crds, Error as DefinitionError};
use steersman_description::{
    ConvertedKind, DescribedController, DescribedKind, DescribedRule, DescribedWebhook,
    Description, LimitedKind,
};
use steersman_manager::{
    Error as ManagerError, Manager, ManagerBuilder, Shutdown, shutdown_signal,
};
use steersman_object::ObjectKey;
use steersman_serve::ListenAddress;
use steersman_webhook::{BuiltInCertificates, WebhookServer};

use crate::args::{NoSettings, OperatorArgs, words_about_log};
use crate::config::{Config, OwnValues};
use crate::dev_session::stop_with_session;
use crate::error::Error;
use crate::flags::LogFormat;
use crate::json_log::log_last_error;
use crate::settings::OperatorSettings;
use crate::trace_export::TracedProgram;

/// An operator as a program. It reads flags, environment variables and a configuration file, sets up the log, connects,
/// builds a manager, and runs it until SIGTERM or ctrl-c.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use steersman_cli::Program;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
/// # struct Counter;
/// # impl Reconciler for Counter {
/// #     async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> { Ok(Action::done()) }
/// # }
///
/// #[tokio::main]
/// async fn main() -> ExitCode {
///     Program::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
///         .setup(|manager, _| {
///             let counter = Controller::builder::<ConfigMap>().build(Counter)?;
///             Ok(manager.add_controller(counter)?)
///         })
///         .run()
///         .await
/// }
/// ```
///
/// The flags are those of [`OperatorArgs`], and:
///
/// - `--install`: the leader installs the definitions of [`crds`](Self::crds). A definition with different versions
///   needs the conversion webhook: without it, the program ends with [`Error::Unconverted`].
/// - `--install-newest-version-only`: the leader installs only the newest version of each definition, even without
///   `--install`.
/// - `--webhook-bind-address`: the address of the [`webhooks`](Self::webhooks); the default `0` means no server.
///   Without `--webhook-cert-path`, a built-in authority makes the certificates, in the Secret `NAME-certificates` of
///   the program's namespace, for the Service `NAME`; it is injected into the webhook configurations `NAME` and into
///   the definitions of converted kinds. With `--webhook-cert-path`, other programs make the certificate; with
///   `--webhook-inject-ca-from`, cert-manager injects its authority into the definitions.
///
/// `PROGRAM describe` prints a [`Description`] for `cargo steersman generate`. It needs no cluster.
///
/// `T` is the type of the program's own settings: see [`OperatorSettings`].
#[derive(derive_more::Debug)]
#[debug("Program {{ name: {name:?}, version: {version:?}, .. }}")]
#[must_use = "a program does nothing until it runs"]
pub struct Program<T = NoSettings> {
    name: &'static str,
    version: &'static str,
    about: &'static str,
    own_args: Option<OwnArgs>,
    definitions: Crds,
    webhooks: Option<AddWebhooks<T>>,
    options: Option<SetOptions<T>>,
    setup: Option<SetUp<T>>,
}

/// An error of a program's own code.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type AddWebhooks<T> = Box<dyn FnOnce(WebhookServer, &Config<T>) -> WebhookServer + Send>;
type SetOptions<T> = Box<dyn FnOnce(ManagerBuilder, &Config<T>) -> ManagerBuilder + Send>;
type SetUp<T> = Box<dyn FnOnce(&Manager, &Config<T>) -> Result<(), BoxError> + Send>;

/// The functions that add the program's own flags to the command line, and read their values.
struct OwnArgs {
    augment: fn(Command) -> Command,
    read: fn(&ArgMatches) -> Result<OwnValues, clap::Error>,
}

/// The webhook address in a description, on which nothing listens.
const DESCRIBED_ADDRESS: &str = ":9443";

#[derive(Parser)]
struct ProgramArgs<T: OperatorSettings> {
    /// Install or update the definitions of the program's kinds, as the leader
    #[arg(long)]
    install: bool,
    /// Install or update only the newest version of each definition, which needs no conversion webhook
    #[arg(long)]
    install_newest_version_only: bool,
    /// The address of the webhooks, such as :9443; 0 is no server
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    webhook_bind_address: String,
    #[command(flatten)]
    operator: OperatorArgs<T>,
    #[command(subcommand)]
    command: Option<HiddenCommand>,
    /// The values of the program's own flags.
    #[arg(skip)]
    own: Option<OwnValues>,
}

#[derive(Subcommand)]
enum HiddenCommand {
    /// Print the kinds, controllers and webhooks of the program as JSON
    #[command(hide = true)]
    Describe,
}

impl Program {
    /// Makes a program without settings of its own. `name` is used in the `User-Agent`, for the Lease, and as field
    /// manager; `version` is the version in the `User-Agent`.
    pub fn new(name: &'static str, version: &'static str) -> Self {
        Self::with_settings(name, version)
    }
}

impl<T: OperatorSettings> Program<T> {
    /// Makes a program with its own settings, which the configuration file has under `operator`.
    pub fn with_settings(name: &'static str, version: &'static str) -> Self {
        Self {
            name,
            version,
            about: "",
            own_args: None,
            definitions: Crds::new(),
            webhooks: None,
            options: None,
            setup: None,
        }
    }

    /// Sets the first sentence of `--help`, such as `env!("CARGO_PKG_DESCRIPTION")`.
    pub fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Adds the program's own flags to the command line; [`Config::args`] returns their values.
    ///
    /// No such flag may be required, because a description is made without a command line.
    ///
    /// ```
    /// use clap::Args;
    /// use steersman_cli::Program;
    ///
    /// #[derive(Args)]
    /// struct GreeterArgs {
    ///     /// The greeting of an object without one
    ///     #[arg(long, default_value = "Hello")]
    ///     default_greeting: String,
    /// }
    ///
    /// let program = Program::new("greeter", "1.0.0").args::<GreeterArgs>().setup(|_, config| {
    ///     let args: Option<&GreeterArgs> = config.args();
    ///     assert_eq!(args.unwrap().default_greeting, "Hello");
    ///     Ok(())
    /// });
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # let _entered = runtime.enter();
    /// # program.describe().unwrap();
    /// ```
    pub fn args<A: Args + Send + Sync + 'static>(mut self) -> Self {
        self.own_args = Some(OwnArgs {
            augment: A::augment_args,
            read: |matches| Ok(Arc::new(A::from_arg_matches(matches)?)),
        });
        self
    }

    /// Sets the definitions of the program's kinds. The flag `--install` installs them.
    pub fn crds(mut self, definitions: Crds) -> Self {
        self.definitions = definitions;
        self
    }

    /// Adds webhooks to the server that `--webhook-bind-address` starts.
    pub fn webhooks(
        mut self,
        add: impl FnOnce(WebhookServer, &Config<T>) -> WebhookServer + Send + 'static,
    ) -> Self {
        self.webhooks = Some(Box::new(add));
        self
    }

    /// Changes the options of the manager after the configuration was applied.
    pub fn options(
        mut self,
        set: impl FnOnce(ManagerBuilder, &Config<T>) -> ManagerBuilder + Send + 'static,
    ) -> Self {
        self.options = Some(Box::new(set));
        self
    }

    /// Sets the function that declares controllers, field indexes and checks before the manager starts. It must send no
    /// request, because it also runs for a description, without an API server.
    pub fn setup(
        mut self,
        setup: impl FnOnce(&Manager, &Config<T>) -> Result<(), BoxError> + Send + 'static,
    ) -> Self {
        self.setup = Some(Box::new(setup));
        self
    }

    /// Runs the program with the command line of the process until SIGTERM or ctrl-c. Writes an error like
    /// [`OperatorArgs::exit_code`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the program without an orderly stop, as in [`Manager::start`].
    pub async fn run(self) -> ExitCode {
        match self.parse(std::env::args_os()) {
            Ok(args) => {
                if args.command.is_none() {
                    stop_with_session();
                }
                let operator = args.operator.clone();
                operator.exit_code(self.run_parsed(args, shutdown_signal()).await)
            }
            Err(error) => {
                self.say_usage_error(&error);
                ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
            }
        }
    }

    /// Runs the program with these arguments, of which the first is its name, until `shutdown`. Keeps an existing log
    /// of the process, so that a test can run a program several times.
    ///
    /// # Errors
    ///
    /// [`Error`], with its causes as sources.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the program without an orderly stop, as with [`run`](Self::run).
    pub async fn run_with(
        self,
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
        shutdown: Shutdown,
    ) -> Result<(), Error> {
        let args = self.parse(words).map_err(Error::Usage)?;
        self.run_parsed(args, shutdown).await
    }

    async fn run_parsed(self, args: ProgramArgs<T>, shutdown: Shutdown) -> Result<(), Error> {
        if args.command.is_some() {
            let description = self.description(args)?;
            // A failed write means that the pipe is closed and nothing reads the description.
            let _ = writeln!(std::io::stdout(), "{}", serde_json::json!(description));
            return Ok(());
        }
        let service = TracedProgram {
            name: self.name,
            version: Some(self.version),
        };
        args.operator.init_or_keep_logging(&service)?;
        let operator = args.operator.clone();
        let ended = self.run_operator(args, shutdown).await;
        operator.finish_traces().await;
        ended
    }

    async fn run_operator(self, args: ProgramArgs<T>, shutdown: Shutdown) -> Result<(), Error> {
        let config = args.operator.config()?.version(self.version);
        let config = config.with_args(args.own.clone());
        let client_config = config.connect().await.map_err(|error| match error {
            error if error.is_no_config() => Error::NoCluster(Box::new(error)),
            error => error,
        })?;
        let (manager, _) = self.declare(&args, &config, client_config)?;
        let ended = manager.start(shutdown).await;
        ended.map_err(|error| Error::Manager(Box::new(error)))
    }

    /// Returns the description that `PROGRAM describe` prints. Needs neither a cluster nor a runtime.
    ///
    /// # Errors
    ///
    /// [`Error`], with its causes as sources.
    pub fn describe(self) -> Result<Description, Error> {
        let args = self.parse([self.name]).map_err(Error::Usage)?;
        self.description(args)
    }

    /// Prints the help, or an error about the command line. LOG-2: with JSON, an error is a line of the log.
    fn say_usage_error(&self, error: &clap::Error) {
        // Only the arguments about the log are parsed, because parsing fails at an unknown one.
        let words = words_about_log(std::env::args_os());
        let matches = self.command().ignore_errors(true);
        let matches = matches.try_get_matches_from(words).ok();
        let args = matches.and_then(|matches| ProgramArgs::<T>::from_arg_matches(&matches).ok());
        let format = args.map_or_else(LogFormat::default, |args| args.operator.log_format());
        if error.use_stderr() && format == LogFormat::Json {
            let text = error.to_string();
            log_last_error(text.trim_start_matches("error: ").trim_end());
        } else {
            // A failed write means that the pipe is closed.
            let _ = error.print();
        }
    }

    fn parse(
        &self,
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<ProgramArgs<T>, clap::Error> {
        let matches = self.command().try_get_matches_from(words)?;
        let mut args = ProgramArgs::from_arg_matches(&matches)?;
        if let Some(own) = &self.own_args {
            args.own = Some((own.read)(&matches)?);
        }
        Ok(args)
    }

    fn command(&self) -> Command {
        let mut command = ProgramArgs::<T>::command()
            .name(self.name)
            .version(self.version);
        if let Some(own) = &self.own_args {
            command = (own.augment)(command.next_help_heading("Program"));
        }
        // The text is set after the flags, because the documentation of their type would replace it.
        command.about(self.about).long_about(None)
    }

    fn description(self, args: ProgramArgs<T>) -> Result<Description, Error> {
        // The flags make the description include the definitions and the conversion webhook.
        let args = ProgramArgs {
            install: true,
            install_newest_version_only: false,
            webhook_bind_address: DESCRIBED_ADDRESS.to_owned(),
            ..args
        };
        let config = args.operator.config()?.with_args(args.own.clone());
        let mut description = Description::new(self.name, self.version, env!("CARGO_PKG_VERSION"));
        // No request is ever sent to this address.
        let nowhere = http::Uri::from_static("https://127.0.0.1:1");
        let client_config = ClientConfig::from_config(kube_client::Config::new(nowhere));
        let (manager, webhooks) = self.declare(&args, &config, client_config)?;
        let definitions = manager.crds().list().iter();
        description.definitions = definitions
            .map(|definition| definition.content().clone())
            .collect();
        let informers = manager.cache().informer_reports();
        let kinds = informers.iter().map(|one| DescribedKind::from(&one.kind));
        description.kinds = BTreeSet::from_iter(kinds).into_iter().collect();
        description.limited_kinds = limited_kinds(&informers);
        let controllers = manager.controller_declarations();
        description.controllers = controllers.iter().map(described_controller).collect();
        describe_webhooks(&webhooks, &mut description);
        Ok(description)
    }

    fn declare(
        self,
        args: &ProgramArgs<T>,
        config: &Config<T>,
        client_config: ClientConfig,
    ) -> Result<(Manager, WebhookServer), Error> {
        let namespace = client_config.namespace();
        let namespace = namespace.unwrap_or_else(|| client_config.default_namespace());
        let service = ObjectKey::namespaced(namespace, self.name);
        let mut webhooks = config.webhook_server(&*args.webhook_bind_address);
        if let Some(add) = self.webhooks {
            webhooks = add(webhooks, config);
        }
        let mut builder = config.manager_over(client_config, self.name);
        if args.install_newest_version_only {
            builder = builder.crds(self.definitions.newest_version_only());
        } else if args.install {
            builder = builder.crds(self.definitions);
        }
        let is_off = ListenAddress::from(&*args.webhook_bind_address).is_off();
        if !is_off && !webhooks.paths().is_empty() {
            let served = webhooks.clone();
            builder = builder.webhooks(match config.has_webhook_certificate() {
                true => served.service(service),
                false => with_built_in_certificates(served, &service),
            });
        }
        if let Some(set) = self.options {
            builder = set(builder, config);
        }
        let has_conversions = is_off && !webhooks.converted_kinds().is_empty();
        let manager = builder.build().map_err(|error| match error {
            ManagerError::Definition(error @ DefinitionError::Unconverted { .. })
                if has_conversions =>
            {
                Error::Unconverted(error)
            }
            error => Error::Manager(Box::new(error)),
        })?;
        if let Some(setup) = self.setup {
            setup(&manager, config).map_err(Error::Setup)?;
        }
        Ok((manager, webhooks))
    }
}

/// Uses a built-in authority for the webhooks behind a Service, and injects it into configurations and definitions.
fn with_built_in_certificates(webhooks: WebhookServer, service: &ObjectKey) -> WebhookServer {
    let name = service.name();
    let namespace = service.namespace().unwrap_or_default();
    let secret = ObjectKey::namespaced(namespace, format!("{name}-certificates"));
    let mut certificates = BuiltInCertificates::new(secret, service.clone());
    let admissions = webhooks.admissions();
    let does = |mutates| admissions.iter().any(|one| one.mutates == mutates);
    if does(true) {
        certificates = certificates.inject_into_mutating(name);
    }
    if does(false) {
        certificates = certificates.inject_into_validating(name);
    }
    webhooks.certificates(certificates)
}

fn limited_kinds(informers: &[InformerReport]) -> Vec<LimitedKind> {
    let mut scopes: BTreeMap<(&str, &str), BTreeSet<Option<&str>>> = BTreeMap::new();
    for informer in informers {
        let kind = &informer.kind;
        let scope = scopes
            .entry((kind.gvk().group(), kind.plural()))
            .or_default();
        scope.insert(informer.namespace.as_deref());
    }
    let limited = scopes.into_iter().filter_map(|((group, plural), scope)| {
        let namespaces: Option<Vec<&str>> = scope.into_iter().collect();
        Some(LimitedKind {
            group: group.to_owned(),
            plural: plural.to_owned(),
            namespaces: namespaces?.into_iter().map(str::to_owned).collect(),
        })
    });
    limited.collect()
}

fn described_controller(declaration: &ControllerDeclaration) -> DescribedController {
    let needed_rules = declaration
        .needed_rules
        .iter()
        .map(|needed| DescribedRule {
            rule: needed.rule.clone(),
            reason: needed.reason.clone(),
        })
        .collect();
    DescribedController::new(
        &declaration.name,
        declaration.primary.as_ref(),
        &declaration.owned,
        &declaration.watched,
        needed_rules,
    )
}

fn describe_webhooks(webhooks: &WebhookServer, description: &mut Description) {
    let admissions = webhooks.admissions().iter();
    description.webhooks = admissions
        .map(|admission| DescribedWebhook {
            path: admission.path.clone(),
            mutates: admission.mutates,
            object: DescribedKind::from(&admission.kind),
        })
        .collect();
    let converted = webhooks.converted_kinds().into_iter();
    description.converted = converted
        .map(|kind| ConvertedKind {
            group: kind.group().to_owned(),
            version: kind.version().to_owned(),
            kind: kind.kind().to_owned(),
        })
        .collect();
}
