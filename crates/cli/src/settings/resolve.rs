//! The precedence, in one place.

use std::io::Read;
use std::path::{Path, PathBuf};

use stead_client::{Endpoint, Key};
use stead_domain::{Code, Error, api_key, names};

use super::files::{self, ConfigFile, Credentials, LOCAL_PROFILE, Profile};
use super::{Presents, Setting, Settings, Source, Surroundings, Target, lease, trust};
use crate::arguments::GlobalArguments;
use crate::failure::{Failure, Result, file_error};

const LONGEST_KEY: u64 = 4096;

pub(super) fn resolve(global: &GlobalArguments, surroundings: &Surroundings, presents: Presents) -> Result<Settings> {
    resolve_with(global, surroundings, &ConfigFile::read(surroundings)?, DirectoryFile::find(&surroundings.directory)?, presents)
}

/// As if neither the user nor the directory had a file.
pub(super) fn resolve_without_files(global: &GlobalArguments, surroundings: &Surroundings) -> Result<Settings> {
    let directory = DirectoryFile { project: None, warnings: Vec::new() };
    resolve_with(global, surroundings, &ConfigFile::default(), directory, Presents::Nothing)
}

/// The user's files and the directory's, one after the other, and why they cannot be read where they cannot.
pub(super) fn read_files(surroundings: &Surroundings) -> [Result<()>; 3] {
    [ConfigFile::read(surroundings).map(drop), Credentials::check(surroundings), DirectoryFile::find(&surroundings.directory).map(drop)]
}

fn resolve_with(
    global: &GlobalArguments,
    surroundings: &Surroundings,
    config: &ConfigFile,
    directory: DirectoryFile,
    presents: Presents,
) -> Result<Settings> {
    let (target, profile) = target(global, surroundings, config)?;
    let by_flag = profile.as_ref().is_some_and(|profile| matches!(profile.source, Source::Flag(_)));
    let mut key = key(global, surroundings, profile.as_ref(), by_flag)?;
    let ca_file = ca_file(global, surroundings, config, profile.as_ref(), by_flag);
    // Over a socket its user speaks, and a token would speak for less than that.
    let is_nobody = key.is_none() && !target.is_socket();
    // What presents none does not look at it either: one that cannot be read keeps nobody from looking.
    let mut lease = if presents == Presents::Lease || is_nobody { lease::given(global, surroundings)? } else { None };
    if let (true, Some(token)) = (is_nobody, &lease) {
        key = Some(Setting::new(Key::new(token.value.0.clone()), token.source.clone()));
    }
    if presents == Presents::Nothing {
        lease = None;
    }
    let project = project(global, surroundings, config, &directory, profile.as_ref(), &target, key.as_ref());
    names::check_handle(&project.value).map_err(|error| {
        let message = format!("the project `{}` from {} is not a handle", project.value, project.source);
        Error::new(Code::Usage, message).suggestion(error.message())
    })?;
    let no_start = global.no_start || surroundings.variable("STEAD_NO_START").is_some_and(|value| value != "0");
    Ok(Settings { target, key, ca_file, lease, project, profile, no_start, warnings: directory.warnings })
}

/// Each level says where the server is before the next is asked: flags, then variables, then the profile in use.
fn target(global: &GlobalArguments, surroundings: &Surroundings, config: &ConfigFile) -> Result<(Target, Option<Setting<String>>)> {
    let remote =
        |url: &str, source: Source| -> Result<Target> { Ok(Target::Remote { endpoint: Setting { value: Endpoint::parse(url)?, source } }) };
    if let Some(url) = &global.url {
        return Ok((remote(url, Source::Flag("--url"))?, None));
    }
    if let Some(name) = &global.profile {
        let setting = Setting::new(name.clone(), Source::Flag("--profile"));
        if name == LOCAL_PROFILE {
            return Ok((local(global, surroundings)?, Some(setting)));
        }
        let url = profile_url(config, name)?;
        return Ok((remote(url, Source::Profile(name.clone()))?, Some(setting)));
    }
    if global.data_dir.is_some() {
        return Ok((local(global, surroundings)?, None));
    }
    if let Some(url) = surroundings.variable("STEAD_URL") {
        return Ok((remote(&url, Source::Variable("STEAD_URL"))?, None));
    }
    if surroundings.path("STEAD_DATA_DIR").is_some() || surroundings.path("STEAD_SOCKET").is_some() {
        return Ok((local(global, surroundings)?, None));
    }
    match &config.profile {
        Some(name) if name != LOCAL_PROFILE => {
            let url = profile_url(config, name)?;
            Ok((remote(url, Source::Profile(name.clone()))?, Some(Setting::new(name.clone(), Source::Default))))
        }
        _ => Ok((local(global, surroundings)?, None)),
    }
}

fn profile_url<'config>(config: &'config ConfigFile, name: &str) -> Result<&'config str> {
    config.profiles.get(name).and_then(|profile| profile.url.as_deref()).ok_or_else(|| {
        let known: Vec<&str> = config.profiles.keys().map(String::as_str).chain([LOCAL_PROFILE]).collect();
        Error::new(Code::Usage, format!("there is no profile `{name}`; known are {}", known.join(", ")))
            .suggestion(format!("stead login URL --key-file FILE --profile {name}"))
            .into()
    })
}

