//! Pinned kernels that prove themselves, in a process of their own.

mod arch;
mod beat;
mod catalogue;
mod cli;
mod clock;
mod commands;
mod conduct;
mod engine;
mod folder;
mod frames_file;
mod histogram;
mod json;
mod kernel;
mod kernels;
#[cfg(test)]
mod liar;
mod list;
mod machine;
mod os;
mod pace;
mod phases;
mod plan;
mod report;
mod samples;
#[cfg(any(windows, test))]
mod system_information;
mod topology;
mod verify;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Result<Vec<String>, _> =
        std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect();
    let command =
        words.map_err(|word| format!("{word:?} is not UTF-8")).and_then(|words| cli::parse(&words));
    ExitCode::from(match command {
        Ok(command) => commands::execute(command),
        Err(reason) => commands::fail(&reason),
    })
}
