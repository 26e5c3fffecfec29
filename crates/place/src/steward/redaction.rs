//! What is known and must not be shown: taken out of everything that is said inside before a byte of it is stored, and out of what the steward
//! says itself. It holds without a server, and it is in memory only.

use rustix::process::{Resource, Rlimit, setrlimit};
use stead_egress::broker::Value;
use stead_redaction::Known;

use super::{FULL_DISK, Steward, clock};
use crate::protocol::Refusal;
use crate::secrets::KnownValue;

/// How many bytes of values are remembered. Every rotation adds to them for as long as the environment is awake, because whoever has an earlier
/// value may still say it.
const MOST: usize = 1 << 20;

/// Every value since the environment woke.
#[derive(Default)]
pub struct Redaction {
    values: Vec<(String, Value)>,
    /// None where there is nothing to look for, so that nothing is looked at.
    known: Option<Known>,
}

impl Redaction {
    pub fn known(&self) -> Option<&Known> {
        self.known.as_ref()
    }

    /// Whether something is looked for that was not before. The latest name of a value is the one that is shown.
    fn learn(&mut self, new: &[KnownValue]) -> Result<bool, Refusal> {
        let is_known =
            |KnownValue { replacement, bytes }: &KnownValue| self.values.iter().any(|(name, value)| name == replacement && value == bytes);
        if new.iter().all(is_known) {
            return Ok(false);
        }
        let earlier = self.values.iter().filter(|(_, value)| !new.iter().any(|KnownValue { bytes, .. }| bytes == value));
        let all =
            new.iter().map(|KnownValue { replacement, bytes }| (replacement, bytes)).chain(earlier.map(|(name, value)| (name, value)));
        let all: Vec<(String, Value)> = all.map(|(name, value)| (name.clone(), value.clone())).collect();
        if all.iter().map(|(_, value)| value.bytes().len()).sum::<usize>() > MOST {
            let message = "its secrets were changed so often since it woke that not all of them can be kept out of its output".to_owned();
            return Err(Refusal::Secrets { message, suggestion: "put it to sleep (`stead env sleep`), and start again".to_owned() });
        }
        self.values = all;
        let values = self.values.iter().map(|(replacement, value)| stead_redaction::Value { replacement, bytes: value.bytes() });
        self.known = Some(Known::new(values)).filter(|known| !known.is_empty());
        Ok(true)
    }

    /// A refusal may tell in words what was asked for.
    pub fn without(&self, refusal: Refusal) -> Refusal {
        let Some(known) = &self.known else { return refusal };
        let clean = |message: String| known.redact_str(&message).into_owned();
        match refusal {
            Refusal::Program { message, missing } => Refusal::Program { message: clean(message), missing },
            Refusal::CannotBeMade { message } => Refusal::CannotBeMade { message: clean(message) },
            Refusal::NoRelay { message } => Refusal::NoRelay { message: clean(message) },
            Refusal::StorageFull { message } => Refusal::StorageFull { message: clean(message) },
            Refusal::Failed { message } => Refusal::Failed { message: clean(message) },
            Refusal::Secrets { message, suggestion } => Refusal::Secrets { message: clean(message), suggestion },
            Refusal::CannotStandStill { message } => Refusal::CannotStandStill { message: clean(message) },
            Refusal::Directory | Refusal::NoProcess | Refusal::Over | Refusal::StdinClosed | Refusal::StdinOffset { .. } => refusal,
            Refusal::NoTerminal | Refusal::Fenced | Refusal::Stale { .. } | Refusal::LayersInUse | Refusal::OtherFiles => refusal,
            Refusal::Leaving | Refusal::Outdated | Refusal::Thawed => refusal,
        }
    }
}

impl Steward {
    /// From now on these are taken out of whatever any process here says, whenever it was started.
    pub(super) fn learn(&mut self, new: &[KnownValue]) -> Result<(), Refusal> {
        if !self.redaction.learn(new)? {
            return Ok(());
        }
        // They are in our memory now, and a crash of ours is not to leave them on a disk. One byte, because the kernel calls no handler then.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) });
        let Some(known) = self.redaction.known() else { return Ok(()) };
        for kept in self.processes.values_mut() {
            if kept.learn(known, &mut self.hold).is_err() {
                self.stalled_until = Some(clock::milliseconds() + FULL_DISK);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, bytes: &[u8]) -> KnownValue {
        KnownValue { replacement: format!("***{name}***"), bytes: Value::new(bytes.to_vec()) }
    }

    fn shown(redaction: &Redaction, text: &str) -> String {
        let Refusal::Failed { message } = redaction.without(Refusal::Failed { message: text.to_owned() }) else { unreachable!() };
        message
    }

    #[test]
    fn what_was_known_once_stays_known_under_its_latest_name() {
        let mut redaction = Redaction::default();
        assert!(!redaction.learn(&[]).unwrap() && redaction.known().is_none());
        assert!(redaction.learn(&[value("A", b"hunter2hunter2")]).unwrap());
        assert!(!redaction.learn(&[value("A", b"hunter2hunter2")]).unwrap());
        assert!(redaction.learn(&[value("A", b"correct-horse")]).unwrap());
        assert_eq!(shown(&redaction, "hunter2hunter2 correct-horse"), "***A*** ***A***");
        assert!(redaction.learn(&[value("B", b"hunter2hunter2")]).unwrap());
        assert_eq!(shown(&redaction, "hunter2hunter2 correct-horse"), "***B*** ***A***");
        assert_eq!(redaction.values.len(), 2);
    }

    #[test]
    fn what_is_too_short_to_be_looked_for_costs_nothing() {
        let mut redaction = Redaction::default();
        redaction.learn(&[value("A", b"short")]).unwrap();
        assert!(redaction.known().is_none());
        assert_eq!(shown(&redaction, "a short word"), "a short word");
    }

    #[test]
    fn more_than_can_be_looked_for_is_refused_and_nothing_is_forgotten() {
        let mut redaction = Redaction::default();
        redaction.learn(&[value("A", b"correct-horse")]).unwrap();
        assert!(matches!(redaction.learn(&[value("B", &vec![7; MOST])]), Err(Refusal::Secrets { .. })));
        assert_eq!(shown(&redaction, "correct-horse"), "***A***");
    }
}
