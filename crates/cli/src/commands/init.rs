use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use stead_domain::definition::{DefinitionFile, Mount, MountAccess, Spec, template};
use stead_domain::environment::TemplateId;
use stead_domain::{Code, Error};

use crate::arguments::local::Init;
use crate::commands::process::toolchains::{self, Toolchain};
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::{atomic_file, definitions};

pub fn run(invocation: &Invocation<'_>, arguments: &Init) -> Result<()> {
    refuse_links(&invocation.surroundings.directory)?;
    let below = format!("{}/local-default.json", definitions::DIRECTORY);
    let path = invocation.surroundings.absolute(below.as_ref());
    // One that is there stays as it is, so there is nothing to ask.
    let chosen = if path.exists() { Vec::new() } else { toolchains::offer(invocation, arguments.yes)? };
    let text = definition(invocation, &chosen);
    let created = atomic_file::create_new(&path, text.as_bytes(), 0o644)?;
    let printer = invocation.printer;
    printer.record(&json!({ "path": below, "created": created }), &below, |printer| {
        if created {
            printer.note(&format!("wrote {below}"));
            printer.hint("make it an environment: stead env apply -f .");
        } else {
            printer.note(&format!("{below} exists and was left as it is"));
        }
        Ok(())
    })
}

fn definition(invocation: &Invocation<'_>, chosen: &[Toolchain]) -> String {
    if chosen.is_empty() {
        return DefinitionFile::local_default(invocation.now());
    }
    let mut env: BTreeMap<String, String> = chosen.iter().flat_map(|it| it.variables.iter().cloned()).collect();
    env.insert("PATH".to_owned(), toolchains::search_path(None, chosen.iter().flat_map(|it| &it.programs).map(|it| it.as_path())));
    let mut mounts: Vec<Mount> = Vec::new();
    for path in chosen.iter().flat_map(|it| &it.mounts).map(|path| path.display().to_string()) {
        if mounts.iter().all(|other| other.path != path) {
            mounts.push(Mount { source: format!("host:{path}"), path, access: MountAccess::ReadOnly });
        }
    }
    let name = Some("Default local environment".to_owned());
    let spec = Spec { name, mounts: Some(mounts), env: Some(env), ..template(TemplateId::LocalDefault) };
    DefinitionFile::render("local-default", &spec, invocation.now(), invocation.now())
}

/// A checkout may bring a link of that name: through it the file would be written somewhere else than here.
fn refuse_links(directory: &Path) -> Result<()> {
    let usual = Path::new(definitions::DIRECTORY);
    for below in usual.ancestors().filter(|below| !below.as_os_str().is_empty()) {
        if directory.join(below).is_symlink() {
            let message = format!("{} is a link, and leads somewhere else", below.display());
            return Err(Error::new(Code::LocalFile, message)
                .detail("path", below.display().to_string())
                .suggestion("put a directory in its place, or move it away")
                .into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_written_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        refuse_links(root.path()).unwrap();
        for target in [elsewhere.path(), Path::new("nowhere")] {
            symlink(target, root.path().join(".stead")).unwrap();
            assert!(refuse_links(root.path()).is_err());
            fs::remove_file(root.path().join(".stead")).unwrap();
        }
        fs::create_dir(root.path().join(".stead")).unwrap();
        refuse_links(root.path()).unwrap();
        symlink(elsewhere.path(), root.path().join(".stead/environments")).unwrap();
        assert!(refuse_links(root.path()).is_err());
    }
}
