//! Asks the linker to pack the program's relocations, the addresses that are filled in when it starts:
//! a table of 1.2 MB that is read at each start otherwise.
//!
//! It asks in release builds for Linux with glibc that are built for the machine they are built on, and
//! only if a small program that is linked this way starts there. The program is linked as usual if not.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// A program that does nothing. glibc before 2.36 refuses to start it with packed relocations.
const PROBE: &str = "fn main() {}\n";
const PACK: &str = "-Wl,-z,pack-relative-relocs";
/// The section of packed relocations, by its name in the program.
const PACKED: &[u8] = b".relr.dyn\0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let wanted = is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var("HOST").is_ok_and(|host| is("TARGET", &host));
    if wanted && packs_relocations() == Some(true) {
        println!("cargo::rustc-link-arg-bins={PACK}");
    }
}

/// Whether the linker packs relocations, and a program with packed relocations starts.
fn packs_relocations() -> Option<bool> {
    let folder = env::var("OUT_DIR").ok()?;
    let (source, program) = (Path::new(&folder).join("probe.rs"), Path::new(&folder).join("probe"));
    fs::write(&source, PROBE).ok()?;
    let mut rustc = Command::new(env::var_os("RUSTC")?);
    rustc.args(["--edition=2024", "--crate-type=bin", "--target", &env::var("TARGET").ok()?]);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.arg(format!("-Clink-arg={PACK}")).arg("-Cstrip=none");
    rustc.arg("-o").arg(&program).arg(&source);
    if !rustc.output().ok()?.status.success() {
        return Some(false);
    }
    let linked = fs::read(&program).ok()?;
    let packed = linked.windows(PACKED.len()).any(|bytes| bytes == PACKED);
    Some(packed && Command::new(&program).output().ok()?.status.success())
}
