//! Driver: `cargo steersman add webhook`.

use std::path::Path;

use crate::api_kind;
use crate::change_set::ChangeSet;
use crate::command_line::AddWebhookArgs;
use crate::edits::program_edits::with_webhooks;
use crate::edits::{with_link, with_module};
use crate::error::Error;
use crate::names::ProgramName;
use crate::project::Project;
use crate::scaffold::{WebhookParts, webhook as files_of, webhooks as module_of};

pub(crate) const WEBHOOKS: &str = "src/webhooks.rs";

/// Adds a defaulter and a validator of a kind, with a test, to the operator in the current folder.
pub(crate) fn webhook(args: &AddWebhookArgs) -> Result<(), Error> {
    let project = Project::find()?;
    let program = ProgramName::new(&project.name)?;
    let kind = api_kind::find(&project.folder, &args.kind)?;
    let are_both = args.defaulting == args.validating;
    let parts = WebhookParts {
        defaulting: args.defaulting || are_both,
        validating: args.validating || are_both,
    };
    let mut changes = ChangeSet::of(&project);
    if !changes.add(files_of(&program, &kind, parts))? {
        check_parts(&changes, &kind.module, &kind.kind, parts)?;
    }
    register(&mut changes, &program)?;
    let (module, test) = (&kind.module, format!("{}_webhook", kind.module));
    changes.edit(WEBHOOKS, |source| {
        let source = with_module(source, module, "pub ")?;
        with_link(&source, "add_all", &format!(".with({module}::add)"))
    })?;
    changes.edit("tests/it/main.rs", |source| with_module(source, &test, ""))?;
    let nothing = format!(
        "the webhooks of {} are there already; nothing changed",
        kind.kind
    );
    changes.finish(args.dry_run, &nothing)
}

/// Adds the module of all webhooks, and registers the module with the program, unless both exist.
pub(crate) fn register(changes: &mut ChangeSet, program: &ProgramName) -> Result<(), Error> {
    if changes.read(WEBHOOKS)?.is_none() {
        changes.add(module_of())?;
    }
    changes.edit("src/lib.rs", |source| {
        with_module(source, "webhooks", "pub ")
    })?;
    let library = &program.library;
    changes.edit("src/main.rs", |source| with_webhooks(source, library))
}

/// Refuses to add a defaulter or validator if the webhook file of the kind exists without it.
fn check_parts(
    changes: &ChangeSet,
    module: &str,
    kind: &str,
    parts: WebhookParts,
) -> Result<(), Error> {
    let path = Path::new("src/webhooks").join(format!("{module}.rs"));
    let source = changes.read(&path)?.unwrap_or_default();
    let wanted = [
        (parts.defaulting, "Defaulter", "defaulter"),
        (parts.validating, "Validator", "validator"),
    ];
    for (is_wanted, name, method) in wanted {
        if is_wanted && !source.contains(&format!("{name}<{kind}> for")) {
            return Err(Error::Source {
                path,
                problem: format!(
                    "it has no {method}, and is yours: implement `{name}<{kind}>` and add `.{method}::<{kind}>(…)` to its \
                     `add`"
                ),
            });
        }
    }
    Ok(())
}
