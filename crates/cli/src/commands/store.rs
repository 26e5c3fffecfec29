//! Which store `backup` and `restore` work on.

use stead_domain::{Code, Error};

use crate::arguments::local::Store;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::server::ServeOptions;
use crate::settings::Target;

pub fn options(invocation: &Invocation<'_>, store: &Store) -> Result<ServeOptions> {
    let settings = invocation.settings_without_lease()?;
    let Target::Local { data_dir, .. } = settings.target else {
        return Err(Error::new(Code::Usage, "this works on the files of a server, on its own machine")
            .suggestion("give --data-dir, or --profile local")
            .into());
    };
    Ok(ServeOptions {
        config: store.config.clone(),
        data_dir: Some(data_dir.value),
        database: store.database.clone(),
        ..ServeOptions::default()
    })
}
