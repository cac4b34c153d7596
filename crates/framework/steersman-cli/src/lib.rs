//! Flags, environment variables and a configuration file for operators, with logging.
//!
//! [`Args`] is the command line of an operator: the flags of kubebuilder's `main.go` and those of this framework.
//! [`Args::config`] reads the environment and the file as well, and [`Config::manager`] begins to declare a manager
//! with all of it. Of the sources of one setting the flag wins, then the variable, then the file, then the default.
//!
//! ```no_run
//! use clap::Parser;
//! use steersman_manager::shutdown_signal;
//!
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! let args = steersman_cli::Args::parse();
//! args.init_logging()?;
//! let manager = args.manager("website-operator").await?.build()?;
//! // manager.add_controller(…)?;
//! manager.start(shutdown_signal()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Reading order
//!
//! - [`settings`] lists every setting with its default and its variables.
//! - [`error`] has [`Error`].
//! - `log_filter` reads levels, and `named_value` booleans, numbers, delays and namespaces.
//! - `controller_setting` reads settings of single controllers.
//! - `flags` are the flags, and `kubebuilder` those of kubebuilder with another name or form.
//! - `layer` reads variables and files with the parsers of the flags, and `file` splits a file into keys and values
//!   with their lines.
//! - `json_line` merges an event and its spans into one flat JSON object, and `json_log` writes these lines, those of
//!   panics and the error that ends the process.
//! - [`console`] has [`Console`], which prints the texts of a program in the form of its log.
//! - `trace_export` starts the export of traces, if the program has the feature `otlp`.
//! - [`log`] has [`LogLevel`], `process_log` the log of a process with its traces, and `level_route` shows and changes the level over HTTP.
//! - [`config`] has [`Config`], the result of all sources, and [`args`] the command line.
//! - `dev_session` ends a program with `cargo steersman dev`.
//! - [`program`] has [`Program`], a whole `main`.

pub mod settings;
pub mod error;
mod log_filter;
mod named_value;
mod controller_setting;
mod flags;
mod kubebuilder;
mod layer;
mod file;
mod json_line;
mod json_log;
pub mod console;
mod trace_export;
pub mod log;
mod process_log;
mod level_route;
pub mod config;
pub mod args;
mod dev_session;
pub mod program;

pub use args::{Args, NoSettings, OperatorArgs};
pub use config::Config;
pub use console::Console;
pub use controller_setting::CONTROLLER_KEYS;
pub use error::{Error, SettingSource};
pub use flags::LogFormat;
pub use log::{InvalidLogLevel, LogLevel};
pub use program::{BoxError, Program};
pub use settings::OperatorSettings;
pub use steersman_description::{self as description, Description};

pub use clap;
