//! Runs cells: the queue before the kernel, and the events from the kernel.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Room;
use super::given::Given;
use super::shared::Shared;
use crate::kernel::{self, Event, Order};
use crate::types::{By, CellType, KernelState, KernelStatus, Ran, Refused, RefusedCode, What};

/// The number of runs that may wait for the kernel.
const MAX_QUEUE: usize = 1000;

/// A kernel that is just about to run a cell ignores an interrupt, or ends from it (ipykernel 7).
/// The interrupt is therefore sent a little later, and repeated after these pauses.
const EARLY: Duration = Duration::from_millis(100);
const SOON: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1500),
    Duration::from_secs(4),
];

/// One run of a cell.
#[derive(Debug)]
pub(super) struct Run {
    number: u64,
    /// The cell's id.
    pub(super) id: String,
    pub(super) by: By,
    source: String,
    /// The time when the kernel received the run.
    began: Option<Instant>,
    count: Option<u64>,
    /// The time when the kernel reported that the run has begun.
    begun: Option<Instant>,
    /// True if the run is to be interrupted, and the interrupt is scheduled.
    interrupted: bool,
    pub(super) given: Given,
    waiter: oneshot::Sender<Result<Ran, Refused>>,
}

/// A run that is over. Its end is announced after its outputs are saved.
pub(super) struct Over {
    run: Run,
    ok: bool,
}

/// A run that was requested and is not over yet.
#[derive(Debug)]
pub(crate) struct Begun {
    cell: String,
    asked: Instant,
    ended: oneshot::Receiver<Result<Ran, Refused>>,
}

impl Run {
    fn seconds(&self) -> f64 {
        self.began.map_or(0.0, |began| began.elapsed().as_secs_f64())
    }
}

fn dead(message: impl Into<String>) -> Refused {
    Refused::new(RefusedCode::Kernel, message)
}

impl Room {
    /// Puts a cell into the kernel's queue. The kernel is started first if there is none. Cells run
    /// in the order in which this function returns.
    pub(crate) async fn begin_run(self: &Arc<Self>, id: &str, by: By) -> Result<Begun, Refused> {
        self.shared().can_run(id)?;
        // Once begun, the start of a kernel goes on even if nobody waits for it.
        let room = Arc::clone(self);
        let started = tokio::spawn(async move { room.have_kernel().await }).await;
        started.unwrap_or_else(|error| Err(dead(format!("the start failed: {error}"))))?;
        let (waiter, ended) = oneshot::channel();
        let asked = Instant::now();
        self.shared().enqueue(id, by, waiter)?;
        Ok(Begun { cell: id.to_owned(), asked, ended })
    }

    /// Waits for the end of a run, at most for the cell timeout.
    pub(crate) async fn end_of(&self, begun: Begun) -> Result<Ran, Refused> {
        let Begun { cell, asked, ended } = begun;
        match tokio::time::timeout(self.options.cell_timeout, ended).await {
            Ok(Ok(ran)) => ran,
            Ok(Err(_)) => Err(dead("the notebook was closed")),
            Err(_) => {
                let shared = self.shared();
                let (_, cell) = shared.cell(&cell)?;
                let seconds = asked.elapsed().as_secs_f64();
                let still_running = cell.running;
                Ok(Ran { cell: cell.clone(), ok: false, still_running, seconds })
            }
        }
    }

    pub(super) async fn break_off(&self) {
        let over: Vec<Over> = {
            let mut shared = self.shared();
            let waiting = std::mem::take(&mut shared.queue);
            let why = "it was broken off before it began";
            let over =
                waiting.into_iter().map(|run| shared.fail(run, "Interrupted", why)).collect();
            self.break_off_running(&mut shared);
            over
        };
        self.tell_saved(over).await;
    }

    fn break_off_running(&self, shared: &mut Shared) {
        let generation = shared.generation;
        let Some(run) = &mut shared.running else { return };
        if run.begun.is_some_and(|begun| begun.elapsed() >= EARLY) {
            shared.order_interrupt();
        } else if !std::mem::replace(&mut run.interrupted, true) {
            tokio::spawn(interrupt_soon(Weak::clone(&self.me), generation, run.number));
        }
    }

