//! Handle: the command line of an operator.

use std::error::Error as StdError;
use std::ffi::OsString;
use std::marker::PhantomData;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{
    Arg, ArgAction, ArgMatches, Args as _, Command, CommandFactory, FromArgMatches, Parser,
};
use serde::Deserialize;
use steersman_manager::ManagerBuilder;
use tracing_subscriber::util::TryInitError;

use crate::config::Config;
use crate::error::Error;
use crate::flags::{LogFormat, SettingFlags};
use crate::kubebuilder::KubebuilderFlags;
use crate::log::{LogLevel, write_last_error};
use crate::process_log::ProcessLog;
use crate::settings::{OperatorSettings, SETTINGS, Setting};
use crate::trace_export::{TracedProgram, export};

/// The flags of an operator that has no settings of its own in the configuration file.
///
/// The flags are the whole command line, or are flattened into a parser with further flags:
///
/// ```
/// use clap::Parser;
///
/// /// Serves websites from ConfigMaps.
/// #[derive(Parser)]
/// struct Program {
///     /// The image of the web servers.
///     #[arg(long, default_value = "nginx:1.29")]
///     image: String,
///     #[command(flatten)]
///     operator: steersman_cli::Args,
/// }
///
/// let words = ["program", "--image=nginx:1.30", "--namespace=web,shop"];
/// let program = Program::parse_from(words);
/// let config = program.operator.config()?;
/// assert_eq!(config.namespaces(), ["web", "shop"]);
/// # Ok::<_, steersman_cli::Error>(())
/// ```
pub type Args = OperatorArgs<NoSettings>;

/// The flags of an operator. `T` is the type of the operator's own settings, under the key `operator` of the file.
///
/// The value of a setting is from the first source that has one: the flag, its environment variable, the file of
/// `--config`, the default. An invalid value in any source is an error, and so is an unknown key.
///
/// ```
/// use clap::Parser;
/// use serde::Deserialize;
/// use steersman_cli::{OperatorArgs, OperatorSettings};
///
/// #[derive(Deserialize)]
/// #[serde(rename_all = "kebab-case", deny_unknown_fields)]
/// struct WebsiteSettings {
///     #[serde(default)]
///     default_image: Option<String>,
/// }
///
/// impl OperatorSettings for WebsiteSettings {}
///
/// # let file = std::env::temp_dir().join(format!("steersman-cli-{}.yaml", std::process::id()));
/// # std::fs::write(&file, "log-format: json\noperator:\n  default-image: nginx:1.30\n").unwrap();
/// let words = ["program", "--config", file.to_str().unwrap()];
/// let args = OperatorArgs::<WebsiteSettings>::parse_from(words);
/// let config = args.config()?;
/// assert_eq!(config.operator.default_image.as_deref(), Some("nginx:1.30"));
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<_, steersman_cli::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("{flags:?}")]
pub struct OperatorArgs<T> {
    flags: SettingFlags,
    kubebuilder: KubebuilderFlags,
    /// The log of the process, after [`init_logging`](Self::init_logging).
    log: OnceLock<ProcessLog>,
    operator: PhantomData<fn() -> T>,
}

/// The settings of a program that has none: the key `operator` of the file is absent or empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoSettings {}

impl OperatorSettings for NoSettings {}

impl<T: OperatorSettings> OperatorArgs<T> {
    /// Reads the configuration from the flags, the environment and the file.
    ///
    /// # Errors
    ///
    /// [`Error`] with the source, the key and the allowed values.
    pub fn config(&self) -> Result<Config<T>, Error> {
        self.config_with(|name| std::env::var_os(name))
    }

