//! The names of threads, from the scheduler and from `PERF_RECORD_COMM`.

use super::threads::Threads;

impl Threads {
    pub(crate) fn rename(&mut self, life: u32, ts: Option<i64>, name: String) {
        let thread = &mut self.lives[life as usize];
        if thread.name.as_ref() == Some(&name) {
            return;
        }
        // Replace a name that was read before the recording, unless the scheduler gave it.
        let cached = self.cached[life as usize];
        let early = !cached.named && !cached.active && thread.start_ns.is_none();
        let first = thread.name.is_none() || early;
        // perf lists the threads that exist when it starts, so any other thread started later.
        let since = if thread.name.is_none() && self.lists_threads { ts } else { None };
        let from = if first { thread.start_ns.or(since) } else { ts };
        if first {
            thread.names.clear();
        }
        thread.names.push((from, name.clone()));
        if let Some(process) = thread.process
            && let Some(host) = self.processes.get_mut(process as usize)
            && host.pid == thread.tid
        {
            host.name = Some(name.clone());
        }
        thread.name = Some(name);
    }

    /// The scheduler names the thread, in a field of 16 bytes.
    #[inline]
    pub(crate) fn named(&mut self, life: u32, ts: i64, comm: &[u8]) {
        let cached = &self.cached[life as usize];
        let comm16: Result<[u8; 16], _> = comm.try_into();
        if cached.idle || (cached.named && comm16.is_ok_and(|comm| cached.comm == comm)) {
            return;
        }
        self.named_anew(life, ts, comm);
    }

    /// A wakeup names the thread: all that is known of one that is never seen on a CPU.
    #[inline]
    pub(crate) fn named_if_unnamed(&mut self, life: u32, ts: i64, comm: &[u8]) {
        let cached = &self.cached[life as usize];
        if !cached.named && !cached.idle && self.lives[life as usize].name.is_none() {
            self.named_anew(life, ts, comm);
        }
    }

    #[inline(never)]
    pub(crate) fn named_anew(&mut self, life: u32, ts: i64, comm: &[u8]) {
        let name = schedlens_input::bytes::text(comm);
        let thread = &mut self.lives[life as usize];
        // For a kernel worker, /proc also shows what it works on. That text was in a record, so it
        // remains in `thread_name`, but it is not the thread's name.
        let cached = &mut self.cached[life as usize];
        let longer = !cached.named
            && thread.start_ns.is_none()
            && !name.is_empty()
            && thread.name.as_ref().is_some_and(|known| known.starts_with(&name));
        let comm16: Option<[u8; 16]> = comm.try_into().ok();
        (cached.named, cached.comm) = (comm16.is_some(), comm16.unwrap_or_default());
        if longer {
            if let Some(host) = thread.process.and_then(|p| self.processes.get_mut(p as usize))
                && host.pid == thread.tid
            {
                host.name = Some(name.clone());
            }
            thread.name = Some(name);
        } else if !name.is_empty() {
            self.rename(life, Some(ts), name);
        }
    }

    /// `PERF_RECORD_COMM`; without a time the thread existed before the recording.
    pub(crate) fn comm(&mut self, ids: (i32, i32), ts: Option<i64>, name: String) {
        let (pid, tid) = ids;
        if tid <= 0 {
            return;
        }
        let life = match self.look_up(tid) {
            Some(life) => life,
            None => self.begin(tid, None),
        };
        self.belongs(life, pid);
        self.lists_threads |= ts.is_none();
        self.rename(life, ts, name);
        if ts.is_some() {
            let cached = &mut self.cached[life as usize];
            (cached.active, cached.named) = (true, false);
        }
    }

    /// The name of an id when the recording ended, for a thread that no record named.
    pub(crate) fn named_at_the_end(&mut self, tid: i32, name: &str) {
        let Some(life) = (tid > 0).then(|| self.look_up(tid)).flatten() else { return };
        if self.lives[life as usize].name.is_none() {
            self.rename(life, None, name.to_owned());
        }
    }
}
