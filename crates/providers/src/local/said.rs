//! What a steward answered, in the words of the app.

use stead_app::PlaceError;
use stead_domain::ports::PortProblem;
use stead_place::client::Trouble;
use stead_place::protocol::Refusal;

pub fn cut_off(trouble: Trouble) -> PlaceError {
    match trouble {
        Trouble::Gone => PlaceError::CutOff,
        trouble => said(trouble),
    }
}

pub fn port_problem(port: u16, why: PortProblem, said: &str) -> PlaceError {
    match why {
        PortProblem::Closed => PlaceError::PortClosed {
            message: format!("nothing listens on port {port} inside"),
            suggestion: "start what should listen there; `stead port list ENVIRONMENT` shows what does".to_owned(),
        },
        PortProblem::Elsewhere => PlaceError::PortClosed {
            message: format!("what listens on port {port} inside listens on {said} alone, which is not reached from outside"),
            suggestion: "have it listen on 127.0.0.1, ::1 or on all addresses".to_owned(),
        },
        PortProblem::Silent => PlaceError::PortFailed(format!("what listens on port {port} inside takes no connection")),
        PortProblem::Other => PlaceError::PortFailed(format!("port {port} inside cannot be reached: {said}")),
    }
}

pub fn out_of_turn() -> PlaceError {
    PlaceError::Failed("the keeper of the environment spoke out of turn".to_owned())
}

pub fn said(trouble: Trouble) -> PlaceError {
    match trouble {
        Trouble::Refused(refusal) => match refusal {
            Refusal::Program { message, missing } => PlaceError::Program { program: String::new(), message, missing },
            Refusal::Directory => PlaceError::Directory(String::new()),
            Refusal::NoProcess => PlaceError::NoProcess,
            Refusal::Over => PlaceError::Over,
            Refusal::StdinClosed => PlaceError::StdinClosed,
            Refusal::StdinOffset { offset } => PlaceError::StdinOffset(offset),
            Refusal::NoTerminal => PlaceError::NoTerminal,
            Refusal::Fenced => PlaceError::Fenced,
            Refusal::Stale { fence } => PlaceError::Stale(fence),
            Refusal::CannotBeMade { message } | Refusal::NoRelay { message } => PlaceError::CannotBeMade {
                message: format!("this host could not make the place: {message}"),
                suggestion: "`stead doctor` says what this host can do, and what to change".to_owned(),
            },
            Refusal::OtherFiles => PlaceError::Failed("what is awake has other files than the environment; try again".to_owned()),
            Refusal::LayersInUse => PlaceError::InTheWay {
                message: "another environment of the same sandbox is awake, and only one at a time can write to its layers".to_owned(),
                suggestion: "put that one to sleep with `stead env sleep`, or wait until it is".to_owned(),
            },
            Refusal::Secrets { message, suggestion } => PlaceError::InTheWay { message, suggestion },
            Refusal::StorageFull { message } => PlaceError::StorageFull(message),
            Refusal::Failed { message } => PlaceError::Failed(message),
            Refusal::Outdated => PlaceError::Outdated,
            Refusal::CannotStandStill { message } => PlaceError::NeedsStop(message),
            Refusal::Thawed => PlaceError::NeedsStop("not everything stood still for as long as it took".to_owned()),
            Refusal::Leaving => PlaceError::Failed("the keeper of the environment was leaving; try again".to_owned()),
        },
        Trouble::Outdated => PlaceError::Outdated,
        Trouble::Draining(running) => PlaceError::Draining(running),
        foreign @ Trouble::Foreign { .. } => PlaceError::Foreign(foreign.to_string()),
        trouble => PlaceError::Failed(trouble.to_string()),
    }
}
