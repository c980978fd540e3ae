//! Gateways measured beside each other on one machine: a mock upstream and a load tool on one
//! core, the measured program alone on another. `bench/run` builds it and finds the programs; it
//! speaks to loopback only.

mod awake;
mod client;
mod costs;
mod drive;
mod figures;
mod mock;
mod process;
mod report;
mod soak;
mod stand;
mod table;
mod targets;

use std::process::ExitCode;

use table::Amount;
use targets::Target;

const USAGE: &str = "\
usage: bench/run [table] [--quick] [--rounds N] [--only NAME,NAME] [--plain] [--asleep] [--strict]
       bench/run streams [--count N] [--only NAME]
       bench/run soak [--requests N] [--only NAME]
       bench/run costs | allocations [--requests N] [--only NAME,NAME]
names: direct, nginx, bare, softland, softland-chat, softland-responses, softland-off, noveum,
       noveum-translating, litellm, portkey; and with bench/stores softland-redis, softland-postgres";

/// Requests whose costs are counted, unless fewer are asked for: under Valgrind they take long.
const COSTED: u64 = 3_200;

struct Args {
    command: String,
    amount: Amount,
    only: Vec<String>,
    strict: bool,
    count: usize,
    requests: u64,
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this prints what was measured")]
fn main() -> ExitCode {
    let args = match Args::read(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, run(&args))
    });
    match done {
        Ok((text, ok)) => {
            println!("{text}");
            ExitCode::from(u8::from(!ok))
        }
        Err(problem) => {
            eprintln!("bench: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<(String, bool), String> {
    let targets = args.targets()?;
    match args.command.as_str() {
        "mock" => mock::serve().await.map_err(|error| error.to_string()).map(|()| unreached()),
        "streams" => {
            let mut text = Vec::new();
            for target in targets {
                text.push(soak::streams(target, args.count).await?);
            }
            Ok((text.join("\n\n"), true))
        }
        "costs" => costs::costs(&targets, args.requests.min(COSTED)).await.map(|text| (text, true)),
        "allocations" => {
            costs::allocated(&targets, args.requests.min(COSTED)).await.map(|text| (text, true))
        }
        "soak" => {
            let (mut text, mut all) = (Vec::new(), true);
            for target in targets {
                let (report, flat) = soak::soak(target, args.requests).await?;
                text.push(report);
                all &= flat;
            }
            Ok((text.join("\n\n"), all))
        }
        _ => Ok(table(&targets, args).await),
    }
}

/// The mock serves until it is ended from outside.
fn unreached() -> (String, bool) {
    (String::new(), true)
}

async fn table(targets: &[Target], args: &Args) -> (String, bool) {
    let before = process::load_average();
    let (figures, problems) = table::measure(targets, args.amount).await;
    let (verdicts, met) = report::verdicts(&figures);
    let missing: String = Target::ALL
        .iter()
        .filter(|target| !target.is_here())
        .map(|target| format!("skipped      {}: not found\n", target.name()))
        .collect();
    let failed: String = problems.iter().map(|line| format!("FAIL         {line}\n")).collect();
    let text = format!(
        "{}\nMedians of {} rounds (least–most); load of the machine {before} before, {} after.\n\n\
         {missing}{failed}{verdicts}",
        report::tables(&figures, targets),
        args.amount.rounds,
        process::load_average(),
    );
    (text, problems.is_empty() && (met || !args.strict))
}

impl Args {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self {
            command: "table".to_owned(),
            amount: Amount::FULL,
            only: Vec::new(),
            strict: false,
            count: 1000,
            requests: 100_000,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "table" | "streams" | "soak" | "costs" | "allocations" | "mock" => {
                    args.command = word;
                }
                "--quick" => args.amount = args.amount.quick(),
                "--plain" => args.amount.plain = true,
                "--asleep" => args.amount.awake = false,
                "--strict" => args.strict = true,
                "--rounds" => args.amount.rounds = number(&value()?)?,
                "--count" => args.count = number(&value()?)?,
                "--requests" => args.requests = number(&value()?)?,
                "--only" => args.only = value()?.split(',').map(str::to_owned).collect(),
                _ => return Err(format!("unknown: {word}")),
            }
        }
        Ok(args)
    }

    /// What was asked for, of what is here; softland alone where a load asks whether it holds.
    fn targets(&self) -> Result<Vec<Target>, String> {
        let key = |target: &Target| target.name().replace(", ", "-");
        let known: Vec<String> = Target::ALL.iter().map(key).collect();
        if let Some(name) = self.only.iter().find(|name| !known.contains(name)) {
            return Err(format!("no target {name}"));
        }
        let wanted = |target: &Target| match (self.only.is_empty(), self.command.as_str()) {
            (true, "table" | "costs" | "allocations") => true,
            (true, _) => *target == Target::Softland,
            _ => self.only.contains(&key(target)),
        };
        let here: Vec<Target> =
            Target::ALL.into_iter().filter(|target| wanted(target) && target.is_here()).collect();
        if here.is_empty() && self.command != "mock" {
            return Err("nothing to measure is here".to_owned());
        }
        Ok(here)
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