    pub(super) async fn start_again(self: &Arc<Self>) -> Result<(), Refused> {
        let _one = self.starting.lock().await;
        self.shared().open()?;
        self.end_kernel("the kernel was restarted", KernelStatus::Starting).await;
        self.start_kernel().await
    }

    /// Ends the kernel, and with it all runs.
    pub(super) async fn end_kernel(&self, why: &str, state: KernelStatus) {
        let over = {
            let mut shared = self.shared();
            shared.died = false;
            shared.part(why, state)
        };
        self.tell_saved(over).await;
    }

    /// Saves the outputs of finished runs, and then announces their ends.
    async fn tell_saved(&self, over: Vec<Over>) {
        let saved = {
            let mut desk = self.desk.lock().await;
            self.save_outputs(&mut desk).await
        };
        let mut shared = self.shared();
        for over in over {
            shared.end(over, &saved);
        }
    }

    async fn have_kernel(self: &Arc<Self>) -> Result<(), Refused> {
        let _one = self.starting.lock().await;
        {
            let shared = self.shared();
            shared.open()?;
            if shared.orders.is_some() {
                return Ok(());
            }
            if shared.died {
                let why = shared.state.kernel.why.as_deref().unwrap_or("it is not known why");
                return Err(dead(format!(
                    "the kernel has died ({why}) and what it knew is gone; restart it, then run \
                     the cells again that others need"
                )));
            }
        }
        self.start_kernel().await
    }

    async fn start_kernel(self: &Arc<Self>) -> Result<(), Refused> {
        let named = self.desk.lock().await.document.kernel().map(str::to_owned);
        let wanted = self.wanted(named.as_deref());
        let name = wanted.name.clone().unwrap_or_default();
        let kernel = |name, state, why| KernelState { name, state, why };
        self.shared().tell_kernel(kernel(name.clone(), KernelStatus::Starting, None));
        let started = self.kernels.start(wanted).await;
        let mut shared = self.shared();
        // The notebook was closed meanwhile: the kernel ends with its handle.
        shared.open()?;
        match started {
            Ok(link) => {
                shared.generation += 1;
                shared.orders = Some(link.orders);
                shared.died = false;
                shared.tell_kernel(kernel(link.name, KernelStatus::Idle, None));
                let (room, generation) = (Arc::downgrade(self), shared.generation);
                tokio::spawn(listen(room, generation, link.events));
                Ok(())
            }
            Err(why) => {
                shared.tell_kernel(kernel(name, KernelStatus::Dead, Some(why.clone())));
                Err(dead(why))
            }
        }
    }

    /// Ends a run: its outputs are saved before its end is announced.
    async fn end_run(&self, generation: u64, number: u64, ok: bool, count: Option<u64>) {
        let saved = {
            let mut desk = self.desk.lock().await;
            {
                let mut shared = self.shared();
                if !shared.has(generation, number) {
                    return;
                }
                shared.settle(count);
            }
            self.save_outputs(&mut desk).await
        };
        let mut shared = self.shared();
        if !shared.has(generation, number) {
            return;
        }
        if let Some(run) = shared.running.take() {
            shared.end(Over { run, ok }, &saved);
        }
        shared.next();
    }

    /// Handles a kernel that has ended by itself.
    async fn lose(&self, generation: u64, why: &str) {
        let over = {
            let mut shared = self.shared();
            if shared.generation != generation || shared.orders.is_none() {
                return;
            }
            shared.died = true;
            shared.part(why, KernelStatus::Dead)
        };
        self.tell_saved(over).await;
    }
}

