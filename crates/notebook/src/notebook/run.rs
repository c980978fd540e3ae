//! Runs cells: the queue before the kernel, and the events from the kernel.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::SharedNotebook;
use super::outputs::OutputTally;
use super::shared::SharedState;
use crate::kernel::{self, KernelCommand, KernelEvent};
use crate::types::{
    Actor, CellType, ChangeKind, KernelState, KernelStatus, Refusal, RefusalCode, RunResult,
};

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
pub(super) struct CellRun {
    number: u64,
    /// The cell's id.
    pub(super) id: String,
    pub(super) by: Actor,
    source: String,
    /// The time when the kernel received the run.
    began: Option<Instant>,
    count: Option<u64>,
    /// The time when the kernel reported that the run has begun.
    begun: Option<Instant>,
    /// True if the run is to be interrupted, and the interrupt is scheduled.
    interrupted: bool,
    pub(super) given: OutputTally,
    /// The caller, until the run has ended.
    waiter: Option<oneshot::Sender<Result<RunResult, Refusal>>>,
}

/// A run that is over. Its end is announced after its outputs are saved.
pub(super) struct FinishedRun {
    run: CellRun,
    ok: bool,
}

/// A run that was requested and is not over yet.
#[derive(Debug)]
pub(crate) struct PendingRun {
    cell: String,
    asked: Instant,
    ended: oneshot::Receiver<Result<RunResult, Refusal>>,
}

impl CellRun {
    fn seconds(&self) -> f64 {
        self.began.map_or(0.0, |began| began.elapsed().as_secs_f64())
    }
}

fn kernel_refusal(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Kernel, message)
}

impl SharedNotebook {
    /// Puts a cell into the kernel's queue. The kernel is started first if there is none. Cells run
    /// in the order in which this function returns.
    pub(crate) async fn begin_run(
        self: &Arc<Self>,
        id: &str,
        by: Actor,
    ) -> Result<PendingRun, Refusal> {
        self.lock_shared().can_run(id)?;
        // Once begun, the start of a kernel goes on even if nobody waits for it.
        let notebook = Arc::clone(self);
        let started = tokio::spawn(async move { notebook.ensure_kernel().await }).await;
        started
            .unwrap_or_else(|error| Err(kernel_refusal(format!("the start failed: {error}"))))?;
        let (waiter, ended) = oneshot::channel();
        let asked = Instant::now();
        self.lock_shared().enqueue(id, by, waiter)?;
        Ok(PendingRun { cell: id.to_owned(), asked, ended })
    }

    /// Waits for the end of a run, at most for the cell timeout.
    pub(crate) async fn wait_for_run(&self, begun: PendingRun) -> Result<RunResult, Refusal> {
        let PendingRun { cell, asked, ended } = begun;
        match tokio::time::timeout(self.options.cell_timeout, ended).await {
            Ok(Ok(ran)) => ran,
            Ok(Err(_)) => Err(kernel_refusal("the notebook was closed")),
            Err(_) => {
                let shared = self.lock_shared();
                let (_, cell) = shared.find_cell(&cell)?;
                let seconds = asked.elapsed().as_secs_f64();
                let still_running = cell.running;
                Ok(RunResult { cell: cell.clone(), ok: false, still_running, seconds })
            }
        }
    }

    pub(super) async fn cancel_runs(&self) {
        let over: Vec<FinishedRun> = {
            let mut shared = self.lock_shared();
            let waiting = std::mem::take(&mut shared.queue);
            let why = "it was broken off before it began";
            let over =
                waiting.into_iter().map(|run| shared.fail_run(run, "Interrupted", why)).collect();
            self.interrupt_running(&mut shared);
            over
        };
        self.save_and_announce(over).await;
    }

    fn interrupt_running(&self, shared: &mut SharedState) {
        let generation = shared.generation;
        let Some(run) = &mut shared.running else { return };
        if run.begun.is_some_and(|begun| begun.elapsed() >= EARLY) {
            shared.send_interrupt();
        } else if !std::mem::replace(&mut run.interrupted, true) {
            tokio::spawn(interrupt_repeatedly(Weak::clone(&self.me), generation, run.number));
        }
    }

    pub(super) async fn replace_kernel(self: &Arc<Self>) -> Result<(), Refusal> {
        let _one = self.starting.lock().await;
        self.lock_shared().require_open()?;
        self.end_kernel("the kernel was restarted", KernelStatus::Starting).await;
        self.start_kernel().await
    }

