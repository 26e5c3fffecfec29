use std::collections::HashSet;

use stead_domain::files::{GrepLine, GrepOrder, LineFound};

use super::inside;
use crate::arguments::files::Grep;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::printer::escape;
use crate::references;

/// What is written at once.
const PIECE: usize = 64 << 10;

pub async fn run(invocation: &Invocation<'_>, arguments: &Grep) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let order = GrepOrder {
        path: inside(&arguments.path)?,
        pattern: arguments.pattern.clone(),
        fixed: arguments.fixed,
        ignore_case: arguments.ignore_case,
        globs: arguments.globs.clone(),
        all: arguments.all,
        context: arguments.context,
        limit: arguments.limit,
    };
    let printer = invocation.printer;
    let mut search = client.grep_files(environment.id, &order).await?;
    let (mut told, mut text) = (HashSet::new(), String::new());
    while let Some(line) = search.next().await? {
        if printer.is_json() {
            text.push_str(&escape::json(&serde_json::to_string(&line).map_err(std::io::Error::other)?));
            text.push('\n');
        }
        match &line {
            GrepLine::Match(found) if printer.is_human() => show(&mut text, found, ':'),
            GrepLine::Context(found) if printer.is_human() => show(&mut text, found, '-'),
            _ => {}
        }
        // What is there already is written at once.
        if text.len() >= PIECE || search.is_waiting() || matches!(line, GrepLine::End { .. }) {
            printer.screen(&text)?;
            text.clear();
        }
        match line {
            GrepLine::Match(found) if !printer.is_json() && !printer.is_human() => {
                let path = found.exact_path();
                if !told.contains(&path) {
                    printer.name(&path)?;
                    told.insert(path);
                }
            }
            GrepLine::Match(_) | GrepLine::Context(_) => {}
            GrepLine::End { matches, skipped, truncated, .. } => {
                if truncated {
                    printer.hint("there is more: raise --limit, or say more with the pattern");
                }
                if skipped > 0 {
                    printer.hint(&format!("{skipped} of the files could not be read"));
                }
                if matches == 0 {
                    return Err(Failure::Told(ExitStatus::Failed));
                }
            }
        }
    }
    Ok(())
}

/// As every such program prints it.
fn show(text: &mut String, found: &LineFound, mark: char) {
    let rest = if found.cut { "…" } else { "" };
    let line = format!("{}{mark}{}{mark}{}{rest}\n", escape::line(&found.path), found.line_number, escape::tabbed(&found.text));
    text.push_str(&line);
}
