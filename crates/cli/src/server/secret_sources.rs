//! `[[secret_sources]]` of the configuration file: which secrets come from where, if not from the store. Everything is checked at the start.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use stead_app::{SecretSource, SourceRule};
use stead_domain::{Code, Error, Result, names, secret};
use stead_outbound::{Client, Limits};
use stead_secrets::{Files, Template, Vault, VaultAddress, VaultAuth, VaultSettings};

/// One rule, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    kind: Kind,
    project: Option<String>,
    #[serde(default)]
    prefix: String,
    directory: Option<PathBuf>,
    address: Option<String>,
    #[serde(default)]
    standby_addresses: Vec<String>,
    namespace: Option<String>,
    mount: Option<String>,
    path: Option<String>,
    field: Option<String>,
    ca_file: Option<PathBuf>,
    token_file: Option<PathBuf>,
    token_env: Option<String>,
    role_id: Option<String>,
    secret_id_file: Option<PathBuf>,
    auth_mount: Option<String>,
    #[serde(default)]
    allow_http: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Vault,
    Files,
}

/// The rules, in the order in which they are asked.
pub fn build(rules: &[RuleText], surroundings: &impl Fn(&str) -> Option<String>) -> Result<Vec<SourceRule>> {
    let mut built: Vec<SourceRule> = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let wrong = |field: &str, why: String| wrong(index, field, &why);
        if let Some(project) = &rule.project {
            names::check_handle(project).map_err(|_| wrong("project", "is no handle of a project".to_owned()))?;
        }
        if !rule.prefix.is_empty() {
            secret::check_name("prefix", &rule.prefix).map_err(|_| wrong("prefix", "is how no name of a secret begins".to_owned()))?;
        }
        let covers = |earlier: &SourceRule| {
            (earlier.project.is_none() || earlier.project == rule.project) && rule.prefix.starts_with(&earlier.prefix)
        };
        if let Some(earlier) = built.iter().position(covers) {
            return Err(wrong("prefix", format!("is never asked for: secret_sources[{earlier}] comes before and fits all of it"))
                .suggestion("put the rule with the longer prefix, or with a project, first"));
        }
        let source: Arc<dyn SecretSource> = match rule.kind {
            Kind::Files => Arc::new(files(index, rule)?),
            Kind::Vault => Arc::new(vault(index, rule, surroundings)?),
        };
        built.push(SourceRule { project: rule.project.clone(), prefix: rule.prefix.clone(), source });
    }
    Ok(built)
}

fn wrong(index: usize, field: &str, why: &str) -> Error {
    Error::new(Code::Usage, format!("secret_sources[{index}]: `{field}` {why}"))
        .suggestion("docs/secrets.md shows what a rule holds; mend the configuration file")
}

fn files(index: usize, rule: &RuleText) -> Result<Files> {
    let foreign = [
        ("address", rule.address.is_some()),
        ("standby_addresses", !rule.standby_addresses.is_empty()),
        ("namespace", rule.namespace.is_some()),
        ("mount", rule.mount.is_some()),
        ("path", rule.path.is_some()),
        ("field", rule.field.is_some()),
        ("ca_file", rule.ca_file.is_some()),
        ("token_file", rule.token_file.is_some()),
        ("token_env", rule.token_env.is_some()),
        ("role_id", rule.role_id.is_some()),
        ("secret_id_file", rule.secret_id_file.is_some()),
        ("auth_mount", rule.auth_mount.is_some()),
        ("allow_http", rule.allow_http),
    ];
    if let Some((field, _)) = foreign.iter().find(|(_, is_there)| *is_there) {
        return Err(wrong(index, field, "is only used with kind = \"vault\""));
    }
    let directory = rule.directory.clone().ok_or_else(|| wrong(index, "directory", "is missing"))?;
    if !directory.is_absolute() {
        return Err(wrong(index, "directory", "must begin with `/`"));
    }
    Ok(Files::new(directory))
}

fn vault(index: usize, rule: &RuleText, surroundings: &impl Fn(&str) -> Option<String>) -> Result<Vault> {
    if rule.directory.is_some() {
        return Err(wrong(index, "directory", "is only used with kind = \"files\""));
    }
    let address = |field: &str, text: &str| {
        let address: VaultAddress = text.parse().map_err(|why: String| wrong(index, field, &why))?;
        if address.is_exposed() && !rule.allow_http {
            return Err(wrong(index, field, "is plain http to another host, which would show the token and the secrets to the network")
                .suggestion("use https (`ca_file` names an authority of your own), or say allow_http = true"));
        }
        Ok(address)
    };
    let template = |field: &str, text: Option<&str>, usual: &str, make: fn(&str) -> std::result::Result<Template, _>| {
        make(text.unwrap_or(usual)).map_err(|error: stead_secrets::TemplateError| wrong(index, field, &error.to_string()))
    };
    let path = template("path", rule.path.as_deref(), "{project}/{name}", Template::path)?;
    let field = template("field", rule.field.as_deref(), "value", Template::word)?;
    if !path.tells_names_apart() && !field.tells_names_apart() {
        return Err(wrong(index, "path", "has no {name}, and neither has `field`: every secret would be the same"));
    }
    if rule.namespace.as_deref().is_some_and(|name| name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err(wrong(index, "namespace", "is no namespace of a vault"));
    }
    let settings = VaultSettings {
        address: address("address", rule.address.as_deref().ok_or_else(|| wrong(index, "address", "is missing"))?)?,
        standbys: rule.standby_addresses.iter().map(|text| address("standby_addresses", text)).collect::<Result<_>>()?,
        namespace: rule.namespace.clone(),
        mount: template("mount", rule.mount.as_deref(), "secret", Template::path)?,
        path,
        field,
        auth: auth(index, rule, surroundings)?,
    };
    let client = Client::new(rule.ca_file.as_deref(), Limits::default()).map_err(|error| wrong(index, "ca_file", &error.to_string()))?;
    Ok(Vault::new(settings, client))
}