    /// Ends the kernel, and with it all runs.
    pub(super) async fn end_kernel(&self, why: &str, state: KernelStatus) {
        let over = {
            let mut shared = self.lock_shared();
            shared.died = false;
            shared.detach_kernel(why, state)
        };
        self.save_and_announce(over).await;
    }

    /// Saves the outputs of finished runs, and then announces their ends.
    async fn save_and_announce(&self, over: Vec<FinishedRun>) {
        let saved = {
            let mut file = self.file.lock().await;
            self.save_outputs(&mut file).await
        };
        let mut shared = self.lock_shared();
        for over in over {
            shared.announce_end(over, &saved);
        }
    }

    async fn ensure_kernel(self: &Arc<Self>) -> Result<(), Refusal> {
        let _one = self.starting.lock().await;
        {
            let shared = self.lock_shared();
            shared.require_open()?;
            if shared.orders.is_some() {
                return Ok(());
            }
            if shared.died {
                let why = shared.state.kernel.why.as_deref().unwrap_or("it is not known why");
                return Err(kernel_refusal(format!(
                    "the kernel has died ({why}) and what it knew is gone; restart it, then run \
                     the cells again that others need"
                )));
            }
        }
        self.start_kernel().await
    }

    async fn start_kernel(self: &Arc<Self>) -> Result<(), Refusal> {
        let named = self.file.lock().await.document.kernel_name().map(str::to_owned);
        let wanted = self.kernel_request(named.as_deref());
        let name = wanted.name.clone().unwrap_or_default();
        let kernel = |name, state, why| KernelState { name, state, why };
        self.lock_shared().announce_kernel(kernel(name.clone(), KernelStatus::Starting, None));
        let started = self.kernels.start_kernel(wanted).await;
        let mut shared = self.lock_shared();
        // The notebook was closed meanwhile: the kernel ends with its handle.
        shared.require_open()?;
        match started {
            Ok(link) => {
                shared.generation += 1;
                shared.orders = Some(link.orders);
                shared.died = false;
                shared.announce_kernel(kernel(link.name, KernelStatus::Idle, None));
                let (notebook, generation) = (Arc::downgrade(self), shared.generation);
                tokio::spawn(listen_to_kernel(notebook, generation, link.events));
                Ok(())
            }
            Err(why) => {
                shared.announce_kernel(kernel(name, KernelStatus::Dead, Some(why.clone())));
                Err(kernel_refusal(why))
            }
        }
    }

    /// Ends a run: its outputs are saved before its end is announced.
    async fn finish_run(&self, generation: u64, number: u64, ok: bool, count: Option<u64>) {
        let saved = {
            let mut file = self.file.lock().await;
            {
                let mut shared = self.lock_shared();
                if !shared.is_current_run(generation, number) {
                    return;
                }
                shared.settle_run(count);
            }
            self.save_outputs(&mut file).await
        };
        let mut shared = self.lock_shared();
        if !shared.is_current_run(generation, number) {
            return;
        }
        if let Some(run) = shared.running.take() {
            shared.announce_end(FinishedRun { run, ok }, &saved);
        }
        shared.start_next();
    }

    /// Handles a kernel that has ended by itself.
    async fn lose_kernel(&self, generation: u64, why: &str) {
        let over = {
            let mut shared = self.lock_shared();
            if shared.generation != generation || shared.orders.is_none() {
                return;
            }
            shared.died = true;
            shared.detach_kernel(why, KernelStatus::Dead)
        };
        self.save_and_announce(over).await;
    }
}

impl SharedState {
    /// Checks that a cell can be run now.
    ///
    /// # Errors
    /// Returns the reason why the cell cannot be run now.
    fn can_run(&self, id: &str) -> Result<(), Refusal> {
        self.require_open()?;
        let (_, cell) = self.find_cell(id)?;
        if cell.kind != CellType::Code {
            return Err(Refusal::invalid(format!(
                "cell `{id}` is a {} cell; only code cells run",
                cell.kind.as_str()
            )));
        }
        if cell.running {
            return Err(Refusal::invalid(format!("cell `{id}` is running already")));
        }
        if self.queue.len() >= MAX_QUEUE {
            return Err(Refusal::invalid(format!("{MAX_QUEUE} cells wait to be run already")));
        }
        Ok(())
    }

