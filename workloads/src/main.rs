//! Pinned kernels that verify their own results, in a separate process.
//!
//! They run on Linux and on Windows. Elsewhere the program builds, so that the package installs and
//! analyzes recordings there, and refuses every command.

#[cfg(any(target_os = "linux", windows))]
#[path = "program.rs"]
mod program;

// The modules name each other from the root.
#[cfg(any(target_os = "linux", windows))]
use program::*;

#[cfg(any(target_os = "linux", windows))]
fn main() -> std::process::ExitCode {
    program::main()
}

#[cfg(not(any(target_os = "linux", windows)))]
fn main() -> std::process::ExitCode {
    eprintln!("schedlens-workloads: workloads run on Linux and on Windows only");
    std::process::ExitCode::from(2)
}
