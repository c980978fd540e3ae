//! Asks the linker for two things, so that less of the program is in memory: to lay the functions that
//! serving executes side by side (`serving.ld`), of which fewer pages are mapped then, and to pack the
//! addresses that are filled in at the start, 1.2 MB that are read each time. Only in release builds,
//! and only where a small program that is linked so works. Where it does not, whatever the reason, the
//! program is linked as ever.

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
const ORDERED: &[&[u8]] = &[b"softland_serving_end\0", b"Linker: LLD"];
/// glibc reads packed addresses from 2.36 on; with an older one the small program does not start.
const PACK: &str = "-Wl,-z,pack-relative-relocs";
const PACKED: &[&[u8]] = &[b".relr.dyn\0"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=serving.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let wanted = is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !wanted {
        return;
    }
    let order = order().filter(|order| works(order, ORDERED) == Some(true));
    // What nobody can run here may be for an older system.
    let pack = is_native().then(|| PACK.to_owned());
    let pack = pack.filter(|pack| works(pack, PACKED) == Some(true));
    for argument in order.into_iter().chain(pack) {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}

fn order() -> Option<String> {
    let script = Path::new(&env::var("CARGO_MANIFEST_DIR").ok()?).join("serving.ld");
    // A comma would part the linker's argument.
    let script = script.to_str().filter(|path| !path.contains(','))?;
    Some(format!("-Wl,--script={script}"))
}

fn is_native() -> bool {
    let target = env::var("TARGET");
    target.is_ok_and(|target| env::var("HOST").is_ok_and(|host| host == target))
}

/// Whether a program that is linked with that argument, and as this one otherwise, shows it and, where
/// it can, runs.
fn works(argument: &str, shows: &[&[u8]]) -> Option<bool> {
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
    let shown = shows.iter().all(|word| has(word));
    Some(shown && (!is_native() || Command::new(&program).output().ok()?.status.success()))
}