    fn enqueue(
        &mut self,
        id: &str,
        by: Actor,
        waiter: oneshot::Sender<Result<RunResult, Refusal>>,
    ) -> Result<(), Refusal> {
        // Another request may have begun it while the kernel started.
        self.can_run(id)?;
        if self.orders.is_none() {
            return Err(kernel_refusal("the kernel is gone"));
        }
        let source = self.find_cell(id)?.1.source.clone();
        self.runs += 1;
        self.ended.retain(|_, run| run.id != id);
        self.forget_displays(id);
        self.unsaved.insert(id.to_owned());
        self.announce_change(Some(by), ChangeKind::CellRunning { id: id.to_owned() });
        self.queue.push_back(CellRun {
            number: self.runs,
            id: id.to_owned(),
            by,
            source,
            began: None,
            count: None,
            begun: None,
            interrupted: false,
            given: OutputTally::default(),
            waiter: Some(waiter),
        });
        self.start_next();
        Ok(())
    }

    /// Gives the next run to the kernel, if the kernel is idle.
    fn start_next(&mut self) {
        if self.running.is_some() {
            return;
        }
        // Without a kernel no run waits: all of them ended with it.
        let Some(orders) = self.orders.clone() else { return };
        if let Some(mut run) = self.queue.pop_front() {
            run.began = Some(Instant::now());
            // If the receiver is gone, the kernel's end is announced.
            let _ = orders.send(KernelCommand::Run(run.number, run.source.clone()));
            self.running = Some(run);
        }
        self.announce_kernel_status();
    }

    /// Announces the status of the current kernel.
    fn announce_kernel_status(&mut self) {
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
        self.announce_kernel(KernelState { name, state, why });
    }

    fn send_interrupt(&self) {
        if self.running.is_some()
            && let Some(orders) = &self.orders
        {
            // If the receiver is gone, the kernel's end is announced.
            let _ = orders.send(KernelCommand::Interrupt);
        }
    }

    fn is_current_run(&self, generation: u64, number: u64) -> bool {
        self.generation == generation
            && self.running.as_ref().is_some_and(|run| run.number == number)
    }

    /// Takes over all outputs of the run, before its end.
    fn settle_run(&mut self, count: Option<u64>) {
        self.flush_running();
        let Some(mut run) = self.running.take() else { return };
        run.count = count.or(run.count);
        self.note_left_out(&mut run);
        if let Some(cell) = self.state.cells.iter_mut().find(|cell| cell.id == run.id) {
            cell.execution_count = run.count;
        }
        self.running = Some(run);
    }

    /// Announces the end of a run, once its outputs are saved or could not be saved.
    fn announce_end(&mut self, FinishedRun { run, ok }: FinishedRun, saved: &Result<(), Refusal>) {
        let (seconds, mut run) = (run.seconds(), run);
        let (id, execution_count) = (run.id.clone(), run.count);
        self.announce_change(
            Some(run.by),
            ChangeKind::CellRan { id: id.clone(), ok, execution_count, seconds },
        );
        let cell = self.find_cell(&id).map(|(_, cell)| cell.clone());
        let ran = cell.map(|cell| RunResult { cell, ok, still_running: false, seconds });
        let ran = match saved {
            Ok(()) => ran,
            Err(why) => Err(Refusal {
                message: format!("the cell has run, but its outputs are not saved: {why}"),
                ..why.clone()
            }),
        };
        if let Some(waiter) = run.waiter.take() {
            // The caller may be gone.
            let _ = waiter.send(ran);
        }
        self.ended.retain(|_, ended| ended.id != id);
        // What a kernel that is gone has said was said before its end.
        if self.orders.is_some() {
            self.ended.insert(run.number, run);
        }
    }

    /// Ends a run with an error that the kernel did not report.
    fn fail_run(&mut self, mut run: CellRun, name: &str, why: &str) -> FinishedRun {
        self.flush_run(&mut run);
        self.note_left_out(&mut run);
        self.add_output(
            &mut run,
            kernel::error_output(name, why, &[&format!("{name}: {why}")]),
            None,
        );
        self.unsaved.insert(run.id.clone());
        FinishedRun { run, ok: false }
    }

