//! The program where it can run: its modules, and what `main` does there.

pub mod arch;
pub mod beat;
pub mod catalogue;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod conduct;
pub mod core_clock;
pub mod engine;
pub mod folder;
pub mod frames_file;
pub mod histogram;
pub mod json;
pub mod kernel;
pub mod kernels;
#[cfg(test)]
pub mod liar;
pub mod list;
pub mod machine;
pub mod os;
pub mod outcome;
pub mod pace;
pub mod phases;
pub mod plan;
pub mod report;
pub mod samples;
#[cfg(any(windows, test))]
pub mod system_information;
pub mod verify;

use std::process::ExitCode;

/// Parses the command line and executes it.
pub fn main() -> ExitCode {
    let words: Result<Vec<String>, _> =
        std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect();
    let command =
        words.map_err(|word| format!("{word:?} is not UTF-8")).and_then(|words| cli::parse(&words));
    ExitCode::from(match command {
        Ok(command) => commands::execute(command),
        Err(reason) => commands::fail(&reason),
    })
}