fn local(global: &GlobalArguments, surroundings: &Surroundings) -> Result<Target> {
    let data_dir = match (&global.data_dir, surroundings.path("STEAD_DATA_DIR")) {
        (Some(path), _) => Setting::new(surroundings.absolute(path), Source::Flag("--data-dir")),
        (None, Some(path)) => Setting::new(surroundings.absolute(&path), Source::Variable("STEAD_DATA_DIR")),
        (None, None) => Setting::new(surroundings.default_data_directory()?, Source::Default),
    };
    // A socket belongs to one data directory: a flag that names another one takes its own.
    let socket = match surroundings.path("STEAD_SOCKET") {
        Some(path) if global.data_dir.is_none() => Setting::new(surroundings.absolute(&path), Source::Variable("STEAD_SOCKET")),
        _ => Setting::new(data_dir.value.join("stead.sock"), data_dir.source.clone()),
    };
    Ok(Target::Local { data_dir, socket })
}

/// A profile's key goes to that profile's server and to no other.
fn key(
    global: &GlobalArguments,
    surroundings: &Surroundings,
    profile: Option<&Setting<String>>,
    profile_by_flag: bool,
) -> Result<Option<Setting<Key>>> {
    if let Some(path) = &global.key_file {
        return Ok(Some(Setting::new(read_key_file(path)?, Source::Flag("--key-file"))));
    }
    if !profile_by_flag && let Some(key) = surroundings.variable("STEAD_API_KEY") {
        return Ok(Some(Setting::new(Key::new(key.trim()), Source::Variable("STEAD_API_KEY"))));
    }
    match profile {
        Some(name) if name.value != LOCAL_PROFILE => {
            Ok(Credentials::key(surroundings, &name.value)?.map(|key| Setting::new(key, Source::Profile(name.value.clone()))))
        }
        _ => Ok(None),
    }
}

/// As with the key: what a profile trusts is for that profile's server.
fn ca_file(
    global: &GlobalArguments,
    surroundings: &Surroundings,
    config: &ConfigFile,
    profile: Option<&Setting<String>>,
    profile_by_flag: bool,
) -> Option<Setting<PathBuf>> {
    if let Some(path) = &global.ca_file {
        return Some(Setting::new(surroundings.absolute(path), Source::Flag("--ca-file")));
    }
    if !profile_by_flag && let Some(path) = surroundings.path("STEAD_CA_FILE") {
        return Some(Setting::new(surroundings.absolute(&path), Source::Variable("STEAD_CA_FILE")));
    }
    let name = &profile?.value;
    let path = config.profiles.get(name)?.ca_file.clone()?;
    Some(Setting::new(path, Source::Profile(name.clone())))
}

fn project(
    global: &GlobalArguments,
    surroundings: &Surroundings,
    config: &ConfigFile,
    directory: &DirectoryFile,
    profile: Option<&Setting<String>>,
    target: &Target,
    key: Option<&Setting<Key>>,
) -> Setting<String> {
    let of_profile = || {
        let name = &profile?.value;
        let project = config.profiles.get(name).and_then(|Profile { project, .. }| project.clone())?;
        Some(Setting::new(project, Source::Profile(name.clone())))
    };
    let of_local = || {
        let project = config.local.project.clone().filter(|_| matches!(target, Target::Local { .. }))?;
        Some(Setting::new(project, Source::Local))
    };
    let by_flag = profile.is_some_and(|profile| matches!(profile.source, Source::Flag(_)));
    let of_key = || {
        let project = api_key::split(key?.value.reveal()).1?.to_owned();
        Some(Setting::new(project, Source::Key))
    };
    let flag = global.project.clone().map(|handle| Setting::new(handle, Source::Flag("--project")));
    flag.or_else(|| if by_flag { of_profile() } else { None })
        .or_else(|| Some(Setting::new(surroundings.variable("STEAD_PROJECT")?, Source::Variable("STEAD_PROJECT"))))
        .or_else(|| directory.project.clone())
        .or_else(of_profile)
        .or_else(of_local)
        .or_else(of_key)
        .unwrap_or_else(|| Setting::new("default".to_owned(), Source::Default))
}

/// Reads a key: the file's only line, without the space around it.
pub fn read_key_file(path: &Path) -> Result<Key> {
    let text = read_line_of(path, "the key")?;
    let key = text.trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        let message = format!("{} holds no key: it should be one line that begins with stk_", path.display());
        return Err(Failure::Domain(Error::new(Code::LocalFile, message)));
    }
    Ok(Key::new(key))
}

pub(super) fn read_line_of(path: &Path, what: &str) -> Result<String> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(LONGEST_KEY).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LONGEST_KEY).read_to_string(&mut text))
    };
    read.map_err(|error| file_error(&format!("read {what} in"), path, &error))?;
    Ok(text)
}

/// `.stead/config.toml`, nearest at or above. It comes with a checkout, so it may choose the project and nothing else: a file that could
/// name the server would receive the user's key.
struct DirectoryFile {
    project: Option<Setting<String>>,
    warnings: Vec<String>,
}

impl DirectoryFile {
    fn find(directory: &Path) -> Result<Self> {
        let mut warnings = Vec::new();
        let Some(path) = nearest(directory, &mut warnings) else { return Ok(Self { project: None, warnings }) };
        let table: toml::Table = files::read(&path)?;
        let project = table.get("project").and_then(toml::Value::as_str);
        let project = project.map(|handle| Setting::new(handle.to_owned(), Source::Directory(path.clone())));
        let unused = table.keys().filter(|name| *name != "project");
        warnings
            .extend(unused.map(|name| format!("{}: `{name}` is not used: a directory's file may only choose the project", path.display())));
        Ok(Self { project, warnings })
    }
}

/// The nearest file that may speak for this user, and why nearer ones may not.
fn nearest(directory: &Path, warnings: &mut Vec<String>) -> Option<PathBuf> {
    let below = Path::new(".stead/config.toml");
    directory.ancestors().find_map(|directory| {
        let path = directory.join(below);
        if !path.is_file() {
            return None;
        }
        let objection = trust::objection(directory, below);
        let trusted = objection.is_none();
        warnings.extend(objection);
        trusted.then_some(path)
    })
}