    /// Removes the kernel, and ends all runs.
    fn detach_kernel(&mut self, why: &str, state: KernelStatus) -> Vec<FinishedRun> {
        self.generation += 1;
        self.orders = None;
        self.ended.clear();
        self.silent = None;
        let name = self.state.kernel.name.clone();
        let known = (state == KernelStatus::Dead).then(|| why.to_owned());
        self.announce_kernel(KernelState { name, state, why: known });
        let error = if state == KernelStatus::Dead { "KernelDied" } else { "Interrupted" };
        let mut over = Vec::new();
        if let Some(run) = self.running.take() {
            over.push(self.fail_run(run, error, why));
        }
        for run in std::mem::take(&mut self.queue) {
            over.push(self.fail_run(run, error, &format!("{why} before the cell began")));
        }
        over
    }

    /// Applies an event of the kernel to its run: the current one, or one that has ended.
    fn take_event(&mut self, event: KernelEvent) {
        let of = match &event {
            KernelEvent::Begun(of, _)
            | KernelEvent::Text(of, ..)
            | KernelEvent::Output(of, ..)
            | KernelEvent::Update(of, ..)
            | KernelEvent::Clear(of, _)
            | KernelEvent::Ended(of, ..) => *of,
            KernelEvent::Silent(_) | KernelEvent::Dead(_) => return,
        };
        if let Some(mut run) = self.running.take_if(|run| run.number == of) {
            self.apply_event(&mut run, event);
            self.running = Some(run);
        } else if let Some(mut run) = self.ended.remove(&of) {
            self.apply_event(&mut run, event);
            self.flush_run(&mut run);
            self.note_left_out(&mut run);
            self.ended.insert(of, run);
        }
    }

    fn apply_event(&mut self, run: &mut CellRun, event: KernelEvent) {
        match event {
            KernelEvent::Begun(_, count) => {
                run.count = count;
                run.begun = Some(Instant::now());
            }
            KernelEvent::Text(_, name, text) => self.gather_text(run, &name, &text),
            KernelEvent::Output(_, output, shown_as) => {
                self.flush_run(run);
                self.add_output(run, output, shown_as);
            }
            KernelEvent::Update(_, name, data, metadata) => {
                self.flush_run(run);
                self.replace_display(run.by, &name, &data, &metadata);
            }
            KernelEvent::Clear(_, waits) => {
                self.flush_run(run);
                self.clear_outputs(run, waits);
            }
            KernelEvent::Ended(..) | KernelEvent::Silent(_) | KernelEvent::Dead(_) => {}
        }
    }
}

/// Interrupts a run that has only just begun, or not yet, until it has ended.
async fn interrupt_repeatedly(notebook: Weak<SharedNotebook>, generation: u64, number: u64) {
    for pause in SOON {
        tokio::time::sleep(pause).await;
        let Some(notebook) = notebook.upgrade() else { return };
        let shared = notebook.lock_shared();
        if !shared.is_current_run(generation, number) {
            return;
        }
        shared.send_interrupt();
    }
}

/// Listens to one kernel, until it ends or the notebook is gone.
async fn listen_to_kernel(
    notebook: Weak<SharedNotebook>,
    generation: u64,
    mut events: mpsc::Receiver<KernelEvent>,
) {
    let mut flush: Option<Instant> = None;
    loop {
        let event = match flush {
            Some(until) => tokio::time::timeout_at(until, events.recv()).await,
            None => Ok(events.recv().await),
        };
        let Some(notebook) = notebook.upgrade() else { return };
        if flush.is_some_and(|until| Instant::now() >= until) {
            notebook.lock_shared().flush_running();
            flush = None;
        }
        match event {
            Err(_) => {}
            Ok(Some(KernelEvent::Ended(number, ok, count))) => {
                notebook.finish_run(generation, number, ok, count).await;
            }
            Ok(Some(KernelEvent::Dead(why))) => {
                return notebook.lose_kernel(generation, &why).await;
            }
            Ok(None) => return notebook.lose_kernel(generation, "it is gone").await,
            Ok(Some(event)) => {
                let mut shared = notebook.lock_shared();
                if shared.generation != generation {
                    return;
                }
                if let KernelEvent::Silent(silent) = event {
                    shared.silent = silent;
                    shared.announce_kernel_status();
                    continue;
                }
                shared.take_event(event);
                if flush.is_none() {
                    flush = shared.flush_delay().map(|time| Instant::now() + time);
                }
            }
        }
    }
}
