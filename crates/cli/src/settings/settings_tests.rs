use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new(config: &str, credentials: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let stead = directory.path().join("config/stead");
        fs::create_dir_all(&stead).unwrap();
        fs::create_dir_all(directory.path().join("work/deep")).unwrap();
        fs::write(stead.join("config.toml"), config).unwrap();
        fs::write(stead.join("credentials.toml"), credentials).unwrap();
        Self { directory }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    fn surroundings(&self, variables: &[(&str, &str)]) -> Surroundings {
        let (config, data) = (self.path("config"), self.path("data"));
        let mut all = vec![("XDG_CONFIG_HOME", config.to_str().unwrap()), ("XDG_DATA_HOME", data.to_str().unwrap())];
        all.extend_from_slice(variables);
        Surroundings::for_test(&self.path("work/deep"), &all)
    }

    fn resolve(&self, global: &GlobalArguments, variables: &[(&str, &str)]) -> Settings {
        Settings::resolve(global, &self.surroundings(variables), Presents::Lease).unwrap()
    }
}

const CONFIG: &str = "profile = \"work\"\n[local]\nproject = \"mine\"\n[profiles.work]\nurl = \"https://work.example\"\nproject = \"acme\"\n[profiles.other]\nurl = \"https://other.example\"\n";
const CREDENTIALS: &str = "[keys]\nwork = \"stk_work\"\nother = \"stk_other\"\n";

fn shown(settings: &Settings) -> (String, Option<&str>, &str) {
    (settings.endpoint().to_string(), settings.key.as_ref().map(|key| key.value.reveal()), &settings.project.value)
}

#[test]
fn each_level_comes_before_the_next() {
    let home = Home::new(CONFIG, CREDENTIALS);
    let none = GlobalArguments::default();
    let work = || "https://work.example".to_owned();
    assert_eq!(shown(&home.resolve(&none, &[])), (work(), Some("stk_work"), "acme"));
    assert_eq!(shown(&home.resolve(&none, &[("STEAD_PROJECT", "from-variable")])), (work(), Some("stk_work"), "from-variable"));
    fs::create_dir_all(home.path("work/.stead")).unwrap();
    fs::write(home.path("work/.stead/config.toml"), "project = \"from-directory\"\n").unwrap();
    assert_eq!(home.resolve(&none, &[]).project.value, "from-directory");
    assert_eq!(home.resolve(&none, &[("STEAD_PROJECT", "from-variable")]).project.value, "from-variable");
    let flag = GlobalArguments { project: Some("from-flag".to_owned()), ..GlobalArguments::default() };
    assert_eq!(home.resolve(&flag, &[("STEAD_PROJECT", "from-variable")]).project.value, "from-flag");
    let other = GlobalArguments { profile: Some("other".to_owned()), ..GlobalArguments::default() };
    let variables = [("STEAD_URL", "http://127.0.0.1:1"), ("STEAD_API_KEY", "stk_variable")];
    assert_eq!(shown(&home.resolve(&other, &variables)).1, Some("stk_other"));
    assert_eq!(shown(&home.resolve(&none, &variables)), ("http://127.0.0.1:1".to_owned(), Some("stk_variable"), "from-directory"));
}

#[test]
fn a_profiles_key_goes_nowhere_else() {
    let home = Home::new(CONFIG, CREDENTIALS);
    let flag = GlobalArguments { url: Some("http://elsewhere.example".to_owned()), ..GlobalArguments::default() };
    assert_eq!(shown(&home.resolve(&flag, &[])), ("http://elsewhere.example".to_owned(), None, "default"));
    let variable = home.resolve(&GlobalArguments::default(), &[("STEAD_URL", "http://elsewhere.example")]);
    assert_eq!(variable.key, None);
}

#[test]
fn a_directory_file_cannot_redirect() {
    let home = Home::new("", "");
    fs::create_dir_all(home.path("work/.stead")).unwrap();
    let text = "url = \"https://evil.example\"\nkey = \"x\"\nprofile = \"evil\"\ndata_dir = \"/tmp/evil\"\nproject = \"fine\"\n";
    fs::write(home.path("work/.stead/config.toml"), text).unwrap();
    let settings = home.resolve(&GlobalArguments::default(), &[]);
    assert_eq!(settings.endpoint(), Endpoint::Unix { path: home.path("data/stead/stead.sock") });
    assert_eq!((settings.project.value.as_str(), settings.warnings.len()), ("fine", 4));
}

