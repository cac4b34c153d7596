//! Driver: `cargo steersman top`.

mod screen_lines;

use std::io::{IsTerminal as _, stdout};

use steersman_object::json_text;

use self::screen_lines::screen_lines;
use crate::command_line::TopArgs;
use crate::dev::interruption::Interruption;
use crate::dev::output::ViewMessage;
use crate::dev::page_source::PageSource;
use crate::dev::terminal::TerminalView;
use crate::dev::view::model::{Heading, ShownParts};
use crate::error::Error;
use crate::screen::say;

/// Shows what a running operator works on and waits for: in a terminal until it is interrupted, elsewhere once.
pub(crate) async fn top(args: &TopArgs) -> Result<(), Error> {
    let source = PageSource::find(args).await?;
    let overview = source.overview().await?;
    if args.once || !stdout().is_terminal() {
        say(screen_lines(&overview).join("\n"));
        return Ok(());
    }
    let heading = Heading {
        name: json_text(&overview["replica"]).to_owned(),
        server: json_text(&overview["server"]).to_owned(),
        access: source.to_string(),
        shown: ShownParts::PageOnly,
    };
    let (view, sender, keys) = TerminalView::open(heading, None)?;
    let mut interruption = Interruption::listen(Some(keys.quit))?;
    let shown = ViewMessage::Operator(String::new(), Some(source));
    // A failed send means that the view has ended.
    let _ = sender.messages.send(shown);
    interruption.next().await;
    view.close().await;
    Ok(())
}
