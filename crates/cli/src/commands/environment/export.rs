use std::path::Path;

use stead_domain::definition::DefinitionFile;
use stead_domain::{Code, Error, names};

use super::archive;
use crate::arguments::environment::Export;
use crate::atomic_file;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Export) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    if let Some(path) = &arguments.archive {
        return archive::write(invocation, &client, &environment, path, arguments.stop).await;
    }
    // A name that no file can have would make a definition that nothing reads.
    names::check_definition_id(&environment.name).map_err(|error| {
        Error::new(Code::InvalidDefinition, format!("`{}` cannot be the id of a definition: {}", environment.name, error.message()))
            .detail("field", "id")
            .suggestion(format!(
                "give it a name of letters, digits, dots, dashes and underscores: stead env update {} --name NAME",
                environment.id
            ))
    })?;
    let text = DefinitionFile::render(&environment.name, &environment.spec, environment.created_at, environment.updated_at);
    let Some(path) = &arguments.output else { return invocation.printer.block(&text) };
    atomic_file::check_directory(path)?;
    if !atomic_file::create_new(path, text.as_bytes(), 0o644)? {
        return Err(is_there(path));
    }
    invocation.printer.note(&format!("wrote {}", path.display()));
    Ok(())
}

pub fn is_there(path: &Path) -> Failure {
    let message = format!("{} is there already", path.display());
    Error::new(Code::AlreadyExists, message).suggestion("choose another name, or remove the file first").into()
}
