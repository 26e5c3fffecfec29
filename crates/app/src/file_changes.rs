//! Changes of files. Each is written down before it is begun, and what came of it is added when it is known: a server that is killed between
//! leaves a record without an outcome, and never a change without a record.

use std::sync::Arc;

use stead_domain::audit::AuditRecord;
use stead_domain::environment::Environment;
use stead_domain::files::{FileFailure, FileOrder, FilePath, FileProblem};
use stead_domain::ids::EnvironmentId;
use stead_domain::{Code, Error, Result};

use crate::audit::{Act, begin};
use crate::files::collect;
use crate::idempotency::{self, Outcome};
use crate::leases::{Right, hold_in};
use crate::{App, Entered};

/// A change that is written down and has no outcome yet.
pub(crate) struct Noted {
    app: App,
    record: Option<AuditRecord>,
}

impl Noted {
    /// Adds what came of it.
    pub(crate) async fn ended<T>(mut self, outcome: Result<T>) -> Result<T> {
        if let Some(record) = self.record.take() {
            match &outcome {
                Ok(_) => self.app.add_outcome(record, "done", None).await,
                Err(error) => self.app.add_outcome(record, "failed", Some(error.code())).await,
            }
        }
        outcome
    }
}

impl Drop for Noted {
    /// Whoever sent what was to be written went away in the middle.
    fn drop(&mut self) {
        if let (Some(record), Ok(_)) = (self.record.take(), tokio::runtime::Handle::try_current()) {
            let app = self.app.clone();
            self.app.tasks.spawn(async move { app.add_outcome(record, "cut_off", None).await });
        }
    }
}

impl App {
    /// For orders that are done at once.
    pub async fn change_files(&self, entered: &Entered, id: EnvironmentId, order: FileOrder) -> Result<Outcome<()>> {
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move {
            // A repetition that comes while the first is under way waits for it, and is then told the same.
            let _one_at_a_time = match idempotency::lock_key(&entered.caller) {
                Some(key) => Some(app.locks.lock(&key).await),
                None => None,
            };
            app.make_sure_of_room(&entered, id, &order).await?;
            let (own, whose) = (&app, &entered);
            app.once_or_again(&entered.caller, |cut_off| async move {
                if cut_off { own.change_again(whose, id, order).await } else { own.change_once(whose, id, &order).await }
            })
            .await
        })
        .await
    }

    async fn change_once(&self, entered: &Entered, id: EnvironmentId, order: &FileOrder) -> Result<()> {
        let mut opened = self.open_errand(entered, id, order).await?;
        let outcome = collect(&mut *opened.errand, 0).await.map(drop);
        match opened.noted {
            Some(noted) => noted.ended(outcome).await,
            None => outcome,
        }
    }

    /// Before a key is claimed for a copy that may replace nothing: whatever is found there afterwards, the copy has made.
    async fn make_sure_of_room(&self, entered: &Entered, id: EnvironmentId, order: &FileOrder) -> Result<()> {
        let FileOrder::Copy { to, overwrite: false, .. } = order else { return Ok(()) };
        if entered.caller.idempotency.is_none() {
            return Ok(());
        }
        let (caller, now) = (entered.caller.clone(), self.context.now());
        let known = self.store.read(move |unit| Box::pin(async move { idempotency::is_known(unit, &caller, now).await })).await?;
        if !known && self.stat_file(entered, id, to.clone()).await.is_ok() {
            return Err(FileFailure { why: FileProblem::Exists, path: to.clone(), said: String::new() }.into());
        }
        Ok(())
    }

    /// The first request with this key was cut off, with a server that was killed, and may have done all of it or a part.
    async fn change_again(&self, entered: &Entered, id: EnvironmentId, order: FileOrder) -> Result<()> {
        let order = match order {
            // There was nothing, so what is there is the first one's: it is made whole.
            FileOrder::Copy { from, to, .. } => FileOrder::Copy { from, to, overwrite: true },
            order => order,
        };
        let failure = match self.change_once(entered, id, &order).await {
            Err(error) => error,
            Ok(()) => return Ok(()),
        };
        let is_done = match (&order, failure.code()) {
            (FileOrder::Remove { .. }, Code::FileNotFound) => true,
            (FileOrder::Move { from, to, .. }, Code::FileNotFound) => {
                let gone = self.stat_file(entered, id, from.clone()).await.is_err_and(|error| error.code() == Code::FileNotFound);
                gone && self.stat_file(entered, id, to.clone()).await.is_ok()
            }
            _ => false,
        };
        if is_done { Ok(()) } else { Err(failure) }
    }

    pub(crate) async fn note_change(
        &self,
        entered: &Entered,
        environment: &Environment,
        order: &FileOrder,
        right: Option<&Arc<Right>>,
    ) -> Result<Option<Noted>> {
        let Some((action, path)) = changes(order) else { return Ok(None) };
        let (context, entered) = (self.context.clone(), entered.clone());
        let (target_id, path) = (environment.id.to_string(), path.to_string());
        let (office, right) = (self.office(), right.map(Arc::clone));
        let record = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    if let Some(right) = &right {
                        hold_in(unit, &office, right).await?;
                    }
                    let details = vec![("path", path.into())];
                    let act = Act { project: entered.project, action, target_type: "environment", target_id, details };
                    begin(unit, &context, &entered.caller, act).await
                })
            })
            .await?;
        Ok(Some(Noted { app: self.clone(), record: Some(record) }))
    }

    async fn add_outcome(&self, mut record: AuditRecord, outcome: &str, code: Option<Code>) {
        record.details.insert("outcome".to_owned(), outcome.into());
        if let Some(code) = code {
            record.details.insert("error".to_owned(), code.as_str().into());
        }
        let id = record.id;
        let added = self
            .store
            .write(move |unit| Box::pin(async move { Ok::<_, Error>(stead_store::audit::set_details(unit, &record).await?) }))
            .await;
        // What was done is done, and the record of it is there.
        if let Err(error) = added {
            tracing::warn!(record = %id, %error, "the outcome of a change could not be added to its record");
        }
    }
}

/// What goes into the record.
fn changes(order: &FileOrder) -> Option<(&'static str, &FilePath)> {
    match order {
        FileOrder::Stat { .. } | FileOrder::List { .. } | FileOrder::Read { .. } => None,
        FileOrder::Pack { .. } | FileOrder::Find(_) | FileOrder::Grep(_) | FileOrder::Watch { .. } => None,
        FileOrder::Write { path, .. } | FileOrder::Append { path, .. } => Some(("environment.files.write", path)),
        FileOrder::Unpack { path } => Some(("environment.files.unpack", path)),
        FileOrder::Remove { path, .. } => Some(("environment.files.remove", path)),
        FileOrder::MakeDirectory { path, .. } => Some(("environment.files.make_directory", path)),
        FileOrder::Move { to, .. } => Some(("environment.files.move", to)),
        FileOrder::Copy { to, .. } => Some(("environment.files.copy", to)),
    }
}
