//! What the app resolved, in the words of the place protocol.

use stead_app::secrets::{Brokered, Delivery};
use stead_app::{PlaceError, Premises, StartProcess};
use stead_domain::definition::{InjectScheme, SecretDelivery};
use stead_domain::secret::SecretValue;
use stead_egress::broker::{BrokerText, BrokeredText, Scheme, Seed, Value};
use stead_place::secrets::{DIRECTORY, DIRECTORY_VARIABLE, KnownValue, SecretFile, Secrets};

/// None where the definition names no secret: such a start is as it always was.
pub fn sent(environment: &Premises, process: &StartProcess) -> Result<Option<Box<Secrets>>, PlaceError> {
    let Delivery { files, brokered, known, authority } = &process.secrets;
    let has_bindings = environment.spec.secret_bindings.as_ref().is_some_and(|bindings| !bindings.is_empty());
    if !has_bindings && known.is_empty() {
        return Ok(None);
    }
    let broker = match (authority, brokered.is_empty()) {
        (_, true) => None,
        (Some(authority), false) => {
            let secrets = brokered.iter().map(brokered_text).collect::<Result<_, _>>()?;
            Some(BrokerText { authority: Seed::new(*authority.bytes()), secrets })
        }
        (None, false) => return Err(PlaceError::Failed("secrets are to be brokered, and there is no authority to do it with".to_owned())),
    };
    let files = files.iter().map(|(name, value)| SecretFile { name: name.clone(), bytes: as_sent(value) });
    Ok(Some(Box::new(Secrets { files: files.collect(), known: self::known(known), broker })))
}

/// What is not to be shown.
pub fn known(values: &[(String, SecretValue)]) -> Vec<KnownValue> {
    let each = values.iter().map(|(replacement, value)| KnownValue { replacement: replacement.clone(), bytes: as_sent(value) });
    each.collect()
}

/// Tells programs where files are, also when an optional one is missing.
pub fn variable(environment: &Premises) -> Option<(String, String)> {
    let mut bindings = environment.spec.secret_bindings.iter().flatten();
    let has_files = bindings.any(|binding| binding.delivery == SecretDelivery::File);
    has_files.then(|| (DIRECTORY_VARIABLE.to_owned(), DIRECTORY.to_owned()))
}

fn as_sent(value: &SecretValue) -> Value {
    Value::new(value.bytes().to_vec())
}

fn brokered_text(Brokered { name, placeholder, value, hosts, inject }: &Brokered) -> Result<BrokeredText, PlaceError> {
    let scheme = match inject.scheme {
        None => None,
        Some(InjectScheme::Bearer) => Some(Scheme::Bearer),
        Some(InjectScheme::Basic) => Some(Scheme::Basic),
        Some(InjectScheme::Raw) => Some(Scheme::Raw),
        // The definition was refused for it.
        Some(InjectScheme::SigV4 | InjectScheme::Hmac) => {
            return Err(PlaceError::Failed(format!("the secret {name} is to sign requests, which nobody can do for who has it not")));
        }
    };
    Ok(BrokeredText {
        name: name.clone(),
        placeholder: placeholder.clone(),
        value: as_sent(value),
        hosts: hosts.clone(),
        header: inject.header.clone(),
        scheme,
        query: inject.query.clone(),
        body: inject.body == Some(true),
    })
}
