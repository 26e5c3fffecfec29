//! Commands in hints, as the user would have to type them: with the flags that chose the project and the server this time.
//! An address comes with a key, and a hint that repeats one without the other leads nowhere: where the key came from stdin, neither is.

use std::path::{Path, PathBuf};

use crate::arguments::GlobalArguments;

/// Nouns whose commands work in a project.
const IN_A_PROJECT: [&str; 17] = [
    "env", "lease", "key", "sandbox", "provider", "audit", "http", "run", "exec", "shell", "ps", "logs", "kill", "attach", "top", "files",
    "cp",
];

/// The flags that were given on the command line. What a variable or a file says holds for the next command too.
#[derive(Debug, Default)]
pub struct Given {
    project: Option<String>,
    server: Vec<(&'static str, String)>,
    /// An address, and the key for it.
    remote: Vec<(&'static str, String)>,
}

impl Given {
    pub fn new(global: &GlobalArguments) -> Self {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let said =
            |flags: Vec<(&'static str, Option<String>)>| flags.into_iter().filter_map(|(flag, value)| Some((flag, value?))).collect();
        let can_repeat = global.url.is_some() && global.key_file.as_deref() != Some(Path::new("-"));
        let (url, key, ca) = (global.url.clone(), path(&global.key_file), path(&global.ca_file));
        Self {
            project: global.project.clone(),
            server: said(vec![("--profile", global.profile.clone()), ("--data-dir", path(&global.data_dir))]),
            remote: if can_repeat { said(vec![("--url", url), ("--key-file", key), ("--ca-file", ca)]) } else { Vec::new() },
        }
    }

    /// Completes each command in a text: what stands between backticks, and what stands at the end after a colon or alone.
    pub fn complete(&self, text: &str) -> String {
        if self.project.is_none() && self.server.is_empty() && self.remote.is_empty() {
            return text.to_owned();
        }
        let mut parts: Vec<String> = text.split('`').map(str::to_owned).collect();
        for part in parts.iter_mut().skip(1).step_by(2) {
            *part = self.command(part);
        }
        // An even number of parts is a backtick without its partner: then nothing is certain.
        if parts.len().is_multiple_of(2) {
            return text.to_owned();
        }
        if let Some(last) = parts.last_mut()
            && let Some(start) = if last.starts_with("stead ") { Some(0) } else { last.rfind(": stead ").map(|at| at + 2) }
        {
            let command = self.command(&last[start..]);
            last.replace_range(start.., &command);
        }
        parts.join("`")
    }

    fn command(&self, text: &str) -> String {
        let mut words = text.split_whitespace();
        if words.next() != Some("stead") {
            return text.to_owned();
        }
        let (noun, verb) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        // These need no server, or say themselves which one they mean.
        if matches!(noun, "login" | "config" | "init")
            || noun.starts_with('-')
            || ["--profile", "--help"].iter().any(|flag| text.contains(flag))
        {
            return text.to_owned();
        }
        let in_a_project = IN_A_PROJECT.contains(&noun) || (noun, verb) == ("project", "members");
        let project = self.project.as_ref().filter(|_| in_a_project).map(|project| ("--project", project));
        // What follows two dashes is for the command inside.
        let (own, inside) = text.split_at(text.find(" -- ").unwrap_or(text.len()));
        let mut own = own.to_owned();
        // Some are for an owner, who comes with a key of their own, and some need no server.
        let is_anothers = matches!((noun, verb), ("key" | "logout", _) | ("project", "members") | ("lease", "break"));
        let remote = self.remote.iter().filter(|_| !is_anothers);
        for (flag, value) in self.server.iter().chain(remote).map(|(flag, value)| (*flag, value)).chain(project) {
            if !own.contains(flag) {
                own.push_str(&format!(" {flag} {}", quoted(value)));
            }
        }
        own + inside
    }
}

/// As a shell takes it for one word.
pub fn quoted(value: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:@%+=,".contains(character);
    if !value.is_empty() && value.chars().all(plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_completed_and_sentences_are_not() {
        let global = GlobalArguments { project: Some("acme".to_owned()), data_dir: Some("/my data".into()), ..GlobalArguments::default() };
        let given = Given::new(&global);
        for (text, expected) in [
            ("stead up", "stead up --data-dir '/my data'"),
            ("give it a key: stead key create NAME", "give it a key: stead key create NAME --data-dir '/my data' --project acme"),
            ("`stead env list` shows what there is", "`stead env list --data-dir '/my data' --project acme` shows what there is"),
            ("use it: `stead env list --project other`", "use it: `stead env list --project other --data-dir '/my data'`"),
            ("stead login URL --key-file FILE", "stead login URL --key-file FILE"),
            ("stead down --profile local", "stead down --profile local"),
            ("`acme` is no stead of mine", "`acme` is no stead of mine"),
            (
                "`stead lease run web --wait 5m -- COMMAND`",
                "`stead lease run web --wait 5m --data-dir '/my data' --project acme -- COMMAND`",
            ),
            ("an odd ` one: stead up", "an odd ` one: stead up"),
        ] {
            assert_eq!(given.complete(text), expected);
        }
        assert_eq!(Given::default().complete("stead up"), "stead up");
    }

    #[test]
    fn an_address_is_repeated_with_its_key_or_not_at_all() {
        let with = |url: Option<&str>, key: &str| {
            let global = GlobalArguments { url: url.map(str::to_owned), key_file: Some(key.into()), ..Default::default() };
            Given::new(&global).complete("`stead lease list`, `stead lease break web`")
        };
        let url = Some("http://10.0.0.5:7070");
        assert_eq!(with(url, "ada.key"), "`stead lease list --url http://10.0.0.5:7070 --key-file ada.key`, `stead lease break web`");
        for (url, key) in [(url, "-"), (None, "ada.key")] {
            assert_eq!(with(url, key), "`stead lease list`, `stead lease break web`");
        }
    }
}
