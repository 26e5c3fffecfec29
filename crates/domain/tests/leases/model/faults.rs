//! The search finds what is planted: each fault breaks the rule that it must, and the way to it is short.

use super::cast::{Fault, Model, ann_enters, ann_waits, ben_follows, ben_hurries, ben_preempts, ben_waits};
use super::search::search;
use super::{Budget, CALM, Client, RESTORE, SERVER, STEWARD, model};

fn is_found(fault: Fault, clients: &[Client], budget: Budget, rule: &str, longest: usize) {
    let model = Model { fault: Some(fault), ..model(clients, budget) };
    let Err(found) = search(&model) else { unreachable!("{fault:?} was not found") };
    assert_eq!(found.broken.0, rule, "{fault:?}: {:?} by {:?}", found.broken, found.path);
    assert!(found.path.len() <= longest, "{fault:?} takes {} steps: {:?}", found.path.len(), found.path);
}

#[test]
fn stewards_that_do_not_keep_to_it_are_found() {
    let (writers, preempted) = ([ann_waits(), ben_waits()], [ann_waits(), ben_preempts()]);
    is_found(Fault::StewardForgets, &preempted, STEWARD, "P3", 8);
    is_found(Fault::StewardKnowsNobody, &writers, RESTORE, "P3", 8);
    is_found(Fault::StewardObeys, &preempted, CALM, "P3", 8);
    is_found(Fault::AnsweredFirst, &preempted, CALM, "P3", 8);
    is_found(Fault::Silent, &preempted, CALM, "P5", 4);
    is_found(Fault::StopsAlways, &[ann_waits(), ben_follows(0)], SERVER, "P8", 8);
}

#[test]
fn servers_that_do_not_keep_to_it_are_found() {
    let (writers, preempted) = ([ann_waits(), ben_waits()], [ann_waits(), ben_preempts()]);
    is_found(Fault::NoBarrier, &preempted, CALM, "P3", 8);
    is_found(Fault::RefusalsMixedUp, &writers, CALM, "P8", 12);
    is_found(Fault::TrustsTheStore, &writers, RESTORE, "P3", 10);
    is_found(Fault::RecordsClosedEarly, &writers, CALM, "P3", 8);
    is_found(Fault::Unrecorded, &writers, CALM, "P3", 8);
    is_found(Fault::OrderLost, &[ann_waits(), ben_waits(), ann_waits()], SERVER, "P4", 8);
    is_found(Fault::Unlocked, &writers, CALM, "P1", 2);
    is_found(Fault::EndUntold, &[ann_enters(), ben_hurries()], CALM, "P7", 4);
}