fn auth(index: usize, rule: &RuleText, surroundings: &impl Fn(&str) -> Option<String>) -> Result<VaultAuth> {
    match (&rule.token_file, &rule.token_env, &rule.role_id, &rule.secret_id_file) {
        (Some(file), None, None, None) => Ok(VaultAuth::TokenFile(file.clone())),
        (None, Some(name), None, None) => match surroundings(name).map(|token| token.trim().to_owned()) {
            Some(token) if !token.is_empty() => Ok(VaultAuth::Token(token.into())),
            _ => Err(wrong(index, "token_env", &format!("names {name}, which is not set where the server runs"))),
        },
        (None, None, Some(role_id), Some(file)) => {
            let mount = Template::path(rule.auth_mount.as_deref().unwrap_or("approle"));
            let mount = mount.map_err(|error| wrong(index, "auth_mount", &error.to_string()))?;
            Ok(VaultAuth::Role { mount, role_id: role_id.clone(), secret_id_file: file.clone() })
        }
        (None, None, Some(_), None) => Err(wrong(index, "secret_id_file", "is missing: it goes with role_id")),
        (None, None, None, Some(_)) => Err(wrong(index, "role_id", "is missing: it goes with secret_id_file")),
        (None, None, None, None) => {
            Err(wrong(index, "token_file", "is missing, and so are token_env and role_id: the vault must know who asks"))
        }
        _ => Err(wrong(index, "token_file", "and token_env and role_id are three ways to say who asks: keep one of them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Rules {
        secret_sources: Vec<RuleText>,
    }

    fn built(text: &str) -> std::result::Result<Vec<SourceRule>, String> {
        let rules: Rules = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        build(&rules.secret_sources, &|name| (name == "TOKEN").then(|| "s.hidden".to_owned())).map_err(|error| error.to_string())
    }

    const VAULT: &str = "[[secret_sources]]\nkind = 'vault'\naddress = 'https://vault.example:8200'\n";
    const FILES: &str = "[[secret_sources]]\nkind = 'files'\ndirectory = '/run/secrets'\n";

    #[test]
    fn rules_are_taken_in_their_order() {
        let text = format!("{VAULT}token_env = 'TOKEN'\nprefix = 'PROD_'\nproject = 'acme'\n{FILES}prefix = 'PROD_'\n{FILES}");
        let rules = built(&text).unwrap();
        assert_eq!(rules.iter().map(|rule| rule.prefix.as_str()).collect::<Vec<_>>(), ["PROD_", "PROD_", ""]);
        let place = rules[0].source.place_of("acme", "PROD_KEY");
        assert_eq!(place, "`secret/data/acme/PROD_KEY`, field `value`, of the vault https://vault.example:8200");
        assert!(built(&format!("{VAULT}role_id = 'r'\nsecret_id_file = '/x'\npath = 'all/{{project}}'\nfield = '{{name}}'")).is_ok());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let token = "token_file = '/run/token'";
        for (text, expected) in [
            (VAULT.to_owned(), "token_file"),
            (format!("{VAULT}{token}\ntoken_env = 'TOKEN'"), "three ways"),
            (format!("{VAULT}token_env = 'OTHER'"), "OTHER, which is not set"),
            (format!("{VAULT}role_id = 'r'"), "secret_id_file"),
            (format!("{VAULT}secret_id_file = '/x'"), "role_id"),
            (format!("{VAULT}{token}\npath = 'fixed'"), "no {name}"),
            (format!("{VAULT}{token}\npath = '../{{name}}'"), "step"),
            (format!("{VAULT}{token}\nmount = 'a b'"), "`mount`"),
            (format!("{VAULT}{token}\ndirectory = '/x'"), "`directory` is only used"),
            (format!("{VAULT}{token}\nca_file = '/nowhere'"), "`ca_file`"),
            (format!("{VAULT}{token}\nprefix = 'prod'"), "`prefix`"),
            (format!("{VAULT}{token}\nproject = 'No Handle'"), "`project`"),
            (format!("{VAULT}{token}\nstandby_addresses = ['http://b:1']"), "`standby_addresses` is plain http"),
            (format!("{}{token}", VAULT.replace("https", "http")), "plain http to another host"),
            (format!("{}{token}", VAULT.replace(":8200", ":8200/v1")), "after host and port"),
            (format!("[[secret_sources]]\nkind = 'vault'\n{token}"), "`address` is missing"),
            (format!("{FILES}field = 'x'"), "`field` is only used"),
            ("[[secret_sources]]\nkind = 'files'".to_owned(), "`directory` is missing"),
            (FILES.replace("/run", "run"), "must begin with `/`"),
            ("[[secret_sources]]\nkind = 'other'".to_owned(), "other"),
            (format!("{FILES}colour = 1"), "colour"),
            (format!("{FILES}{FILES}prefix = 'A_'"), "secret_sources[1]: `prefix` is never asked for: secret_sources[0]"),
        ] {
            let error = built(&text).err().unwrap_or_else(|| panic!("{text} is taken"));
            assert!(error.contains(expected) && !error.contains("s.hidden"), "{text}: {error}");
        }
        let plain = VAULT.replace("https://vault.example", "http://127.0.0.1");
        assert!(built(&format!("{plain}{token}")).is_ok());
        assert!(built(&format!("{}{token}\nallow_http = true", VAULT.replace("https", "http"))).is_ok());
    }
}
