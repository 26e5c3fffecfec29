//! A program that is here and not inside: where it is, and the command that mounts it.

use std::path::Path;

use stead_domain::environment::Environment;
use stead_domain::{Code, Error};

use super::toolchains;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::printer::given::quoted;

/// The same failure, with the way out where there is one.
pub fn explained(invocation: &Invocation<'_>, environment: &Environment, command: &[String], failure: Failure) -> Failure {
    let is_missing = matches!(&failure, Failure::Reply { body, .. } if body.error.code == Code::ProgramNotFound.as_str());
    let Some(program) = command.first().filter(|_| is_missing) else { return failure };
    let search = invocation.surroundings.variable("PATH").unwrap_or_default();
    let home = invocation.surroundings.path("HOME");
    let Some(path) = toolchains::find(program, &search) else {
        return Error::new(Code::ProgramNotFound, format!("there is no program `{program}` in environment {}", environment.name))
            .suggestion("name one that is there inside; nothing of that name is on your PATH either")
            .into();
    };
    let command = mounting(environment, &path, home.as_deref());
    let message = format!("`{program}` is {} here, and there is no such program in environment {}", path.display(), environment.name);
    Error::new(Code::ProgramNotFound, message).detail("path", path.display().to_string()).suggestion(command).into()
}

/// The command that makes a program of this machine run inside.
fn mounting(environment: &Environment, path: &Path, home: Option<&Path>) -> String {
    let toolchain = toolchains::of_program(path, home);
    let mut words = vec!["stead env update".to_owned(), quoted(&environment.name)];
    for mount in &toolchain.mounts {
        let mount = mount.display();
        words.push(format!("--mount {}", quoted(&format!("host:{mount}:{mount}:ro"))));
    }
    let present = environment.spec.env.as_ref().and_then(|env| env.get("PATH")).map(String::as_str);
    let search = toolchains::search_path(present, toolchain.programs.iter().map(|it| it.as_path()));
    words.push(format!("--set {}", quoted(&format!("env.PATH={search}"))));
    for (name, value) in &toolchain.variables {
        words.push(format!("--set {}", quoted(&format!("env.{name}={value}"))));
    }
    words.join(" ")
}
