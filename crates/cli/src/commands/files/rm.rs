use stead_domain::files::FilePath;

use super::{changed, inside};
use crate::arguments::files::Rm;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::{prompt, references};

pub async fn run(invocation: &Invocation<'_>, arguments: &Rm) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let paths: Vec<FilePath> = arguments.paths.iter().map(|path| inside(path)).collect::<Result<_>>()?;
    let what = match paths.as_slice() {
        [path] => format!("`{path}`"),
        paths => human::plural(paths.len(), "path", "paths"),
    };
    if arguments.recursive {
        prompt::confirm(invocation.printer, &format!("Remove {what} and everything in it from {}?", environment.name), arguments.yes)?;
    }
    for path in &paths {
        client.remove_file(environment.id, path, arguments.recursive).await?;
    }
    changed(invocation, &paths, &format!("removed {what} from {}", environment.name))
}
