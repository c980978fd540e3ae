//! Requests to end: Ctrl-C, Ctrl-Break, and the end of the console, of the session or of the
//! system. This module only listens; the caller decides on the effect.

use std::io;
use std::path::{Path, PathBuf};

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
    ctrl_logoff, ctrl_shutdown,
};

use crate::platform::changes::ChangeWatch;

/// Does nothing: a process has no limit of the size of files.
pub(crate) fn let_long_writes_fail() {}

/// A listener for requests to end.
pub(crate) struct Signals {
    interrupt: CtrlC,
    terminate: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl Signals {
    /// Begins to listen. From then on Ctrl-C and Ctrl-Break no longer end the process by
    /// themselves. After the end of the console Windows ends it within seconds.
    ///
    /// # Errors
    /// Returns an error if the system does not let the process listen.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: ctrl_c()?,
            terminate: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    /// Begins to listen. The end of the console is always listened for.
    ///
    /// # Errors
    /// Returns an error if the system does not let the process listen.
    pub(crate) fn with_hangup() -> io::Result<Self> {
        Self::listen()
    }

    /// Waits for the next request of any kind.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.close.recv() => {}
            _ = self.logoff.recv() => {}
            _ = self.shutdown.recv() => {}
        }
    }
}

/// A listener for requests to read a config again. There is no signal for it, so that a change of
/// the file is the request.
pub(crate) struct Reloads(Option<ChangeWatch>);

impl Reloads {
    /// Begins to watch the file.
    ///
    /// # Errors
    /// Returns no error; on other systems there may be one.
    pub(crate) fn listen(file: Option<&Path>) -> io::Result<Self> {
        Ok(Self(file.map(|file| ChangeWatch::new(PathBuf::from(file)))))
    }

    /// Waits for the next change. Cancel safe.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Some(watch) => watch.wait_for_change().await,
            None => std::future::pending().await,
        }
    }
}
