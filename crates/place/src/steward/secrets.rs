//! What a start brings that is secret goes where it belongs before the program begins: to the relay, and into the directory for files.

use std::io::ErrorKind;

use super::Steward;
use crate::protocol::Refusal;
use crate::secrets::Secrets;

impl Steward {
    /// All that the environment has from now on. What is not among it any more is taken back.
    pub(super) fn deliver(&mut self, secrets: Option<&Secrets>) -> Result<(), Refusal> {
        self.broker(secrets)?;
        self.put_down(secrets)
    }

    fn broker(&mut self, secrets: Option<&Secrets>) -> Result<(), Refusal> {
        let broker = secrets.and_then(|secrets| secrets.broker.as_ref());
        let Some(egress) = &mut self.egress else {
            let message = "secrets are to be put into what leaves, and nothing leaves an environment without a network".to_owned();
            return if broker.is_none() { Ok(()) } else { Err(Refusal::Failed { message }) };
        };
        egress.put_in(broker, self.inside.outlets()).map_err(|error| match error.kind() {
            ErrorKind::Unsupported => Refusal::Secrets {
                message: format!("{error}; environments that are awake keep it running"),
                suggestion: "put them to sleep (`stead env sleep`), so that the next one begins with a relay of this version".to_owned(),
            },
            _ => Refusal::NoRelay { message: format!("the relay, which puts secrets into what leaves, does not take them: {error}") },
        })
    }

    /// Only where they are others than before: what is there stays there.
    fn put_down(&mut self, secrets: Option<&Secrets>) -> Result<(), Refusal> {
        let files = secrets.map_or(&[][..], |secrets| &secrets.files);
        if self.files.as_deref() == Some(files) {
            return Ok(());
        }
        self.files = None;
        let failed = |error: String| Refusal::Failed { message: format!("the secrets could not be handed inside: {error}") };
        let place = self.inside.place().map_err(|error| failed(error.to_string()))?;
        let all: Vec<(&str, &[u8])> = files.iter().map(|file| (file.name.as_str(), file.bytes.bytes())).collect();
        place.keep_secrets(&all).map_err(|error| failed(error.to_string()))?;
        self.files = Some(files.to_vec());
        Ok(())
    }
}
