//! Work that grows as its input does: the instructions of twice as much input are twice as many.
//! The inputs are those of a test of the session, which measures time in place of instructions.

#[path = "../../../crates/session/tests/it/growth/shapes.rs"]
mod shapes;

use shapes::SHAPES;

use crate::count::collected;

/// The length that is doubled.
const SHORT: usize = 1500;
/// How much more the double may be, in percent. Trees and sorting take a little more than twice as
/// much; where each part looks at all parts it is four times as much.
const MOST: u64 = 225;

/// Does the work with an input of this length once.
pub(crate) fn run(name: &str, length: usize) -> Result<(), String> {
    let shape = SHAPES.iter().find(|(known, ..)| *known == name);
    let (.., make) = shape.ok_or_else(|| format!("no input {name}"))?;
    make(length)()
}

/// Counts the work with each input and with twice as much of it.
#[expect(clippy::print_stdout, reason = "this prints what was counted")]
pub(crate) fn check() -> Result<(), String> {
    let mut worse = Vec::new();
    for (name, what, _) in SHAPES {
        let start = collected("grow", name, 1)?;
        let of = |length| Ok::<_, String>(collected("grow", name, length)?.saturating_sub(start));
        let (short, long) = (of(SHORT)?, of(2 * SHORT)?);
        let percent = long.saturating_mul(100) / short.max(1);
        let word = if percent > MOST { "FAIL" } else { "ok" };
        println!("{word:<7} {name}: {percent} % for twice as much ({what})");
        if word == "FAIL" {
            worse.push(*name);
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    Err(format!("more than {MOST} % for twice as much input: {}", worse.join(", ")))
}
