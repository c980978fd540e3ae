//! Asks the linker to lay the functions that serving executes side by side (`serving.ld`), so that
//! fewer of the program's pages are mapped: in release builds, and only where a small program that
//! is linked so works. Where it does not, whatever the reason, the program is linked as ever.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Links and unwinds, or it is not to be trusted.
const PROBE: &str = "fn main() {
    std::panic::set_hook(Box::new(|_| ()));
    assert!(std::panic::catch_unwind(|| -> () { panic!() }).is_err());
}
";
/// The symbol that `serving.ld` makes, and the comment of LLVM's linker, Rust's own on x86-64 Linux:
/// GNU ld understands the script, too, but takes many minutes for it.
const LINKED: [&[u8]; 2] = [b"softland_serving_end\0", b"Linker: LLD"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=serving.ld");
    if let Some(argument) = order() {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}

/// The argument, where it works.
fn order() -> Option<String> {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let wanted = is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !wanted {
        return None;
    }
    let script = Path::new(&env::var("CARGO_MANIFEST_DIR").ok()?).join("serving.ld");
    // A comma would part the linker's argument.
    let script = script.to_str().filter(|path| !path.contains(','))?;
    let argument = format!("-Wl,--script={script}");
    works(&argument)?.then_some(argument)
}

/// Whether a program that is linked with that argument, and as this one otherwise, is in order and,
/// where it can, runs.
fn works(argument: &str) -> Option<bool> {
    let folder = env::var("OUT_DIR").ok()?;
    let (source, program) = (Path::new(&folder).join("probe.rs"), Path::new(&folder).join("probe"));
    fs::write(&source, PROBE).ok()?;
    let target = env::var("TARGET").ok()?;
    let mut rustc = Command::new(env::var_os("RUSTC")?);
    rustc.args(["--edition=2024", "--crate-type=bin", "--target", &target]);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.arg(format!("-Clink-arg={argument}")).arg("-Cstrip=none");
    rustc.arg("-o").arg(&program).arg(&source);
    if !rustc.output().ok()?.status.success() {
        return Some(false);
    }
    let linked = fs::read(&program).ok()?;
    let has = |word: &[u8]| linked.windows(word.len()).any(|bytes| bytes == word);
    let ordered = LINKED.into_iter().all(has);
    let native = env::var("HOST").is_ok_and(|host| host == target);
    Some(ordered && (!native || Command::new(&program).output().ok()?.status.success()))
}
