//! Driver: builds the operator, and asks the program for its description.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::SystemTime;

use steersman_description::Description;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::output::SessionOutput;
use super::view::model::ViewEvent;
use crate::command_line::DevArgs;
use crate::error::Error;
use crate::project::{Project, describe};

#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) program: PathBuf,
    /// The time of the build. It tells whether the program has changed and has to be restarted.
    pub(crate) at: Option<SystemTime>,
    pub(crate) description: Description,
}

impl Built {
    /// Builds the program unless the command line names a built one. Dropping the future ends cargo.
    pub(crate) async fn build(
        project: &Project,
        args: &DevArgs,
        output: &SessionOutput,
    ) -> Result<Self, Error> {
        if let Some(program) = &args.operator.program {
            return Self::of(program.clone(), output);
        }
        output.say(format_args!("building {}", project.name));
        output.show(ViewEvent::BuildBegan);
        let built = run_cargo(project, args, output).await;
        let is_good = built.is_ok();
        output
            .show_after_lines(ViewEvent::BuildEnded { is_good })
            .await;
        Self::of(built?, output)
    }

    fn of(program: PathBuf, output: &SessionOutput) -> Result<Self, Error> {
        let description = describe(&program, output.stdio())?;
        let data = std::fs::metadata(&program);
        let at = data.and_then(|data| data.modified()).ok();
        Ok(Self {
            program,
            at,
            description,
        })
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.at.is_some() && self.at == other.at
    }
}

async fn run_cargo(
    project: &Project,
    args: &DevArgs,
    output: &SessionOutput,
) -> Result<PathBuf, Error> {
    let failed = |source| Error::start("cargo build")(source);
    let mut command = Command::from(project.build_command(&args.operator, args.release));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(output.stdio())
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let (mut messages, stdout) = (Vec::new(), child.stdout.take());
    let read = async {
        match stdout {
            Some(mut stdout) => stdout.read_to_end(&mut messages).await.map(drop),
            None => Ok(()),
        }
    };
    let copied = output.copy(child.stderr.take(), ViewEvent::BuildLine);
    let (read, ()) = tokio::join!(read, copied);
    read.map_err(failed)?;
    let status = child.wait().await.map_err(failed)?;
    Error::check("cargo build", status)?;
    project.built(&messages)
}
