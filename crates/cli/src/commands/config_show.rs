use serde_json::{Map, Value, json};
use stead_domain::lease::lease_of;

use crate::failure::Result;
use crate::invocation::Invocation;
use crate::settings::{ConfigFile, Setting, Source, Target, lease};

pub fn run(invocation: &Invocation<'_>) -> Result<()> {
    let settings = invocation.settings_without_lease()?;
    let mut rows: Vec<(&str, String, String)> = Vec::new();
    let mut add = |name: &'static str, value: String, source: &Source| rows.push((name, value, source.to_string()));
    match &settings.target {
        Target::Local { data_dir, socket } => {
            add("server", "local".to_owned(), &data_dir.source);
            add("data-dir", data_dir.value.display().to_string(), &data_dir.source);
            add("socket", socket.value.display().to_string(), &socket.source);
        }
        Target::Remote { endpoint } => add("url", endpoint.value.to_string(), &endpoint.source),
    }
    if let Some(profile) = &settings.profile {
        add("profile", profile.value.clone(), &profile.source);
    }
    if let Some(key) = &settings.key {
        add("key", format!("{}…", key.value.prefix()), &key.source);
    }
    if let Some(path) = &settings.ca_file {
        add("ca-file", path.value.display().to_string(), &path.source);
    }
    match lease::given(&invocation.global, &invocation.surroundings) {
        Ok(given) => {
            if let Some(lease) = given.and_then(|token| Some(Setting { value: lease_of(&token.value.0)?, source: token.source })) {
                add("lease", lease.value.to_string(), &lease.source);
            }
        }
        // It is one of the settings, and the others are shown all the same.
        Err(failure) => failure.body().iter().for_each(|body| invocation.printer.warn(&body.error.message)),
    }
    add("project", settings.project.value.clone(), &settings.project.source);
    if let Ok(path) = ConfigFile::path(&invocation.surroundings) {
        add("configuration", path.display().to_string(), &Source::Default);
    }
    if invocation.printer.is_json() {
        let fields: Map<String, Value> =
            rows.into_iter().map(|(name, value, source)| (name.replace('-', "_"), json!({ "value": value, "source": source }))).collect();
        return invocation.printer.json(&fields);
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value, source)| vec![name.to_owned(), value, source]).collect();
    invocation.printer.table(&["setting", "value", "from"], &rows)
}