impl Shared {
    /// Checks that a cell can be run now.
    ///
    /// # Errors
    /// Returns the reason why the cell cannot be run now.
    fn can_run(&self, id: &str) -> Result<(), Refused> {
        self.open()?;
        let (_, cell) = self.cell(id)?;
        if cell.kind != CellType::Code {
            return Err(Refused::invalid(format!(
                "cell `{id}` is a {} cell; only code cells run",
                cell.kind.as_str()
            )));
        }
        if cell.running {
            return Err(Refused::invalid(format!("cell `{id}` is running already")));
        }
        if self.queue.len() >= MAX_QUEUE {
            return Err(Refused::invalid(format!("{MAX_QUEUE} cells wait to be run already")));
        }
        Ok(())
    }

    fn enqueue(
        &mut self,
        id: &str,
        by: By,
        waiter: oneshot::Sender<Result<Ran, Refused>>,
    ) -> Result<(), Refused> {
        // Another request may have begun it while the kernel started.
        self.can_run(id)?;
        if self.orders.is_none() {
            return Err(dead("the kernel is gone"));
        }
        let source = self.cell(id)?.1.source.clone();
        self.runs += 1;
        self.forget_displays(id);
        self.unsaved.insert(id.to_owned());
        self.tell(Some(by), What::CellRunning { id: id.to_owned() });
        self.queue.push_back(Run {
            number: self.runs,
            id: id.to_owned(),
            by,
            source,
            began: None,
            count: None,
            begun: None,
            interrupted: false,
            given: Given::default(),
            waiter,
        });
        self.next();
        Ok(())
    }

    /// Gives the next run to the kernel, if the kernel is idle.
    fn next(&mut self) {
        if self.running.is_some() {
            return;
        }
        // Without a kernel no run waits: all of them ended with it.
        let Some(orders) = self.orders.clone() else { return };
        if let Some(mut run) = self.queue.pop_front() {
            run.began = Some(Instant::now());
            // If the receiver is gone, the kernel's end is announced.
            let _ = orders.send(Order::Run(run.number, run.source.clone()));
            self.running = Some(run);
        }
        self.tell_standing();
    }

    /// Announces the status of the current kernel.
    fn tell_standing(&mut self) {
        let state = match (self.silent, &self.running) {
            (Some(_), _) => KernelStatus::Silent,
            (None, Some(_)) => KernelStatus::Busy,
            (None, None) => KernelStatus::Idle,
        };
        let why = self.silent.map(|silent| {
            let seconds = silent.as_secs_f64();
            format!("it has not answered for {seconds} s; interrupt it, or restart it")
        });
        let name = self.state.kernel.name.clone();
        self.tell_kernel(KernelState { name, state, why });
    }

    fn order_interrupt(&self) {
        if self.running.is_some()
            && let Some(orders) = &self.orders
        {
            // If the receiver is gone, the kernel's end is announced.
            let _ = orders.send(Order::Interrupt);
        }
    }

    fn has(&self, generation: u64, number: u64) -> bool {
        self.generation == generation
            && self.running.as_ref().is_some_and(|run| run.number == number)
    }

    /// Takes over all outputs of the run, before its end.
    fn settle(&mut self, count: Option<u64>) {
        self.flush();
        let Some(mut run) = self.running.take() else { return };
        run.count = count.or(run.count);
        self.note_left_out(&mut run);
        if let Some(cell) = self.state.cells.iter_mut().find(|cell| cell.id == run.id) {
            cell.execution_count = run.count;
        }
        self.running = Some(run);
    }

    /// Announces the end of a run, once its outputs are saved or could not be saved.
    fn end(&mut self, Over { run, ok }: Over, saved: &Result<(), Refused>) {
        let seconds = run.seconds();
        let (id, execution_count) = (run.id, run.count);
        self.tell(Some(run.by), What::CellRan { id: id.clone(), ok, execution_count, seconds });
        let cell = self.cell(&id).map(|(_, cell)| cell.clone());
        let ran = cell.map(|cell| Ran { cell, ok, still_running: false, seconds });
        let ran = match saved {
            Ok(()) => ran,
            Err(why) => Err(Refused {
                message: format!("the cell has run, but its outputs are not saved: {why}"),
                ..why.clone()
            }),
        };
        // The caller may be gone.
        let _ = run.waiter.send(ran);
    }

