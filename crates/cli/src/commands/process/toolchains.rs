//! Programs of the user's that are not part of the system: what must be mounted so that they run inside.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stead_domain::definition::SEARCH_PATH;
use stead_domain::{Code, Error};

use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::escape;

/// What makes one toolchain work inside, at the paths that it has here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchain {
    pub name: String,
    pub mounts: Vec<PathBuf>,
    /// Where its programs are.
    pub programs: Vec<PathBuf>,
    pub variables: Vec<(String, String)>,
}

/// Below the home directory: where its programs are found, what it needs mounted, and the variable that names one of these.
struct Known {
    name: &'static str,
    programs: &'static str,
    mounts: &'static [&'static str],
    variable: Option<(&'static str, &'static str)>,
}

/// Of Cargo only the programs: beside them lies a key for crates.io.
const KNOWN: &[Known] = &[
    Known { name: "rust", programs: ".cargo", mounts: &[".cargo/bin", ".rustup"], variable: Some(("RUSTUP_HOME", ".rustup")) },
    Known { name: "node (nvm)", programs: ".nvm", mounts: &[".nvm"], variable: Some(("NVM_DIR", ".nvm")) },
    Known { name: "node (volta)", programs: ".volta", mounts: &[".volta"], variable: Some(("VOLTA_HOME", ".volta")) },
    Known { name: "node (fnm)", programs: ".local/share/fnm", mounts: &[".local/share/fnm"], variable: None },
    Known { name: "bun", programs: ".bun", mounts: &[".bun"], variable: None },
    Known { name: "deno", programs: ".deno", mounts: &[".deno"], variable: None },
    Known { name: "python (pyenv)", programs: ".pyenv", mounts: &[".pyenv"], variable: Some(("PYENV_ROOT", ".pyenv")) },
    Known { name: "ruby (rbenv)", programs: ".rbenv", mounts: &[".rbenv"], variable: Some(("RBENV_ROOT", ".rbenv")) },
    Known { name: "asdf", programs: ".asdf", mounts: &[".asdf"], variable: Some(("ASDF_DATA_DIR", ".asdf")) },
    Known { name: "mise", programs: ".local/share/mise", mounts: &[".local/share/mise"], variable: None },
    Known { name: "go", programs: "go", mounts: &["go/bin"], variable: None },
    Known { name: "go (sdk)", programs: "sdk", mounts: &["sdk"], variable: None },
    Known { name: "haskell (ghcup)", programs: ".ghcup", mounts: &[".ghcup"], variable: None },
    Known { name: "java (sdkman)", programs: ".sdkman", mounts: &[".sdkman"], variable: Some(("SDKMAN_DIR", ".sdkman")) },
];

/// Toolchains below the home directory whose programs are on the search path, each once.
pub fn on_path(search: &str, home: &Path) -> Vec<Toolchain> {
    let mut found: Vec<Toolchain> = Vec::new();
    for directory in std::env::split_paths(search).filter(|directory| directory.is_dir()) {
        let Some(toolchain) = known(&directory, home) else { continue };
        match found.iter_mut().find(|other| other.name == toolchain.name) {
            Some(other) if other.programs.contains(&directory) => {}
            Some(other) => other.programs.push(directory),
            None => found.push(toolchain),
        }
    }
    found
}

/// Those that the user wants inside, when there is somebody to ask.
pub fn offer(invocation: &Invocation<'_>, yes: bool) -> Result<Vec<Toolchain>> {
    let asks = !yes && io::stdin().is_terminal() && io::stderr().is_terminal() && !invocation.printer.is_json();
    let (search, home) = (invocation.surroundings.variable("PATH"), invocation.surroundings.path("HOME"));
    let (true, Some(search), Some(home)) = (asks, search, home) else { return Ok(Vec::new()) };
    let found = on_path(&search, &home);
    if found.is_empty() {
        return Ok(found);
    }
    let shown = |it: &Toolchain| {
        let mounts: Vec<String> = it.mounts.iter().map(|path| path.display().to_string()).collect();
        escape::line(&format!("{}: {}", it.name, mounts.join(", "))).into_owned()
    };
    let lines: Vec<String> = found.iter().map(shown).collect();
    let prompt = "Toolchains of yours to mount read-only (space chooses, enter goes on)";
    let chosen = dialoguer::MultiSelect::new().with_prompt(prompt).items(&lines).interact_opt();
    let chosen = chosen
        .map_err(|error| Error::new(Code::Usage, format!("the answer could not be read: {error}")).suggestion("say --yes for none"))?
        .unwrap_or_default();
    Ok(found.into_iter().enumerate().filter(|(index, _)| chosen.contains(index)).map(|(_, it)| it).collect())
}