    /// Reads the configuration like [`config`](Self::config), with these environment variables.
    ///
    /// # Errors
    ///
    /// The errors of [`config`](Self::config).
    pub fn config_with(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Config<T>, Error> {
        let flags = self.kubebuilder.apply(self.flags.clone());
        Config::read(&flags, self.log.get().cloned(), variable)
    }

    /// Sets up the log of the process: lines on standard error, with the configured level and format. With the feature
    /// `otlp`, also starts the export of traces that the flags or the variables of OpenTelemetry ask for:
    /// [`finish_traces`](Self::finish_traces) ends it.
    ///
    /// # Errors
    ///
    /// The errors of [`config`](Self::config), [`Error::Logging`] if the process has a subscriber already, and
    /// [`Error::NoFeature`] or [`Error::Traces`] if traces cannot be exported.
    pub fn init_logging(&self) -> Result<LogLevel, Error> {
        self.init_logging_of(&TracedProgram::of_binary())
    }

    fn init_logging_of(&self, service: &TracedProgram<'_>) -> Result<LogLevel, Error> {
        let config = self.config()?;
        let traces = export(&config.otlp(), service)?;
        let level = LogLevel::init(config.log_level(), config.log_format(), traces.as_deref())?;
        self.warn_of_kubebuilder();
        if let Some(traces) = &traces {
            let (collector, sample_ratio) = (traces.collector(), traces.sample_ratio());
            tracing::info!(collector, sample_ratio, "traces are exported");
        }
        let log = self.log.get_or_init(|| ProcessLog { level, traces });
        Ok(log.level.clone())
    }

    /// Exports the last traces, within five seconds, and stops the export. Does nothing if
    /// [`init_logging`](Self::init_logging) started none. A [`Program`](crate::Program) does this itself.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the export.
    pub async fn finish_traces(&self) {
        if let Some(traces) = self.log.get().and_then(|log| log.traces.as_ref()) {
            traces.finish().await;
        }
    }

    /// Sets up the log like [`init_logging`](Self::init_logging), unless the process has a log: a process has only one,
    /// but may run several programs one after another.
    pub(crate) fn init_or_keep_logging(&self, service: &TracedProgram<'_>) -> Result<(), Error> {
        match self.init_logging_of(service) {
            Err(Error::Logging(error)) if error.is::<TryInitError>() => {
                self.warn_of_kubebuilder();
                Ok(())
            }
            set => set.map(drop),
        }
    }

    /// Returns the exit code for the result of a program. Writes an error with its causes to standard error: after
    /// `error:`, or with `--log-format=json` as the last line of the log.
    ///
    /// ```
    /// use std::process::ExitCode;
    ///
    /// use clap::Parser as _;
    /// use steersman_cli::Args;
    ///
    /// # async fn run(_: &Args) -> Result<(), Box<dyn std::error::Error + Send + Sync>> { Ok(()) }
    /// #[tokio::main]
    /// async fn main() -> ExitCode {
    ///     let args = Args::parse_from(["website-operator"]);
    ///     args.exit_code(run(&args).await)
    /// }
    /// ```
    pub fn exit_code(
        &self,
        ended: Result<(), impl Into<Box<dyn StdError + Send + Sync>>>,
    ) -> ExitCode {
        let Err(error) = ended else {
            return ExitCode::SUCCESS;
        };
        write_last_error(&*error.into(), self.log_format());
        ExitCode::FAILURE
    }

    /// Returns the format of log lines, even if another setting is invalid.
    pub(crate) fn log_format(&self) -> LogFormat {
        let flags = self.kubebuilder.apply(self.flags.clone());
        Config::<T>::log_format_despite_errors(&flags, |name| std::env::var_os(name))
    }

    fn warn_of_kubebuilder(&self) {
        let without_effect = self.kubebuilder.without_effect();
        if !without_effect.is_empty() {
            let flags = without_effect.join("; ");
            tracing::warn!(flags, "flags of kubebuilder have no effect");
        }
    }

    /// Begins to declare a manager with every setting of the configuration: see [`Config::manager`].
    ///
    /// # Errors
    ///
    /// The errors of [`config`](Self::config) and [`Config::connect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn manager(&self, name: &str) -> Result<ManagerBuilder, Error> {
        let config = self.config()?;
        config.manager(name).await
    }
}

/// Returns the arguments of a command line that decide the format of log lines.
pub(crate) fn words_about_log(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    const FLAGS: [&str; 4] = ["--log-format", "--zap-encoder", "--zap-devel", "--config"];
    let mut words = words.into_iter();
    let mut kept: Vec<OsString> = words.next().into_iter().collect();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let (flag, has_value) = match text.split_once('=') {
            Some((flag, _)) => (flag, true),
            None => (&*text, text == "--zap-devel"),
        };
        if FLAGS.contains(&flag) {
            kept.push(word.clone());
            kept.extend((!has_value).then(|| words.next()).flatten());
        }
    }
    kept
}

/// Adds the defaults, environment variables and headings to the flags for `--help`.
fn described(of_program: &[(&str, &str)]) -> Vec<Arg> {
    let flags = KubebuilderFlags::augment_args(SettingFlags::augment_args(Command::new("flags")));
    let described = flags.get_arguments().map(|arg| {
        let key = arg.get_long().unwrap_or_default();
        let arg = last_wins(arg.clone());
        match SETTINGS.iter().find(|setting| setting.key == key) {
            Some(setting) => describe(arg, setting, of_program),
            None => arg,
        }
    });
    described.collect()
}

/// Makes the last value of a repeated flag count, as in Go; lists collect all values.
fn last_wins(arg: Arg) -> Arg {
    match arg.get_action() {
        ArgAction::Set => {
            let id = arg.get_id().clone();
            arg.overrides_with(id)
        }
        _ => arg,
    }
}

fn describe(arg: Arg, setting: &Setting, of_program: &[(&str, &str)]) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let own = of_program.iter().find(|(key, _)| *key == setting.key);
    let default = own.map(|(_, default)| *default).or(setting.default);
    let default = default.map(|default| format!(" [default: {default}]"));
    let help = format!(
        "{help}{} [env: {}]",
        default.unwrap_or_default(),
        setting.variables().join(", ")
    );
    arg.help(help).help_heading(setting.group)
}

impl<T: OperatorSettings> clap::Args for OperatorArgs<T> {
    fn augment_args(command: Command) -> Command {
        command.args(described(T::DEFAULTS))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T> FromArgMatches for OperatorArgs<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            flags: SettingFlags::from_arg_matches(matches)?,
            kubebuilder: KubebuilderFlags::from_arg_matches(matches)?,
            log: OnceLock::new(),
            operator: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.flags.update_from_arg_matches(matches)?;
        self.kubebuilder.update_from_arg_matches(matches)
    }
}

impl<T: OperatorSettings> CommandFactory for OperatorArgs<T> {
    fn command() -> Command {
        <Self as clap::Args>::augment_args(Command::new("operator"))
    }

    fn command_for_update() -> Command {
        Self::command()
    }
}

impl<T: OperatorSettings> Parser for OperatorArgs<T> {}

impl<T> Clone for OperatorArgs<T> {
    fn clone(&self) -> Self {
        Self {
            flags: self.flags.clone(),
            kubebuilder: self.kubebuilder.clone(),
            log: self.log.clone(),
            operator: PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_about_the_log_are_found_after_others() {
        let kept = |line: &str| {
            let words = words_about_log(line.split(' ').map(OsString::from));
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        };
        assert_eq!(
            kept("p --bogus --log-format=json -x"),
            "p --log-format=json"
        );
        assert_eq!(kept("p --log-format json --y"), "p --log-format json");
        assert_eq!(
            kept("p --zap-devel --z --config f"),
            "p --zap-devel --config f"
        );
        assert_eq!(kept("p describe"), "p");
    }
}