#[test]
fn a_data_directory_means_the_local_server() {
    let home = Home::new(CONFIG, CREDENTIALS);
    let settings = home.resolve(&GlobalArguments::default(), &[("STEAD_DATA_DIR", "/d")]);
    assert_eq!(shown(&settings), ("unix:/d/stead.sock".to_owned(), None, "mine"));
    let flag = GlobalArguments { data_dir: Some("here".into()), ..GlobalArguments::default() };
    let settings = home.resolve(&flag, &[("STEAD_URL", "http://x"), ("STEAD_SOCKET", "/s")]);
    assert_eq!(settings.endpoint(), Endpoint::Unix { path: home.path("work/deep/here/stead.sock") });
    let local = GlobalArguments { profile: Some("local".to_owned()), ..GlobalArguments::default() };
    assert_eq!(shown(&home.resolve(&local, &[("STEAD_URL", "http://x"), ("STEAD_API_KEY", "k")])).1, None);
}

#[test]
fn a_key_may_name_its_project() {
    let home = Home::new("", "");
    let settings = home.resolve(&GlobalArguments::default(), &[("STEAD_URL", "http://x"), ("STEAD_API_KEY", "stk_a.acme")]);
    assert_eq!((settings.project.value.as_str(), settings.project.source), ("acme", Source::Key));
}

#[test]
fn what_is_written_is_private_and_keeps_the_rest() {
    let home = Home::new("profile = \"work\"\nfuture = 1\n[profiles.work]\nurl = \"https://work.example\"\n", "");
    let surroundings = home.surroundings(&[]);
    ConfigFile::select_project(&surroundings, Some("work"), "acme").unwrap();
    ConfigFile::select_project(&surroundings, None, "mine").unwrap();
    Credentials::set(&surroundings, "work", &Key::new("stk_new")).unwrap();
    assert_eq!(shown(&home.resolve(&GlobalArguments::default(), &[])).1, Some("stk_new"));
    let config = fs::read_to_string(home.path("config/stead/config.toml")).unwrap();
    assert!(config.contains("future = 1") && config.contains("acme") && config.contains("mine") && !config.contains("stk_"), "{config}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.path("config/stead/credentials.toml")), 0o600);
}

#[test]
fn an_error_never_quotes_a_key() {
    let home = Home::new(CONFIG, "[keys]\nwork = stk_secret\n");
    let failure = Settings::resolve(&GlobalArguments::default(), &home.surroundings(&[]), Presents::Lease).unwrap_err();
    let text = serde_json::to_string(&failure.body()).unwrap();
    assert!(text.contains("credentials.toml") && !text.contains("stk_secret"), "{text}");
}

#[test]
fn a_directory_file_without_end_is_refused() {
    let home = Home::new("", "");
    fs::create_dir_all(home.path("work/.stead")).unwrap();
    std::os::unix::fs::symlink("/proc/self/pagemap", home.path("work/.stead/config.toml")).unwrap();
    let failure = Settings::resolve(&GlobalArguments::default(), &home.surroundings(&[]), Presents::Lease).unwrap_err();
    assert_eq!(failure.body().unwrap().error.code, "local_file");
}

#[test]
fn another_users_directory_file_is_passed_over() {
    // Only root can give files away.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = Home::new("", "");
    for (directory, project) in [("work", "mine"), ("work/deep", "theirs")] {
        fs::create_dir_all(home.path(directory).join(".stead")).unwrap();
        fs::write(home.path(directory).join(".stead/config.toml"), format!("project = \"{project}\"\n")).unwrap();
    }
    std::os::unix::fs::chown(home.path("work/deep/.stead/config.toml"), Some(12345), None).unwrap();
    let settings = home.resolve(&GlobalArguments::default(), &[]);
    assert_eq!(settings.project.value, "mine");
    assert!(settings.warnings[0].contains("belongs to another user"), "{:?}", settings.warnings);
}
