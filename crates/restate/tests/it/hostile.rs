//! The adversary on a real server: the hostile model, and a worker that breaks off while it asks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use softland_agent::Agent;
use softland_agent::http::{Request, Response, Transport, TransportError};
use softland_agent::journal::new_run_id;
use softland_restate::{
    AgentLoader, EngineClient, LoadedAgent, RunRequest, Worker, WorkerSettings,
};
use softland_session::wire;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::adversary::case::Case;
use crate::adversary::cases::generate;
use crate::adversary::hostile::{self, Dice};
use crate::adversary::seeds::Met;
use crate::durable::hostile_run::HostileRun;
use crate::durable::mock::{MockEngine, durable};
use crate::runs::follow;
use crate::workers::{free_address, is_long, server};

/// The cases of a usual run, and of a long one.
const CASES: (usize, usize) = (10, 50);
/// The longest time that a case may take on the mock of an engine, whose clock needs no waiting.
const SHORT: Duration = Duration::from_secs(1);

/// Loads the agents of the cases, by name.
#[derive(Default)]
struct Cases(Mutex<BTreeMap<String, Agent>>);

#[async_trait]
impl AgentLoader for Cases {
    async fn load_agent(&self, name: &str) -> Result<LoadedAgent, String> {
        let agent = self.0.lock().unwrap().get(name).cloned().ok_or("no such case")?;
        Ok(LoadedAgent { agent, resources: Arc::new(()) })
    }
}

/// A transport that has the worker break off at some of its requests.
struct BreakingOff {
    inner: Arc<dyn Transport>,
    requests: AtomicU64,
    /// The requests at which the worker breaks off, and whether they come to the model before.
    breaks: Vec<(u64, bool)>,
    tell: UnboundedSender<()>,
}

#[async_trait]
impl Transport for BreakingOff {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let n = self.requests.fetch_add(1, Ordering::Relaxed);
        if let Some((_, comes)) = self.breaks.iter().find(|(at, _)| *at == n) {
            self.tell.send(()).unwrap();
            if !comes {
                std::future::pending::<()>().await;
            }
        }
        self.inner.send(request).await
    }
}

/// A worker of this process that breaks off whenever it is told to, and begins again.
async fn serve(
    settings: WorkerSettings,
    loader: Arc<Cases>,
    mut told: UnboundedReceiver<()>,
    ready: tokio::sync::oneshot::Sender<()>,
) {
    let mut ready = Some(ready);
    loop {
        let loader: Arc<dyn AgentLoader> = Arc::<Cases>::clone(&loader);
        let worker = Worker::bind(&settings, loader).await.unwrap();
        let registered = || ready.take().map_or((), |ready| ready.send(()).unwrap());
        tokio::select! {
            ended = worker.serve(registered, CancellationToken::new()) => ended.unwrap(),
            told = told.recv() => if told.is_none() { return },
        }
    }
}

/// Returns whether a case is short on the mock, where nothing breaks off.
fn is_short(case: &Case) -> bool {
    let Some(run) = HostileRun::of_case(case) else { return false };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let began = tokio::time::Instant::now();
        MockEngine::default().run(&durable(run.agent.clone(), &run.prompt)).await;
        began.elapsed() < SHORT
    })
}

/// Returns short cases of all protocols.
fn short_cases(count: usize) -> Vec<(u64, Case)> {
    let case = |seed: u64| match seed % 3 {
        0 => generate(seed),
        1 => hostile::posing(wire::Api::Chat, generate(seed), seed),
        _ => hostile::posing(wire::Api::Responses, generate(seed), seed),
    };
    (0..).map(|seed| (seed, case(seed))).filter(|(_, case)| is_short(case)).take(count).collect()
}

fn breaks(dice: &mut Dice) -> Vec<(u64, bool)> {
    let mut breaks: Vec<_> = (0..3).map(|_| (dice.roll(5), dice.chance(50))).collect();
    breaks.sort_unstable();
    breaks.dedup_by_key(|(at, _)| *at);
    breaks
}

async fn drive(
    client: &EngineClient,
    loader: &Cases,
    tell: &UnboundedSender<()>,
    case: &Case,
) -> Met {
    let mut run = HostileRun::of_case(case).unwrap();
    let inner = Arc::clone(&run.agent.transport);
    let (requests, breaks, tell) = (AtomicU64::new(0), breaks(&mut run.dice), tell.clone());
    let breaking = Arc::new(BreakingOff { inner, requests, breaks, tell });
    let name = new_run_id();
    let agent = Agent { transport: Arc::<BreakingOff>::clone(&breaking), ..run.agent.clone() };
    loader.0.lock().unwrap().insert(name.clone(), agent);
    let order = RunRequest { agent: name.clone(), prompt: run.prompt.clone() };
    client.start_run(&name, &order).await.unwrap();
    let events = follow(client, &name).await.unwrap();
    let mut met = run.check(case, events);
    let asked = breaking.requests.load(Ordering::Relaxed);
    let broke = breaking.breaks.iter().filter(|(at, _)| *at < asked).count();
    met.insert(format!("broke off {broke} times"));
    met
}

#[test]
fn e11_every_run_lands_on_a_real_server_wherever_the_worker_breaks_off() {
    let Some((ingress, restate)) = server() else { return };
    let cases = short_cases(if is_long() { CASES.1 } else { CASES.0 });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let met = runtime.block_on(async {
        let listen = free_address().parse().unwrap();
        let settings = WorkerSettings { restate, listen, advertise: None };
        let (loader, (tell, told)) = (Arc::<Cases>::default(), unbounded_channel());
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        let serving: JoinHandle<()> =
            tokio::spawn(serve(settings, Arc::clone(&loader), told, ready));
        is_ready.await.unwrap();
        let client = EngineClient::new(&ingress).unwrap();
        let mut met: BTreeMap<String, u64> = BTreeMap::new();
        for (seed, case) in &cases {
            eprintln!("case {seed}");
            for what in drive(&client, &loader, &tell, case).await {
                *met.entry(what).or_default() += 1;
            }
        }
        serving.abort();
        met
    });
    eprintln!("met, of {} cases: {met:#?}", cases.len());
    for what in ["outcome answered", "outcome stopped", "broke off 2 times", "interrupted"] {
        assert!(cases.len() < CASES.1 || met.contains_key(what), "{what} was not met");
    }
}