    /// Ends a run with an error that the kernel did not report.
    fn fail(&mut self, mut run: Run, name: &str, why: &str) -> Over {
        self.flush_of(&mut run);
        self.note_left_out(&mut run);
        self.add(&mut run, kernel::error(name, why, &[&format!("{name}: {why}")]), None);
        self.unsaved.insert(run.id.clone());
        Over { run, ok: false }
    }

    /// Removes the kernel, and ends all runs.
    fn part(&mut self, why: &str, state: KernelStatus) -> Vec<Over> {
        self.generation += 1;
        self.orders = None;
        self.silent = None;
        let name = self.state.kernel.name.clone();
        let known = (state == KernelStatus::Dead).then(|| why.to_owned());
        self.tell_kernel(KernelState { name, state, why: known });
        let error = if state == KernelStatus::Dead { "KernelDied" } else { "Interrupted" };
        let mut over = Vec::new();
        if let Some(run) = self.running.take() {
            over.push(self.fail(run, error, why));
        }
        for run in std::mem::take(&mut self.queue) {
            over.push(self.fail(run, error, &format!("{why} before the cell began")));
        }
        over
    }

    /// Applies an event of the kernel to the current run.
    fn hear(&mut self, event: Event) {
        let Some(mut run) = self.running.take() else { return };
        let of = match &event {
            Event::Begun(of, _)
            | Event::Text(of, ..)
            | Event::Output(of, ..)
            | Event::Clear(of, _)
            | Event::Ended(of, ..) => *of,
            Event::Update(..) | Event::Silent(_) | Event::Dead(_) => run.number,
        };
        if of == run.number {
            match event {
                Event::Begun(_, count) => {
                    run.count = count;
                    run.begun = Some(Instant::now());
                }
                Event::Text(_, name, text) => self.text(&mut run, &name, &text),
                Event::Output(_, output, shown_as) => {
                    self.flush_of(&mut run);
                    self.add(&mut run, output, shown_as);
                }
                Event::Update(name, data, metadata) => {
                    self.flush_of(&mut run);
                    self.replace(run.by, &name, &data, &metadata);
                }
                Event::Clear(_, waits) => {
                    self.flush_of(&mut run);
                    self.clear(&mut run, waits);
                }
                Event::Ended(..) | Event::Silent(_) | Event::Dead(_) => {}
            }
        }
        self.running = Some(run);
    }
}

/// Interrupts a run that has only just begun, or not yet, until it has ended.
async fn interrupt_soon(room: Weak<Room>, generation: u64, number: u64) {
    for pause in SOON {
        tokio::time::sleep(pause).await;
        let Some(room) = room.upgrade() else { return };
        let shared = room.shared();
        if !shared.has(generation, number) {
            return;
        }
        shared.order_interrupt();
    }
}

/// Listens to one kernel, until it ends or the notebook is gone.
async fn listen(room: Weak<Room>, generation: u64, mut events: mpsc::Receiver<Event>) {
    let mut flush: Option<Instant> = None;
    loop {
        let event = match flush {
            Some(until) => tokio::time::timeout_at(until, events.recv()).await,
            None => Ok(events.recv().await),
        };
        let Some(room) = room.upgrade() else { return };
        if flush.is_some_and(|until| Instant::now() >= until) {
            room.shared().flush();
            flush = None;
        }
        match event {
            Err(_) => {}
            Ok(Some(Event::Ended(number, ok, count))) => {
                room.end_run(generation, number, ok, count).await;
            }
            Ok(Some(Event::Dead(why))) => return room.lose(generation, &why).await,
            Ok(None) => return room.lose(generation, "it is gone").await,
            Ok(Some(event)) => {
                let mut shared = room.shared();
                if shared.generation != generation {
                    return;
                }
                if let Event::Silent(silent) = event {
                    shared.silent = silent;
                    shared.tell_standing();
                    continue;
                }
                shared.hear(event);
                if flush.is_none() {
                    flush = shared.waits().map(|time| Instant::now() + time);
                }
            }
        }
    }
}