/// Where a program is that somebody calls by its name.
pub fn find(program: &str, search: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return None;
    }
    let runnable = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    std::env::split_paths(search).filter(|directory| directory.is_absolute()).map(|directory| directory.join(program)).find(runnable)
}

/// What a program needs mounted: its toolchain when that is a known one, else the directory that holds it and what it links to.
pub fn of_program(path: &Path, home: Option<&Path>) -> Toolchain {
    let programs = path.parent().unwrap_or(path).to_owned();
    if let Some(known) = home.and_then(|home| known(&programs, home)) {
        return known;
    }
    let mut mounts = vec![around(&programs, home)];
    if let Some(real) = path.canonicalize().ok().and_then(|real| real.parent().map(|parent| around(parent, home)))
        && mounts.iter().all(|mount| !real.starts_with(mount))
        && !is_system(&real)
    {
        mounts.push(real);
    }
    Toolchain { name: String::new(), mounts, programs: vec![programs], variables: Vec::new() }
}

fn known(programs: &Path, home: &Path) -> Option<Toolchain> {
    let below = programs.strip_prefix(home).ok()?;
    let known = KNOWN.iter().find(|known| below.starts_with(known.programs))?;
    let mounts = known.mounts.iter().map(|mount| home.join(mount)).filter(|mount| mount.is_dir()).collect();
    let variable = known.variable.map(|(name, value)| (name, home.join(value))).filter(|(_, value)| value.is_dir());
    let variables = variable.map(|(name, value)| (name.to_owned(), value.display().to_string())).into_iter().collect();
    Some(Toolchain { name: known.name.to_owned(), mounts, programs: vec![programs.to_owned()], variables })
}

/// What belongs to the programs of a directory: all of an installation of its own, and no more than the directory where many share one.
fn around(programs: &Path, home: Option<&Path>) -> PathBuf {
    let is_collection = programs.file_name().is_some_and(|name| matches!(name.to_str(), Some("bin" | "sbin" | "shims")));
    let parent = programs.parent().filter(|_| is_collection);
    let shared = |directory: &&Path| {
        is_system(directory)
            || home.is_some_and(|home| home.starts_with(directory) || *directory == home.join(".local"))
            || directory.components().count() < 3
    };
    parent.filter(|parent| !shared(parent)).unwrap_or(programs).to_owned()
}

/// Every environment with the host's system sees these already.
fn is_system(directory: &Path) -> bool {
    ["/usr", "/bin", "/sbin", "/lib", "/lib64"].iter().any(|system| directory.starts_with(system))
}

/// The search path inside with more directories in front of it.
pub fn search_path<'a>(present: Option<&str>, more: impl Iterator<Item = &'a Path>) -> String {
    let present = present.unwrap_or(SEARCH_PATH);
    let mut parts: Vec<String> = more.map(|directory| directory.display().to_string()).collect();
    parts.retain(|part| !present.split(':').any(|known| known == part));
    parts.push(present.to_owned());
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_toolchains_bring_what_they_need() {
        let home = tempfile::tempdir().unwrap();
        let at = |below: &str| home.path().join(below);
        for directory in [".cargo/bin", ".rustup", ".nvm/versions/node/v22/bin", ".local/bin", "tool/bin", ".pyenv/bin", ".pyenv/shims"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        let search = std::env::join_paths([
            at(".cargo/bin"),
            "/usr/bin".into(),
            at(".nvm/versions/node/v22/bin"),
            at(".pyenv/shims"),
            at(".pyenv/bin"),
            at(".asdf/shims"),
        ])
        .unwrap();
        let found = on_path(search.to_str().unwrap(), home.path());
        assert_eq!(found.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["rust", "node (nvm)", "python (pyenv)"]);
        assert_eq!(found[2].programs, [at(".pyenv/shims"), at(".pyenv/bin")]);
        assert_eq!(found[0].mounts, [at(".cargo/bin"), at(".rustup")]);
        assert_eq!(found[0].variables, [("RUSTUP_HOME".to_owned(), at(".rustup").display().to_string())]);
        assert_eq!(of_program(&at(".local/bin/x"), Some(home.path())).mounts, [at(".local/bin")]);
        assert_eq!(of_program(&at("tool/bin/x"), Some(home.path())).mounts, [at("tool")]);
        assert_eq!(of_program(Path::new("/opt/bin/x"), None).mounts, [PathBuf::from("/opt/bin")]);
        let path = search_path(None, [Path::new("/opt/bin"), Path::new("/usr/bin")].into_iter());
        assert_eq!(path, format!("/opt/bin:{SEARCH_PATH}"));
    }
}
